//! A compiled grammar inside a reply.

use llguidance::Matcher;
use llguidance::api::StopReason;
use tokenfare_lanes::{Grammar, GrammarError};

/// A grammar of the `llguidance` library.
pub(crate) struct State {
    matcher: Matcher,
}

impl State {
    /// The state before a reply, with the work for the first token done.
    ///
    /// # Errors
    /// No reply can begin.
    pub(crate) fn begin(matcher: Matcher) -> Result<Self, GrammarError> {
        let mut state = Self { matcher };
        if !state.is_complete() {
            state.matcher.compute_mask().map_err(words)?;
        }
        Ok(state)
    }
}

/// The library's words without the dump of its state.
fn words(error: impl std::fmt::Display) -> GrammarError {
    let words = error.to_string();
    let line = words.lines().next().unwrap_or_default();
    // The library names this one alone instead of saying it.
    let dead_end = StopReason::NoExtensionBias.to_string();
    GrammarError(if line == dead_end { "no token continues it".to_owned() } else { line.to_owned() })
}

impl Grammar for State {
    fn mask(&mut self, allowed: &mut [u32]) -> Result<(), GrammarError> {
        let mask = self.matcher.compute_mask().map_err(words)?;
        let words = mask.as_slice().iter().copied().chain(std::iter::repeat(0));
        allowed.iter_mut().zip(words).for_each(|(word, mask)| *word &= mask);
        Ok(())
    }

    fn accept(&mut self, token: u32) -> Result<(), GrammarError> {
        self.matcher.consume_token(token).map_err(words)
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
