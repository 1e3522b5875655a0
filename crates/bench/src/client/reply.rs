//! What a streamed reply tells: its times, its tokens and its receipt.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::BenchError;

/// Where the number of tokens comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Counted {
    /// The server's usage.
    Usage,
    /// The pieces of text, where the server sends no usage.
    Pieces,
}

/// What the server says of its rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Rounds.
    pub rounds: u64,
    /// Drafts verified.
    pub drafted: u64,
    /// Drafts kept.
    pub accepted: u64,
    /// Mean milliseconds of a round.
    pub ms_per_round: f64,
    /// Seconds of the prompt.
    pub prefill_seconds: f64,
}

/// A reply with its times, which count from an epoch that replies of one run share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// When the request was sent.
    pub sent: Duration,
    /// When the first piece of text came.
    pub first: Duration,
    /// When the reply's last piece or its end came.
    pub last: Duration,
    /// Pieces of text.
    pub pieces: usize,
    /// Tokens of the reply.
    pub tokens: u64,
    /// What `tokens` is counted by.
    pub counted: Counted,
    /// Tokens of the prompt, if the server tells.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the prompt that were kept from an earlier request, if the server tells.
    pub cached_tokens: Option<u64>,
    /// SHA-256 of the reply's token ids, if the server tells.
    pub token_sha256: Option<String>,
    /// Why the reply ended.
    pub finish_reason: Option<String>,
    /// Counters of the reply, if the server tells.
    pub counters: Option<Counters>,
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

/// Whether a choice carries text of any channel.
fn has_text(choice: &Value) -> bool {
    let delta = &choice["delta"];
    let channels = [&choice["text"], &delta["content"], &delta["reasoning_content"], &delta["reasoning"]];
    channels.into_iter().any(is_text) || delta["tool_calls"].is_array()
}

fn counters(block: &Value) -> Option<Counters> {
    Some(Counters {
        rounds: block["rounds"].as_u64()?,
        drafted: block["drafted"].as_u64()?,
        accepted: block["accepted"].as_u64()?,
        ms_per_round: block["ms_per_round"].as_f64()?,
        prefill_seconds: block["prefill_seconds"].as_f64()?,
    })
}

impl Reply {
    /// Reads the events of one choice's stream, each with the time it came.
    ///
    /// # Errors
    /// An error event, an event that is no JSON, a stream that does not end in `[DONE]`, a reply without any token.
    pub fn of(what: &str, sent: Duration, events: &[(Duration, String)]) -> Result<Self, BenchError> {
        let wrong = |expected, found: &str| BenchError::Answer {
            what: what.to_owned(),
            expected,
            found: found.chars().take(300).collect(),
        };
        let (mut first, mut last, mut pieces) = (None, None, 0);
        let (mut usage, mut block, mut finish_reason) = (Value::Null, Value::Null, None);
        let Some(((_, end), body)) = events.split_last() else {
            return Err(wrong("a stream of events", "none"));
        };
        if end != "[DONE]" {
            return Err(wrong("a stream that ends with [DONE]", end));
        }
        for (at, text) in body {
            let mut event: Value = serde_json::from_str(text).map_err(|_| wrong("JSON events", text))?;
            if !event["error"].is_null() {
                return Err(wrong("a reply", text));
            }
            let choice = &event["choices"][0];
            if has_text(choice) {
                first.get_or_insert(*at);
                last = Some(*at);
                pieces += 1;
            }
            if let Some(reason) = choice["finish_reason"].as_str() {
                finish_reason = Some(reason.to_owned());
                last = Some(*at);
            }
            if event["usage"].is_object() {
                usage = event["usage"].take();
            }
            for name in ["tokenfare", "tensorfold"] {
                if block.is_null() && event[name].is_object() {
                    block = event[name].take();
                }
            }
        }
        let Some(last) = last else { return Err(wrong("a reply", "no text and no end")) };
        let (tokens, counted) = match usage["completion_tokens"].as_u64() {
            Some(tokens) => (tokens, Counted::Usage),
            None => (pieces as u64, Counted::Pieces),
        };
        let sha = block["token_sha256"].as_str().or_else(|| block["token_sha"].as_str());
        Ok(Self {
            sent,
            first: first.unwrap_or(last),
            last,
            pieces,
            tokens,
            counted,
            prompt_tokens: usage["prompt_tokens"].as_u64(),
            cached_tokens: usage["prompt_tokens_details"]["cached_tokens"].as_u64(),
            token_sha256: sha.map(str::to_owned),
            finish_reason,
            counters: counters(&block),
        })
    }

    /// Tokens a second after the first: `(tokens - 1) / (last - first)`; none where no time passed.
    pub fn speed(&self) -> Option<f64> {
        let seconds = (self.last - self.first).as_secs_f64();
        (seconds > 0.0 && self.tokens > 1).then(|| (self.tokens - 1) as f64 / seconds)
    }

    /// From sending the request to the first piece of text.
    pub fn time_to_first_token(&self) -> Duration {
        self.first.saturating_sub(self.sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    fn events(list: &[(u64, Value)]) -> Vec<(Duration, String)> {
        let mut events: Vec<_> =
            list.iter().map(|(ms, event)| (Duration::from_millis(*ms), event.to_string())).collect();
        events.push((Duration::from_secs(9), "[DONE]".into()));
        events
    }

    fn read(list: &[(u64, Value)]) -> Result<Reply, String> {
        Reply::of("POST /x", Duration::from_millis(5), &events(list)).map_err(|e| e.to_string())
    }

    #[test]
    fn a_reply_is_timed_from_its_first_piece_to_its_end() {
        let reply = read(&[
            (10, json!({"choices": [{"delta": {"role": "assistant", "content": ""}, "finish_reason": null}]})),
            (20, json!({"choices": [{"delta": {"content": "a"}, "finish_reason": null}]})),
            (120, json!({"choices": [{"delta": {"reasoning_content": "b"}, "finish_reason": null}]})),
            (220, json!({"choices": [{"delta": {}, "finish_reason": "length"}]})),
            (
                300,
                json!({"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 3,
                "prompt_tokens_details": {"cached_tokens": 1}}, "tokenfare": {"token_sha256": "ab", "rounds": 2,
                "drafted": 3, "accepted": 1, "ms_per_round": 100.0, "prefill_seconds": 0.5}}),
            ),
        ])
        .unwrap();
        let ms = Duration::from_millis;
        assert_eq!((reply.first, reply.last, reply.pieces), (ms(20), ms(220), 2));
        assert_eq!((reply.tokens, reply.counted, reply.speed()), (3, Counted::Usage, Some(10.0)));
        assert_eq!((reply.prompt_tokens, reply.cached_tokens), (Some(4), Some(1)));
        assert_eq!(reply.token_sha256.as_deref(), Some("ab"));
        assert_eq!(reply.time_to_first_token(), ms(15));
        assert_eq!(reply.counters.map(|c| (c.rounds, c.drafted, c.accepted)), Some((2, 3, 1)));
    }

    #[test]
    fn a_server_without_usage_and_hashes_is_counted_by_pieces() {
        let piece = |ms| (ms, json!({"choices": [{"text": "a"}]}));
        let reply = read(&[piece(0), piece(100), piece(200)]).unwrap();
        assert_eq!((reply.tokens, reply.counted, reply.speed()), (3, Counted::Pieces, Some(10.0)));
        assert_eq!((reply.token_sha256, reply.counters, reply.cached_tokens), (None, None, None));
    }

    #[test]
    fn the_short_hash_of_the_public_system_is_read() {
        let end = json!({"choices": [{"text": "a"}], "tensorfold": {"token_sha": "0123456789ab"}});
        assert_eq!(read(&[(1, end)]).unwrap().token_sha256.as_deref(), Some("0123456789ab"));
    }

    #[rstest]
    #[case(json!({"error": {"message": "x"}}), r#"POST /x: expected a reply, found {"error":{"message":"x"}}"#)]
    #[case(json!({"choices": []}), "POST /x: expected a reply, found no text and no end")]
    fn what_is_no_reply_is_told(#[case] event: Value, #[case] message: &str) {
        assert_eq!(read(&[(1, event)]), Err(message.to_owned()));
    }

    #[rstest]
    #[case(&[], "POST /x: expected a stream of events, found none")]
    #[case(&["{}"], "POST /x: expected a stream that ends with [DONE], found {}")]
    #[case(&["x", "[DONE]"], "POST /x: expected JSON events, found x")]
    fn a_broken_stream_is_told(#[case] list: &[&str], #[case] message: &str) {
        let events: Vec<_> = list.iter().map(|text| (Duration::ZERO, (*text).to_owned())).collect();
        assert_eq!(Reply::of("POST /x", Duration::ZERO, &events).unwrap_err().to_string(), message);
    }
}
