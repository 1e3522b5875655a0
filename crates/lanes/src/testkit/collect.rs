//! Whole replies.

use crate::{Channel, Event, Finish, LanesHandle, Piece, Reply, ReplyStats, Request, TokenLogprob};

/// A tool call of a reply.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CollectedCall {
    /// The tool.
    pub name: String,
    /// Arguments so far.
    pub arguments: String,
    /// Whether it was completed.
    pub complete: bool,
}

/// A reply from its first event to its last.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Collected {
    /// Token ids.
    pub ids: Vec<u32>,
    /// Log-probabilities, if asked for.
    pub logprobs: Vec<TokenLogprob>,
    /// Text of the answer.
    pub content: String,
    /// Text of the reasoning.
    pub reasoning: String,
    /// Tool calls in order.
    pub calls: Vec<CollectedCall>,
    /// Number of `Prefilled` events.
    pub prefilled: usize,
    /// Log-probabilities of the prompt, if asked for.
    pub prompt_logprobs: Option<Vec<TokenLogprob>>,
    /// Tokens of each `Tokens` event.
    pub groups: Vec<usize>,
    /// Why it ended; `None` when the events stopped without an end.
    pub finish: Option<Finish>,
    /// Counts and times.
    pub stats: ReplyStats,
}

/// The part of a reply that the exactness contract covers.
#[derive(PartialEq)]
struct Contract<'a> {
    ids: &'a [u32],
    logprobs: &'a [TokenLogprob],
    texts: [&'a str; 2],
    calls: &'a [CollectedCall],
    finish: &'a Option<Finish>,
    token_sha256: &'a str,
    counts: [usize; 3],
    seed: u64,
}

impl Collected {
    fn take(&mut self, pieces: Vec<Piece>) {
        for piece in pieces {
            match piece {
                Piece::Text { channel: Channel::Content, text } => self.content += &text,
                Piece::Text { channel: Channel::Reasoning, text } => self.reasoning += &text,
                Piece::Call(name) => self.calls.push(CollectedCall { name, ..Default::default() }),
                Piece::Arguments(json) => self.call(|call| call.arguments += &json),
                Piece::CallEnd => self.call(|call| call.complete = true),
            }
        }
    }

    fn call(&mut self, change: impl FnOnce(&mut CollectedCall)) {
        change(self.calls.last_mut().expect("a text begins a call before it goes on with it"));
    }

    fn contract(&self) -> Contract<'_> {
        let s = &self.stats;
        Contract {
            ids: &self.ids,
            logprobs: &self.logprobs,
            texts: [&self.content, &self.reasoning],
            calls: &self.calls,
            finish: &self.finish,
            token_sha256: &s.token_sha256,
            counts: [s.prompt_tokens, s.completion_tokens, s.reasoning_tokens],
            seed: s.seed,
        }
    }

    /// Whether two replies are the same in everything that may not depend on drafts, neighbours, pieces or caches:
    /// tokens, log-probabilities, text, calls, reason, hash, usage and seed.
    pub fn same_reply(&self, other: &Self) -> bool {
        self.contract() == other.contract()
    }
}

/// Waits for a reply's end.
pub fn collect(mut reply: Reply) -> Collected {
    let mut all = Collected::default();
    while let Some(event) = reply.blocking_next() {
        match event {
            Event::Prefilled { prompt_logprobs, .. } => {
                all.prefilled += 1;
                all.prompt_logprobs = prompt_logprobs;
            }
            Event::Tokens(tokens) => {
                all.groups.push(tokens.len());
                for token in tokens {
                    all.ids.push(token.id);
                    all.logprobs.extend(token.logprob);
                    all.take(token.pieces);
                }
            }
            Event::Finished { pieces, reason, stats } => {
                all.take(pieces);
                all.finish = Some(reason);
                all.stats = *stats;
            }
        }
    }
    all
}

/// Validates, submits and waits; a refused request ends as failed with the refusal's words.
pub fn run(lanes: &LanesHandle, request: Request) -> Collected {
    let refused = |words: String| Collected { finish: Some(Finish::Failed(words)), ..Default::default() };
    let valid = match request.validate(lanes.info()) {
        Ok(valid) => valid,
        Err(error) => return refused(error.to_string()),
    };
    match lanes.submit(valid) {
        Ok(reply) => collect(reply),
        Err(error) => refused(error.to_string()),
    }
}
