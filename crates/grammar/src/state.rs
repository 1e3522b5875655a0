//! A compiled grammar inside a reply.

use llguidance::Matcher;
use llguidance::api::StopReason;
use tokenfare_lanes::{Grammar, GrammarError};

/// A grammar of the `llguidance` library.
pub(crate) struct State {
    matcher: Matcher,
}

impl State {
    pub(crate) fn new(matcher: Matcher) -> Self {
        Self { matcher }
    }

    /// The library's words without the dump of its state.
    fn error(&self, error: impl std::fmt::Display) -> GrammarError {
        let words = match self.matcher.stop_reason() {
            StopReason::LexerTooComplex => "its words are too complex".to_owned(),
            StopReason::ParserTooComplex => "its rules are too complex".to_owned(),
            StopReason::NoExtensionBias => "no token continues it".to_owned(),
            _ => error.to_string().lines().next().unwrap_or_default().to_owned(),
        };
        GrammarError(words)
    }
}

impl Grammar for State {
    fn mask(&mut self, allowed: &mut [u32]) -> Result<(), GrammarError> {
        let mask = self.matcher.compute_mask().map_err(|e| self.error(e))?;
        let words = mask.as_slice().iter().copied().chain(std::iter::repeat(0));
        allowed.iter_mut().zip(words).for_each(|(word, mask)| *word &= mask);
        Ok(())
    }

    fn accept(&mut self, token: u32) -> Result<(), GrammarError> {
        self.matcher.consume_token(token).map_err(|e| self.error(e))
    }

    fn admits(&mut self, drafts: &[u32]) -> usize {
        // A state that fails here fails again at the mask, which tells.
        self.matcher.validate_tokens(drafts).unwrap_or(0)
    }

    fn is_complete(&self) -> bool {
        self.matcher.is_stopped() && self.matcher.stop_reason().is_ok()
    }

    fn fork(&self) -> Box<dyn Grammar> {
        Box::new(Self { matcher: self.matcher.deep_clone() })
    }
}
