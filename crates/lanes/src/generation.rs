//! One reply as it grows, token by token.

use crate::sampling::LogSoftmax;
use crate::{Finish, GrammarError, Piece, Sampler, Sampling, Text, ThinkingBudget, TokenEvent};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// [`Generation::token_sha256`] of a reply without tokens.
pub(crate) const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Why no token could be decided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Undecided {
    /// The grammar left no token.
    #[error("the grammar allows no token at position {position}")]
    NoToken { position: usize },
    /// The grammar cannot go on.
    #[error(transparent)]
    Grammar(#[from] GrammarError),
}

/// Working memory of draws.
#[derive(Debug)]
pub(crate) struct Drawer {
    sampler: Sampler,
    vocab: usize,
    allowed: Vec<u32>,
}

impl Drawer {
    pub(crate) fn new(vocab: usize) -> Self {
        Self { sampler: Sampler::new(), vocab, allowed: Vec::new() }
    }

    /// Allows the whole vocabulary and nothing beyond it.
    fn allow_all(&mut self) -> &mut [u32] {
        self.allowed.clear();
        self.allowed.resize(self.vocab.div_ceil(32), u32::MAX);
        if let (Some(last), used @ 1..) = (self.allowed.last_mut(), self.vocab % 32) {
            *last = (1 << used) - 1;
        }
        &mut self.allowed
    }
}

/// What decides and ends a reply: the same token by token, however rounds group them.
pub(crate) struct Generation {
    pub(crate) sampling: Sampling,
    pub(crate) max_new: usize,
    pub(crate) stop_tokens: Vec<u32>,
    pub(crate) thinking: Option<ThinkingBudget>,
    /// Alternatives to report beside each token, if log-probabilities are wanted.
    pub(crate) logprobs: Option<usize>,
    pub(crate) text: Box<dyn Text>,
    count: usize,
    reasoning: usize,
    hash: Sha256,
    /// Whether a grammar masked the last draw.
    masked: bool,
}

impl Generation {
    pub(crate) fn new(
        sampling: Sampling,
        max_new: usize,
        stop_tokens: Vec<u32>,
        thinking: Option<ThinkingBudget>,
        logprobs: Option<usize>,
        text: Box<dyn Text>,
    ) -> Self {
        Self {
            sampling,
            max_new,
            stop_tokens,
            thinking,
            logprobs,
            text,
            count: 0,
            reasoning: 0,
            hash: Sha256::new(),
            masked: false,
        }
    }

    /// Tokens so far.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Tokens inside the reasoning so far, its closing tag included.
    pub(crate) fn reasoning_count(&self) -> usize {
        self.reasoning
    }

    pub(crate) fn masked(&self) -> bool {
        self.masked
    }

    /// Tokens that may still come.
    pub(crate) fn room(&self) -> usize {
        self.max_new - self.count
    }

    /// Lower-case hex SHA-256 of the decimal ids joined by ",".
    pub(crate) fn token_sha256(&self) -> String {
        self.hash.clone().finalize().iter().fold(String::new(), |mut hex, byte| {
            // Writing to a string cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }

    /// The token that must come next, whatever the logits: the closing tag, once the thinking budget is spent.
    pub(crate) fn forced(&self) -> Option<u32> {
        let spent = |b: &ThinkingBudget| self.text.reasoning() && self.reasoning >= b.tokens;
        self.thinking.filter(spent).map(|b| b.close)
    }

    /// How many of `drafts`, from the first, are worth verifying: those past the room, the thinking budget, a stop
    /// token or the grammar cannot be kept.
    pub(crate) fn admits(&mut self, drafts: &[u32]) -> usize {
        let mut most = drafts.len().min(self.room().saturating_sub(1));
        if let Some(budget) = self.thinking.filter(|_| self.text.reasoning()) {
            most = most.min(budget.tokens.saturating_sub(self.reasoning));
        }
        if let Some(stop) = drafts[..most].iter().position(|id| self.stop_tokens.contains(id)) {
            most = stop + 1;
        }
        self.text.admits(&drafts[..most]).min(most)
    }

    /// Decides the token at `position` from the logits of the row before it.
    pub(crate) fn choose(
        &mut self,
        logits: &[f32],
        position: usize,
        drawer: &mut Drawer,
    ) -> Result<u32, Undecided> {
        if let Some(id) = self.forced() {
            return Ok(id);
        }
        self.masked = self.text.mask(drawer.allow_all())?;
        if !self.masked {
            return Ok(drawer.sampler.draw(logits, &self.sampling, position, None));
        }
        if drawer.allowed.iter().all(|&word| word == 0) {
            return Err(Undecided::NoToken { position });
        }
        Ok(drawer.sampler.draw(logits, &self.sampling, position, Some(&drawer.allowed)))
    }

    /// Appends a decided token; says why the reply ends if it ends with this token.
    pub(crate) fn commit(&mut self, id: u32, logits: &[f32]) -> (TokenEvent, Option<Finish>) {
        if self.count > 0 {
            self.hash.update(b",");
        }
        self.hash.update(id.to_string());
        self.count += 1;
        self.reasoning += usize::from(self.text.reasoning());
        let stops = self.stop_tokens.contains(&id);
        let step = self.text.push(id, stops);
        let finish = if stops {
            Some(Finish::Stop)
        } else if let Some(end) = step.end {
            Some(Finish::Text(end))
        } else {
            (self.count == self.max_new).then_some(Finish::Length)
        };
        let logprob = self.logprobs.map(|top| LogSoftmax::new(logits).report(id, top));
        (TokenEvent { id, pieces: step.pieces, logprob }, finish)
    }

    /// Text still held back at the end.
    pub(crate) fn finish(&mut self) -> Vec<Piece> {
        self.text.finish()
    }
}
