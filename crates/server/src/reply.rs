//! From lane events to a protocol's reply: as events or collected.

use axum::http::StatusCode;
use serde_json::{Value, json};
use tokenfare_lanes::{Channel, Event, Finish, Piece, ReplyStats, TextEnd, TokenEvent, TokenLogprob};

use crate::ApiError;

/// A part of a reply, in the words of no protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyEvent {
    /// More of the reasoning.
    Reasoning(String),
    /// More of the answer.
    Content(String),
    /// A tool call begins.
    CallStart {
        /// Its place among the calls.
        index: usize,
        /// Its id, unique among replies.
        id: String,
        /// The tool, with its namespace as the model writes it.
        name: String,
    },
    /// More of a call's arguments: together they are the text of one JSON object.
    Arguments {
        /// The call's place.
        index: usize,
        /// The text.
        json: String,
    },
    /// A call is complete.
    CallEnd {
        /// The call's place.
        index: usize,
    },
}

/// Why a reply ended, in the words of no protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndReason {
    /// The model ended it, or its grammar is complete.
    Stop,
    /// A stop string.
    StopString(String),
    /// No more tokens were allowed.
    Length,
    /// It consists of tool calls, all of them complete.
    ToolCalls,
}

impl EndReason {
    /// The word of OpenAI's protocols.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Stop | Self::StopString(_) => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
        }
    }
}

/// Follows one reply and tells its parts.
#[derive(Debug, Default)]
pub struct Events {
    /// Begins the ids of its calls.
    stem: String,
    begun: usize,
    complete: usize,
}

impl Events {
    /// The events of a reply whose calls have ids that begin with `stem`.
    pub fn new(stem: String) -> Self {
        Self { stem, ..Self::default() }
    }

    /// The event of a piece.
    pub fn piece(&mut self, piece: Piece) -> ReplyEvent {
        let index = self.begun.saturating_sub(1);
        match piece {
            Piece::Text { channel: Channel::Content, text } => ReplyEvent::Content(text),
            Piece::Text { channel: Channel::Reasoning, text } => ReplyEvent::Reasoning(text),
            Piece::Call(name) => {
                let index = self.begun;
                self.begun += 1;
                ReplyEvent::CallStart { index, id: format!("call_{}_{index}", self.stem), name }
            }
            Piece::Arguments(json) => ReplyEvent::Arguments { index, json },
            Piece::CallEnd => {
                self.complete += 1;
                ReplyEvent::CallEnd { index }
            }
        }
    }

    /// Why the reply ended; one that failed or was cancelled is an error.
    pub fn end(&self, finish: &Finish) -> Result<EndReason, ApiError> {
        let called = self.begun > 0 && self.begun == self.complete;
        match finish {
            // A client that left sees no end, so this one met the end of the server.
            Finish::Cancelled => Err(ApiError::status(
                StatusCode::SERVICE_UNAVAILABLE,
                "the server shut down before the reply ended",
            )),
            Finish::Failed(cause) => Err(failure(cause)),
            Finish::Length => Ok(EndReason::Length),
            Finish::Text(TextEnd::StopString(string)) => Ok(EndReason::StopString(string.clone())),
            Finish::Stop | Finish::Text(_) if called => Ok(EndReason::ToolCalls),
            Finish::Stop | Finish::Text(_) => Ok(EndReason::Stop),
        }
    }
}

/// A tool call of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// Its id.
    pub id: String,
    /// The tool, with its namespace as the model writes it.
    pub name: String,
    /// The text of a JSON object; of a part of one where the call was broken off.
    pub arguments: String,
}

/// One choice of a reply so far.
#[derive(Debug, Default)]
pub struct Collected {
    events: Events,
    /// Answer text.
    pub content: String,
    /// Reasoning text.
    pub reasoning: String,
    /// Tool calls.
    pub calls: Vec<ToolCall>,
    /// Token ids.
    pub ids: Vec<u32>,
    /// Log-probabilities of the tokens, if asked for.
    pub logprobs: Vec<TokenLogprob>,
    /// Log-probabilities of prompt tokens 1.., if asked for.
    pub prompt_logprobs: Option<Vec<TokenLogprob>>,
    /// The end.
    pub end: Option<(Finish, ReplyStats)>,
}

impl Collected {
    /// A reply whose events `events` tells.
    pub fn new(events: Events) -> Self {
        Self { events, ..Self::default() }
    }

    /// Takes one event in.
    pub fn take(&mut self, event: Event) {
        match event {
            Event::Prefilled { prompt_logprobs, .. } => self.prompt_logprobs = prompt_logprobs,
            Event::Tokens(tokens) => tokens.into_iter().for_each(|t| self.token(t)),
            Event::Finished { pieces, reason, stats } => {
                pieces.into_iter().for_each(|p| self.piece(p));
                self.end = Some((reason, *stats));
            }
        }
    }

    fn token(&mut self, token: TokenEvent) {
        self.ids.push(token.id);
        self.logprobs.extend(token.logprob);
        token.pieces.into_iter().for_each(|p| self.piece(p));
    }

    fn piece(&mut self, piece: Piece) {
        match self.events.piece(piece) {
            ReplyEvent::Content(text) => self.content.push_str(&text),
            ReplyEvent::Reasoning(text) => self.reasoning.push_str(&text),
            ReplyEvent::CallStart { id, name, .. } => {
                self.calls.push(ToolCall { id, name, arguments: String::new() });
            }
            ReplyEvent::Arguments { index, json } => {
                if let Some(call) = self.calls.get_mut(index) {
                    call.arguments.push_str(&json);
                }
            }
            ReplyEvent::CallEnd { .. } => {}
        }
    }

    /// The end of a complete reply; a failed one is an error.
    pub fn finish(&self) -> Result<(EndReason, &ReplyStats), ApiError> {
        let Some((finish, stats)) = &self.end else {
            return Err(unfinished());
        };
        Ok((self.events.end(finish)?, stats))
    }
}

/// The error of a reply without an end.
pub fn unfinished() -> ApiError {
    failure("the engine stopped before the reply ended")
}

fn failure(cause: &str) -> ApiError {
    ApiError::status(StatusCode::INTERNAL_SERVER_ERROR, cause)
}

/// `usage` over all choices in order, `n` a prompt: each prompt counts once, as its first choice met it.
pub fn usage(stats: &[&ReplyStats], n: usize) -> Value {
    let prompts = || stats.iter().step_by(n.max(1));
    let prompt: usize = prompts().map(|s| s.prompt_tokens).sum();
    let cached: usize = prompts().map(|s| s.cached_tokens).sum();
    let completion: usize = stats.iter().map(|s| s.completion_tokens).sum();
    let reasoning: usize = stats.iter().map(|s| s.reasoning_tokens).sum();
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    })
}

fn ratio(part: f64, whole: f64) -> Value {
    if whole > 0.0 { json!(part / whole) } else { Value::Null }
}

/// The `tokenfare` block: the reply's hash and how it was decoded. A rate without a base is null.
pub fn receipt(stats: &ReplyStats) -> Value {
    let (rounds, decoded) = (stats.rounds as f64, stats.completion_tokens.saturating_sub(1) as f64);
    json!({
        "token_sha256": stats.token_sha256,
        "token_sha": stats.token_sha256.get(..12),
        "seed": stats.seed,
        "rounds": stats.rounds,
        "drafted": stats.drafted,
        "accepted": stats.accepted,
        "acceptance_rate": ratio(stats.accepted as f64, stats.drafted as f64),
        "tokens_per_round": ratio(decoded, rounds),
        "ms_per_round": ratio(1e3 * stats.round_s, rounds),
        "tokens_per_second": ratio(decoded, stats.decode_s),
        "time_to_first_token": stats.queue_s + stats.prefill_s,
        "prefill_seconds": stats.prefill_s,
        "decode_seconds": stats.decode_s,
    })
}

/// Adds the receipt under both names that clients read.
pub fn add_receipt(body: &mut Value, stats: &ReplyStats) {
    body["tokenfare"] = receipt(stats);
    body["tensorfold"] = body["tokenfare"].clone();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_numbered_and_the_end_says_whether_all_are_complete() {
        let mut events = Events::new("a_0".to_owned());
        let start = |index, name: &str| ReplyEvent::CallStart {
            index,
            id: format!("call_a_0_{index}"),
            name: name.to_owned(),
        };
        assert_eq!(events.end(&Finish::Stop), Ok(EndReason::Stop));
        assert_eq!(events.piece(Piece::Call("f".into())), start(0, "f"));
        assert_eq!(events.end(&Finish::Stop), Ok(EndReason::Stop));
        assert_eq!(events.piece(Piece::CallEnd), ReplyEvent::CallEnd { index: 0 });
        assert_eq!(events.end(&Finish::Text(TextEnd::Call)), Ok(EndReason::ToolCalls));
        assert_eq!(events.piece(Piece::Call("g".into())), start(1, "g"));
        let json = "{}".to_owned();
        assert_eq!(events.piece(Piece::Arguments(json.clone())), ReplyEvent::Arguments { index: 1, json });
        assert_eq!(events.end(&Finish::Stop), Ok(EndReason::Stop));
        assert_eq!(events.end(&Finish::Length), Ok(EndReason::Length));
        let stop = TextEnd::StopString("x".into());
        assert_eq!(events.end(&Finish::Text(stop)), Ok(EndReason::StopString("x".into())));
        assert_eq!(events.end(&Finish::Failed("why".into())).unwrap_err().message, "why");
    }
}
