//! How prompt pieces and rounds take turns.

use std::time::Duration;

/// Tenths of a usual round that a piece and the round after it may take together: under thirty, since rounds differ among
/// themselves and gaps are to stay under three usual ones.
const GAP_TENTHS: u32 = 20;

/// Least rows that a piece is cut to: fewer cost a launch almost as much.
const LEAST_ROWS: usize = 8;

/// What the engine does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Feed the next piece of a prompt.
    Piece,
    /// Run a round of the streams that decode.
    Round,
}

/// A time that follows the last ones smoothly.
#[derive(Debug, Default)]
struct Smoothed(Option<Duration>);

impl Smoothed {
    fn add(&mut self, time: Duration) {
        self.0 = Some(self.0.map_or(time, |mean| (mean * 7 + time) / 8));
    }
}

/// Gives running streams a share of every piece's time before the next piece, and keeps pieces beside them short.
///
/// The share bounds the mean gap. The longest gap is a piece and the round after it; its piece is cut to what fits beside that
/// round into [`GAP_TENTHS`] of a usual round, learnt from the pieces before. Where pieces are cut moves no bit of a reply.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Percent of a piece's time; 0 lets whole prompts go first.
    share: u32,
    /// Most rows of any piece.
    most: usize,
    /// What running streams are still owed.
    owed: Duration,
    /// Whether a piece was fed since the last round.
    piece_since_round: bool,
    /// Most rows of a piece beside running streams.
    rows: usize,
    /// A round while no prompt is fed.
    usual: Smoothed,
    /// A round right after a piece, which finds the model's weights out of the processor's caches.
    after_piece: Smoothed,
}

impl Pace {
    /// Prompts in pieces of at most `most` rows, at least one.
    pub(crate) fn new(share: u32, most: usize) -> Self {
        Self {
            share,
            most,
            owed: Duration::ZERO,
            piece_since_round: false,
            rows: LEAST_ROWS.min(most),
            usual: Smoothed::default(),
            after_piece: Smoothed::default(),
        }
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

    /// Most rows of the next piece beside running streams.
    pub(crate) fn rows(&self) -> usize {
        if self.share == 0 { self.most } else { self.rows }
    }

    /// A piece of `rows` rows was fed; `beside` tells whether streams waited for it.
    pub(crate) fn piece_took(&mut self, time: Duration, rows: usize, beside: bool) {
        self.owed = time * self.share / 100;
        self.piece_since_round = true;
        if beside {
            self.learn(time, rows);
        }
    }

    /// A round was run; `feeding` tells whether a prompt waits for its next piece.
    pub(crate) fn round_took(&mut self, time: Duration, feeding: bool) {
        self.owed = self.owed.saturating_sub(time);
        if !feeding {
            self.usual.add(time);
        } else if self.piece_since_round {
            self.after_piece.add(time);
        }
        self.piece_since_round = false;
    }

    /// The time of a piece, as far as rounds are known.
    fn allowed(&self) -> Option<Duration> {
        let usual = self.usual.0.or(self.after_piece.0)?;
        let after_piece = self.after_piece.0.unwrap_or(usual);
        Some((usual * GAP_TENTHS / 10).saturating_sub(after_piece).max(usual / 2))
    }

    /// Moves the limit to the rows that take the allowed time, at most to the double, so that one quick piece makes no long one.
    fn learn(&mut self, time: Duration, rows: usize) {
        let Some(allowed) = self.allowed().filter(|_| rows > 0) else { return };
        let fitting = match time.as_nanos() {
            0 => usize::MAX,
            nanos => usize::try_from(rows as u128 * allowed.as_nanos() / nanos).unwrap_or(usize::MAX),
        };
        // A piece cut short by its prompt says little about longer ones.
        if rows >= self.rows || fitting < self.rows {
            self.rows = fitting.min(self.rows * 2).max(LEAST_ROWS).min(self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn rounds_get_their_share_of_a_piece() {
        let mut pace = Pace::new(25, 256);
        assert_eq!(pace.next(true, true), Some(Turn::Piece));
        pace.piece_took(100 * MS, 256, true);
        let mut rounds = 0;
        while pace.next(true, true) == Some(Turn::Round) {
            pace.round_took(10 * MS, true);
            rounds += 1;
        }
        assert_eq!(rounds, 3);
    }

    #[test]
    fn a_piece_too_short_to_measure_is_followed_by_one_round() {
        let mut pace = Pace::new(1, 256);
        pace.piece_took(Duration::ZERO, 1, true);
        assert_eq!(pace.next(true, true), Some(Turn::Round));
        pace.round_took(MS, true);
        assert_eq!(pace.next(true, true), Some(Turn::Piece));
    }

    #[test]
    fn share_zero_feeds_whole_prompts_first() {
        let mut pace = Pace::new(0, 256);
        pace.piece_took(100 * MS, 256, true);
        assert_eq!(pace.next(true, true), Some(Turn::Piece));
        assert_eq!(pace.next(false, true), Some(Turn::Round));
        assert_eq!(pace.next(true, false), Some(Turn::Piece));
        assert_eq!(pace.next(false, false), None);
    }

    /// Feeds `len` rows beside rounds of ten milliseconds, where a piece takes `fixed` and `row` a row: the limits of the pieces.
    fn feed(pace: &mut Pace, len: usize, fixed: Duration, row: Duration) -> Vec<usize> {
        let mut limits = Vec::new();
        let mut fed = 0;
        while fed < len {
            match pace.next(true, true) {
                Some(Turn::Piece) => {
                    let rows = pace.rows().min(len - fed);
                    limits.push(pace.rows());
                    pace.piece_took(fixed + row * rows as u32, rows, true);
                    fed += rows;
                }
                _ => pace.round_took(10 * MS, true),
            }
        }
        limits
    }

    #[test]
    fn pieces_grow_to_what_fits_beside_a_round_and_are_remembered() {
        let mut pace = Pace::new(25, 256);
        (0..20).for_each(|_| pace.round_took(10 * MS, false));
        assert_eq!(feed(&mut pace, 150, Duration::ZERO, MS / 2), [8, 16, 20, 20, 20, 20, 20, 20, 20]);
        assert_eq!(feed(&mut pace, 60, Duration::ZERO, MS / 2), [20, 20, 20]);
    }

    #[test]
    fn pieces_shrink_at_once_where_rows_are_dear_but_not_below_the_least() {
        let mut pace = Pace::new(25, 256);
        (0..20).for_each(|_| pace.round_took(10 * MS, false));
        assert_eq!(feed(&mut pace, 600, Duration::ZERO, MS / 100), [8, 16, 32, 64, 128, 256, 256]);
        assert_eq!(feed(&mut pace, 300, Duration::ZERO, MS), [256, 10, 10, 10, 10, 10]);
        assert_eq!(feed(&mut pace, 30, Duration::ZERO, 10 * MS), [10, 8, 8, 8]);
    }

    #[test]
    fn a_dear_round_after_a_piece_leaves_the_piece_less() {
        let mut pace = Pace::new(25, 256);
        pace.round_took(10 * MS, false);
        for _ in 0..2 {
            pace.piece_took(8 * MS, 8, true);
            pace.round_took(13 * MS, true);
        }
        pace.piece_took(8 * MS, 8, true);
        assert_eq!((pace.allowed(), pace.rows()), (Some(7 * MS), 8));
    }

    #[test]
    fn pieces_are_whole_without_running_streams_or_with_share_zero() {
        let mut pace = Pace::new(25, 256);
        pace.round_took(10 * MS, false);
        pace.piece_took(1000 * MS, 256, false);
        assert_eq!(pace.rows(), LEAST_ROWS);
        assert_eq!(Pace::new(0, 256).rows(), 256);
    }
}
