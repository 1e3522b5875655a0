//! Tokens and modelled milliseconds of the last rounds.

use std::collections::VecDeque;

/// Rounds that a history looks back.
pub const HISTORY_ROUNDS: usize = 16;

/// The last rounds of a slot, or of all rounds with one number of windows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct History {
    rounds: VecDeque<(f64, f64)>,
}

impl History {
    /// Adds a round of `tokens` committed in `ms` modelled milliseconds.
    pub fn push(&mut self, tokens: usize, ms: f64) {
        if self.rounds.len() == HISTORY_ROUNDS {
            self.rounds.pop_front();
        }
        self.rounds.push_back((tokens as f64, ms));
    }

    /// Tokens a millisecond over the rounds held; `None` before the first.
    pub fn rate(&self) -> Option<f64> {
        let (tokens, ms) =
            self.rounds.iter().fold((0.0, 0.0), |sum, round| (sum.0 + round.0, sum.1 + round.1));
        (ms > 0.0).then(|| tokens / ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_sixteen_rounds_count() {
        let mut h = History::default();
        assert_eq!(h.rate(), None);
        h.push(100, 1.0);
        assert_eq!(h.rate(), Some(100.0));
        for _ in 0..15 {
            h.push(1, 1.0);
        }
        assert_eq!(h.rate(), Some(115.0 / 16.0));
        h.push(2, 1.0);
        assert_eq!(h.rate(), Some(17.0 / 16.0));
    }
}
