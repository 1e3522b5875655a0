//! Whole replies.

use crate::{Channel, Event, Finish, LanesHandle, Piece, Reply, ReplyStats, Request, TokenLogprob};

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
type Contract<'a> =
    (&'a [u32], &'a [TokenLogprob], &'a str, &'a str, &'a Option<Finish>, &'a str, [usize; 3], u64);

impl Collected {
    fn text(&mut self, pieces: Vec<Piece>) {
        for piece in pieces {
            match piece.channel {
                Channel::Content => self.content += &piece.text,
                Channel::Reasoning => self.reasoning += &piece.text,
            }
        }
    }

    fn contract(&self) -> Contract<'_> {
        let s = &self.stats;
        let counts = [s.prompt_tokens, s.completion_tokens, s.reasoning_tokens];
        (
            &self.ids,
            &self.logprobs,
            &self.content,
            &self.reasoning,
            &self.finish,
            &s.token_sha256,
            counts,
            s.seed,
        )
    }

    /// Whether two replies are the same in everything that may not depend on drafts, neighbours, pieces or caches:
    /// tokens, log-probabilities, text, reason, hash, usage and seed.
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
                    all.text(token.pieces);
                }
            }
            Event::Finished { pieces, reason, stats } => {
                all.text(pieces);
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
