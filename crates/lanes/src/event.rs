//! What a client of a lane receives.

use crate::{Piece, RoundTimes, TextEnd};

/// A token with its log-probability (log-softmax of the raw logits, before bias, temperature and filters).
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprob {
    /// Token id.
    pub id: u32,
    /// Log-probability.
    pub logprob: f32,
    /// The likeliest tokens, best first, ties to the lower id.
    pub top: Vec<(u32, f32)>,
}

/// One committed token.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenEvent {
    /// Token id.
    pub id: u32,
    /// Text released by this token (possibly of earlier tokens).
    pub pieces: Vec<Piece>,
    /// If asked for.
    pub logprob: Option<TokenLogprob>,
}

/// Why a reply ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// A stop token.
    Stop,
    /// Text: a stop string or a complete grammar.
    Text(TextEnd),
    /// `max_new` tokens.
    Length,
    /// The client went away or cancelled.
    Cancelled,
    /// The model failed; the error's words.
    Failed(String),
}

/// Counts and times of one reply.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReplyStats {
    /// Prompt tokens.
    pub prompt_tokens: usize,
    /// Prompt tokens resumed from a kept state.
    pub cached_tokens: usize,
    /// Tokens of the reply.
    pub completion_tokens: usize,
    /// Tokens of the reply inside the reasoning, its closing tag included.
    pub reasoning_tokens: usize,
    /// The seed in force.
    pub seed: u64,
    /// Verify rounds.
    pub rounds: usize,
    /// Drafts verified.
    pub drafted: usize,
    /// Drafts kept.
    pub accepted: usize,
    /// Drafts verified and kept that were copied from the stream's own tokens, part of the two counts above.
    pub copied: (usize, usize),
    /// Rounds that verified no draft.
    pub zero_depth: usize,
    /// Seconds waiting for a lane.
    pub queue_s: f64,
    /// Seconds from admission to the first token.
    pub prefill_s: f64,
    /// Seconds from the first token to the last.
    pub decode_s: f64,
    /// Seconds inside this reply's rounds (shared rounds count in full).
    pub round_s: f64,
    /// Where that time went.
    pub round_times: RoundTimes,
    /// Lower-case hex SHA-256 of the reply's decimal token ids joined by ",".
    pub token_sha256: String,
}

/// What happens to a request, in this order: `Prefilled`, then `Tokens` any number of times, then `Finished`.
/// A request that fails or is cancelled early has `Finished` alone.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The prompt is in.
    Prefilled {
        /// Prompt tokens resumed from a kept state.
        cached: usize,
        /// Of prompt tokens 1.., if asked for.
        prompt_logprobs: Option<Vec<TokenLogprob>>,
    },
    /// One round's tokens, at least one.
    Tokens(Vec<TokenEvent>),
    /// The end: text that was still held back, the reason, and the counts.
    Finished {
        /// Last pieces of text.
        pieces: Vec<Piece>,
        /// Why.
        reason: Finish,
        /// Counts and times.
        stats: Box<ReplyStats>,
    },
}
