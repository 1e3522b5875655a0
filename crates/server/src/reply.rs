//! From lane events to a protocol's reply: collected or streamed.

use serde_json::{Value, json};
use tokenfare_lanes::{Channel, Event, Finish, Piece, ReplyStats, TokenEvent, TokenLogprob};

use crate::ApiError;

/// One choice of a reply so far.
#[derive(Debug, Default)]
pub struct Collected {
    /// Answer text.
    pub content: String,
    /// Reasoning text.
    pub reasoning: String,
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
        match piece.channel {
            Channel::Content => self.content.push_str(&piece.text),
            Channel::Reasoning => self.reasoning.push_str(&piece.text),
        }
    }

    /// The end of a complete reply; a failed one is an error.
    pub fn finish(&self) -> Result<(&'static str, &ReplyStats), ApiError> {
        let Some((reason, stats)) = &self.end else {
            return Err(failure("the engine stopped before the reply ended"));
        };
        Ok((finish_reason(reason)?, stats))
    }
}

fn failure(cause: &str) -> ApiError {
    ApiError::status(axum::http::StatusCode::INTERNAL_SERVER_ERROR, cause)
}

/// The word of OpenAI's protocols for why a reply ended.
pub fn finish_reason(reason: &Finish) -> Result<&'static str, ApiError> {
    match reason {
        Finish::Stop | Finish::Text(_) => Ok("stop"),
        Finish::Length => Ok("length"),
        Finish::Cancelled => Err(failure("the request was cancelled")),
        Finish::Failed(cause) => Err(failure(cause)),
    }
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
