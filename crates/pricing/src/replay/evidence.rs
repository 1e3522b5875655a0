//! Kept rates by class, source, position and confidence.

use super::seen::Seen;
use crate::log::LoggedAsk;
use crate::{SamplingClass, Source};
use serde::Serialize;
use std::collections::BTreeMap;

/// Bins of confidence, all equally wide.
pub const BINS: usize = 10;

/// Drafts that must have been judged in a cell before its rate stands for others.
pub const LEAST_TRIES: u64 = 20;

/// The bin of a probability: bin `b` holds `b/10..(b+1)/10`, the last one 1 too.
pub fn bin(probability: f64) -> usize {
    ((probability * BINS as f64) as usize).min(BINS - 1)
}

/// Drafts that are alike as far as acceptance goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// How tokens are drawn.
    pub class: SamplingClass,
    /// Whose draft.
    pub source: Source,
    /// Position in the window, from 0.
    pub position: usize,
    /// Bin of its confidence; of its priced probability for a copy.
    pub bin: usize,
}

impl Cell {
    /// The cell of draft `position` from `source` of a logged window, if that is known of.
    pub(super) fn of(ask: &LoggedAsk, source: Source, position: usize) -> Option<Self> {
        let values = match source {
            Source::Drafter => &ask.conf,
            Source::Copy => &ask.q,
        };
        let probability = *values.get(position)?;
        Some(Self { class: ask.class, source, position, bin: bin(probability) })
    }
}

/// Drafts judged, and those of them kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Kept {
    /// Reached and compared with the target's token.
    pub tries: u64,
    /// Equal to it.
    pub kept: u64,
}

impl Kept {
    /// The share kept; `None` of nothing.
    pub fn rate(self) -> Option<f64> {
        (self.tries > 0).then(|| self.kept as f64 / self.tries as f64)
    }

    fn add(&mut self, other: Self) {
        self.tries += other.tries;
        self.kept += other.kept;
    }
}

/// Judged drafts, cell by cell.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    cells: BTreeMap<Cell, Kept>,
}

impl Evidence {
    pub(super) fn learn(&mut self, ask: &LoggedAsk, seen: &Seen) {
        for (position, kept) in seen.judged() {
            if let Some(cell) = Cell::of(ask, ask.kind, position) {
                self.cells.entry(cell).or_default().add(Kept { tries: 1, kept: u64::from(kept) });
            }
        }
    }

    /// The kept rate of a cell with enough drafts; `None` of too few.
    pub fn rate(&self, cell: &Cell) -> Option<f64> {
        self.cells.get(cell).filter(|kept| kept.tries >= LEAST_TRIES).and_then(|kept| kept.rate())
    }

    /// Drafts of `source` by position and bin, all classes together; as many positions as were judged.
    pub fn by_position(&self, source: Source) -> Vec<[Kept; BINS]> {
        let mut rows: Vec<[Kept; BINS]> = Vec::new();
        for (cell, kept) in self.cells.iter().filter(|(cell, _)| cell.source == source) {
            if rows.len() <= cell.position {
                rows.resize(cell.position + 1, [Kept::default(); BINS]);
            }
            rows[cell.position][cell.bin].add(*kept);
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::super::seen::tests::{ask, commit};
    use super::*;

    #[test]
    fn bins_hold_their_lower_edge_and_the_last_one_both() {
        assert_eq!([0.0, 0.099, 0.1, 0.95, 1.0, f64::NAN].map(bin), [0, 0, 1, 9, 9, 0]);
    }

    #[test]
    fn rates_need_enough_drafts() {
        let mut evidence = Evidence::default();
        let window = ask(2, &[0.9, 0.35]);
        let seen = Seen::new(&window, &commit(2, 1, None));
        let cell =
            |position, bin| Cell { class: SamplingClass::Greedy, source: Source::Drafter, position, bin };
        for _ in 0..LEAST_TRIES {
            assert_eq!(evidence.rate(&cell(0, 9)), None);
            evidence.learn(&window, &seen);
        }
        assert_eq!((evidence.rate(&cell(0, 9)), evidence.rate(&cell(1, 3))), (Some(1.0), Some(0.0)));
        let rows = evidence.by_position(Source::Drafter);
        assert_eq!((rows.len(), rows[1][3]), (2, Kept { tries: LEAST_TRIES, kept: 0 }));
        assert!(evidence.by_position(Source::Copy).is_empty());
    }
}
