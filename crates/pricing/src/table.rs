//! The cost table: what a round costs by its rows, streams and drafter pass.

use crate::non_decreasing;
use std::fmt;

const MAX_US: f64 = 1e9;

/// Milliseconds of the parts of a round. Rows are non-decreasing, every time is a whole number of microseconds
/// and a drafter pass is at most twice a one-row window: no other table can be built.
#[derive(Debug, Clone, PartialEq)]
pub struct CostTable {
    verify: Vec<f64>,
    draft: f64,
    slot: f64,
}

/// Whether a round ran a drafter pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// One pass, whatever the number of streams it drafted for.
    Run,
    /// None.
    Skipped,
}

/// Why numbers do not make a table.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TableError {
    /// Fewer than two rows.
    #[error("a table of {0} rows, expected at least 2")]
    Rows(usize),
    /// A time that is not a finite number.
    #[error("{what}: {found}, expected a finite number of milliseconds")]
    NotFinite {
        /// Which time.
        what: String,
        /// The number.
        found: f64,
    },
    /// The drafter pass was dearer than twice the one-row window.
    #[error("a pass of {draft:.3} ms is dearer than twice its own 1-row window of {row:.3} ms")]
    Implausible {
        /// Milliseconds of the pass.
        draft: f64,
        /// Milliseconds of the one-row window.
        row: f64,
    },
}

impl CostTable {
    /// A table of `verify[r - 1]` for windows of `r` rows in all, one drafter pass `draft` (with the ingest of the
    /// round before it), and `slot` for each further stream in one launch beyond what its rows cost; all in
    /// milliseconds. Times are rounded to whole microseconds, half to even, and clamped to 1..=1e9 microseconds
    /// (`slot` to 0..=1e9); rows are then made non-decreasing by pooling.
    pub fn new(verify: &[f64], draft: f64, slot: f64) -> Result<Self, TableError> {
        if verify.len() < 2 {
            return Err(TableError::Rows(verify.len()));
        }
        let finite = |what: &dyn Fn() -> String, ms: f64| {
            if ms.is_finite() { Ok(ms) } else { Err(TableError::NotFinite { what: what(), found: ms }) }
        };
        for (i, &ms) in verify.iter().enumerate() {
            finite(&|| format!("verify of {} rows", i + 1), ms)?;
        }
        let draft = whole_us(finite(&|| "draft".into(), draft)?, 1.0);
        let slot = whole_us(finite(&|| "slot".into(), slot)?, 0.0);
        let rounded: Vec<f64> = verify.iter().map(|&ms| whole_us(ms, 1.0)).collect();
        let verify: Vec<f64> = non_decreasing(&rounded).iter().map(|&ms| whole_us(ms, 1.0)).collect();
        if draft > 2.0 * verify[0] {
            return Err(TableError::Implausible { draft, row: verify[0] });
        }
        Ok(Self { verify, draft, slot })
    }

    /// The table that prices rounds when none was measured: `37 + 5r` for 1..=16 rows, a pass of 5.6, no slot term.
    pub fn built_in() -> Self {
        let verify = (1..=16).map(|r| 37.0 + 5.0 * f64::from(r)).collect();
        Self { verify, draft: 5.6, slot: 0.0 }
    }

    /// Milliseconds by rows; entry `r - 1` is a window of `r` rows.
    pub fn verify(&self) -> &[f64] {
        &self.verify
    }

    /// Milliseconds of a drafter pass.
    pub fn draft_ms(&self) -> f64 {
        self.draft
    }

    /// Milliseconds of each further stream in a launch.
    pub fn slot_ms(&self) -> f64 {
        self.slot
    }

    /// Milliseconds of one stream's window of `rows` rows; the last entry for any longer one.
    pub fn window_ms(&self, rows: usize) -> f64 {
        self.verify[rows.clamp(1, self.verify.len()) - 1]
    }

    /// Milliseconds of `rows` rows in one launch; past the table it goes on with the slope of the last two entries.
    pub fn rows_ms(&self, rows: usize) -> f64 {
        let n = self.verify.len();
        let slope = self.verify[n - 1] - self.verify[n - 2];
        self.window_ms(rows) + slope * rows.saturating_sub(n) as f64
    }

    /// Milliseconds of a round of `streams` windows with `rows` rows together, and the drafter pass if one ran.
    pub fn round_ms(&self, rows: usize, streams: usize, pass: Pass) -> f64 {
        self.rows_ms(rows) + self.slot * streams.saturating_sub(1) as f64 + self.pass_ms(pass)
    }

    /// Milliseconds of one stream's round: its window, and the drafter pass if one ran.
    pub fn lone_ms(&self, rows: usize, pass: Pass) -> f64 {
        self.window_ms(rows) + self.pass_ms(pass)
    }

    fn pass_ms(&self, pass: Pass) -> f64 {
        match pass {
            Pass::Run => self.draft,
            Pass::Skipped => 0.0,
        }
    }
}

/// The costs at a glance, as the start of the server prints them.
impl fmt::Display for CostTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.verify.len().min(16);
        let (one, last) = (self.window_ms(1), self.window_ms(rows));
        write!(f, "verify 1 / {rows} rows {one:.3} / {last:.3} ms, pass {:.3} ms", self.draft)
    }
}

fn whole_us(ms: f64, least: f64) -> f64 {
    (ms * 1e3).round_ties_even().clamp(least, MAX_US) / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[test]
    fn built_in_values() {
        let t = CostTable::built_in();
        assert_eq!((t.window_ms(1), t.window_ms(16), t.draft_ms(), t.slot_ms()), (42.0, 117.0, 5.6, 0.0));
        assert_eq!(CostTable::new(t.verify(), t.draft_ms(), t.slot_ms()), Ok(t));
    }

    #[test]
    fn the_costs_line_of_the_built_in_table() {
        let line = CostTable::built_in().to_string();
        assert_eq!(line, "verify 1 / 16 rows 42.000 / 117.000 ms, pass 5.600 ms");
    }

    #[test]
    fn rows_past_the_table_go_on_by_slope_and_windows_do_not() {
        let t = CostTable::new(&[10.0, 13.0, 14.5], 2.0, 0.25).unwrap();
        assert_eq!((t.window_ms(0), t.window_ms(1), t.window_ms(4)), (10.0, 10.0, 14.5));
        assert_eq!((t.rows_ms(3), t.rows_ms(5)), (14.5, 17.5));
        assert_eq!(t.round_ms(3, 3, Pass::Run), 17.0);
        assert_eq!(t.round_ms(3, 1, Pass::Skipped), 14.5);
        assert_eq!((t.lone_ms(9, Pass::Run), t.lone_ms(2, Pass::Skipped)), (16.5, 13.0));
    }

    #[rstest]
    #[case(0.0625, 0.062)]
    #[case(0.0635, 0.064)]
    #[case(3.0004, 3.0)]
    #[case(3.0006, 3.001)]
    #[case(-4.0, 0.001)]
    #[case(0.0, 0.001)]
    #[case(3e6, 1e6)]
    fn times_are_whole_microseconds(#[case] ms: f64, #[case] expected: f64) {
        assert_eq!(whole_us(ms, 1.0), expected);
    }

    #[test]
    fn refusals_name_what_was_found() {
        assert_eq!(CostTable::new(&[1.0], 0.5, 0.0), Err(TableError::Rows(1)));
        let e = CostTable::new(&[1.0, f64::NAN], 0.5, 0.0).unwrap_err();
        assert_eq!(e.to_string(), "verify of 2 rows: NaN, expected a finite number of milliseconds");
        let e = CostTable::new(&[1.0, 2.0], f64::INFINITY, 0.0).unwrap_err();
        assert_eq!(e.to_string(), "draft: inf, expected a finite number of milliseconds");
        let e = CostTable::new(&[4.0, 5.0], 8.001, 0.0).unwrap_err();
        assert_eq!(e.to_string(), "a pass of 8.001 ms is dearer than twice its own 1-row window of 4.000 ms");
        assert!(CostTable::new(&[4.0, 5.0], 8.0, 0.0).is_ok());
    }

    proptest! {
        #[test]
        fn any_table_is_monotone_whole_and_stable(verify in prop::collection::vec(0.5f64..500.0, 2..=64), slot in 0f64..3.0) {
            let t = CostTable::new(&verify, 0.9, slot).unwrap();
            prop_assert!(t.verify().is_sorted());
            for &ms in t.verify() {
                prop_assert_eq!((ms * 1e3).round() / 1e3, ms);
            }
            for rows in 1..=80 {
                prop_assert!(t.rows_ms(rows) <= t.rows_ms(rows + 1));
            }
            let printed: Vec<f64> = t.verify().iter().map(|ms| format!("{ms:.6}").parse().unwrap()).collect();
            prop_assert_eq!(CostTable::new(&printed, t.draft_ms(), t.slot_ms()), Ok(t));
        }
    }
}
