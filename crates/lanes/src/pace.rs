//! How prompt pieces and rounds take turns.

use std::time::Duration;

/// What the engine does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Feed the next piece of a prompt.
    Piece,
    /// Run a round of the streams that decode.
    Round,
}

/// Gives running streams a share of every piece's time before the next piece.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Percent of a piece's time; 0 lets whole prompts go first.
    share: u32,
    /// What running streams are still owed.
    owed: Duration,
    /// Whether a piece was fed since the last round.
    piece_since_round: bool,
}

impl Pace {
    pub(crate) fn new(share: u32) -> Self {
        Self { share, owed: Duration::ZERO, piece_since_round: false }
    }

    /// What comes next; `None` when there is nothing to do. At least one round follows each piece, unless the share is 0.
    pub(crate) fn next(&self, prefilling: bool, decoding: bool) -> Option<Turn> {
        let rounds_due = self.share > 0 && (self.piece_since_round || !self.owed.is_zero());
        match (prefilling, decoding) {
            (false, false) => None,
            (true, true) if rounds_due => Some(Turn::Round),
            (true, _) => Some(Turn::Piece),
            (false, true) => Some(Turn::Round),
        }
    }

    pub(crate) fn piece_took(&mut self, time: Duration) {
        self.owed = time * self.share / 100;
        self.piece_since_round = true;
    }

    pub(crate) fn round_took(&mut self, time: Duration) {
        self.owed = self.owed.saturating_sub(time);
        self.piece_since_round = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn rounds_get_their_share_of_a_piece() {
        let mut pace = Pace::new(25);
        assert_eq!(pace.next(true, true), Some(Turn::Piece));
        pace.piece_took(100 * MS);
        let mut rounds = 0;
        while pace.next(true, true) == Some(Turn::Round) {
            pace.round_took(10 * MS);
            rounds += 1;
        }
        assert_eq!(rounds, 3);
    }

    #[test]
    fn a_piece_too_short_to_measure_is_followed_by_one_round() {
        let mut pace = Pace::new(1);
        pace.piece_took(Duration::ZERO);
        assert_eq!(pace.next(true, true), Some(Turn::Round));
        pace.round_took(MS);
        assert_eq!(pace.next(true, true), Some(Turn::Piece));
    }

    #[test]
    fn share_zero_feeds_whole_prompts_first() {
        let mut pace = Pace::new(0);
        pace.piece_took(100 * MS);
        assert_eq!(pace.next(true, true), Some(Turn::Piece));
        assert_eq!(pace.next(false, true), Some(Turn::Round));
        assert_eq!(pace.next(true, false), Some(Turn::Piece));
        assert_eq!(pace.next(false, false), None);
    }
}
