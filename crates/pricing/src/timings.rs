//! From the timed windows of a measurement to a cost table.

use crate::{CostTable, Shape, TableError};

/// Rows of one stream's longest window; longer launches are several windows.
const WINDOW_ROWS: usize = 16;

/// What a measurement timed.
#[derive(Debug, Clone, PartialEq)]
pub struct Timings {
    /// (rows, milliseconds), ascending, row 1 first. Above 16 rows the launch was one of `ceil(rows / 16)` windows.
    pub rows: Vec<(usize, f64)>,
    /// Milliseconds of one launch of two windows with four rows each; `None` with one lane.
    pub pair: Option<f64>,
    /// Milliseconds of a drafter pass with its ingest.
    pub draft: f64,
    /// Rows of one launch of the device.
    pub launch_bound: usize,
    /// How rows up to 16 are smoothed.
    pub shape: Shape,
}

/// Why timings do not make a table.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TimingsError {
    /// The timed rows do not start with 1 or do not ascend.
    #[error("timed rows {0:?}, expected ascending rows from 1")]
    Order(Vec<usize>),
    /// The first row of the second launch was not timed.
    #[error("row {0} was not timed: the first row past one launch always is")]
    LaunchEdge(usize),
    /// The numbers make no table.
    #[error(transparent)]
    Table(#[from] TableError),
}

impl Timings {
    /// The table: rows between timed ones are joined linearly (never across the end of a launch), rows up to 16
    /// take the shape, and rows past 16 cost their time less the slot term of each further window.
    pub fn table(&self) -> Result<CostTable, TimingsError> {
        let numbers: Vec<usize> = self.rows.iter().map(|r| r.0).collect();
        if numbers.first() != Some(&1) || !numbers.is_sorted_by(|a, b| a < b) {
            return Err(TimingsError::Order(numbers));
        }
        let bound = self.launch_bound.max(1);
        let edge = bound + 1;
        if numbers.last().is_some_and(|&last| last >= edge) && !numbers.contains(&edge) {
            return Err(TimingsError::LaunchEdge(edge));
        }
        let base: Vec<(usize, f64)> = self.rows.iter().copied().filter(|r| r.0 <= WINDOW_ROWS).collect();
        let (near, far): (Vec<_>, Vec<_>) = base.iter().partition(|r| r.0 <= bound);
        let mut verify = join(&near);
        if let Some(first) = far.first() {
            go_on(&mut verify, first.0 - 1);
            verify.extend(join(&far));
        }
        let mut verify = self.shape.apply(&verify);
        let mut slot = 0.0;
        if let Some(pair) = self.pair {
            let eight = verify.get(7).or(verify.last()).copied().unwrap_or(pair);
            slot = f64::max(pair - eight, 0.0);
            self.append_deep(&mut verify, slot, bound);
        }
        Ok(CostTable::new(&verify, self.draft, slot)?)
    }

    fn append_deep(&self, verify: &mut Vec<f64>, slot: f64, bound: usize) {
        for &(rows, ms) in self.rows.iter().filter(|r| r.0 > WINDOW_ROWS) {
            if verify.len() <= bound && rows > bound {
                go_on(verify, rows - 1);
            }
            let further = rows.div_ceil(WINDOW_ROWS) - 1;
            let from = (verify.len(), verify.last().copied().unwrap_or(ms));
            let joined = join(&[from, (rows, ms - slot * further as f64)]);
            for ms in &joined[1..] {
                let highest = verify.last().copied().unwrap_or(*ms);
                verify.push(highest.max(*ms));
            }
        }
    }
}

/// Times of every row from the first point to the last, linear between points.
fn join(points: &[(usize, f64)]) -> Vec<f64> {
    let mut out: Vec<f64> = points.iter().take(1).map(|p| p.1).collect();
    for pair in points.windows(2) {
        let ((from, a), (to, b)) = (pair[0], pair[1]);
        let steps = (to - from) as f64;
        out.extend((1..=to - from).map(|i| a + (b - a) * (i as f64 / steps)));
    }
    out
}

/// Extends to `len` rows with the slope of the last two, never falling.
fn go_on(verify: &mut Vec<f64>, len: usize) {
    let n = verify.len();
    let slope = if n > 1 { (verify[n - 1] - verify[n - 2]).max(0.0) } else { 0.0 };
    let last = verify[n - 1];
    verify.extend((1..=len - n).map(|i| last + slope * i as f64));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timings() -> Timings {
        let rows = [(1, 20.0), (2, 24.0), (3, 28.0), (4, 30.0), (5, 34.0), (6, 36.0), (8, 44.0), (16, 60.0)];
        let rows = rows.into_iter().chain([(17, 80.0), (32, 110.0)]).collect();
        Timings { rows, pair: Some(46.0), draft: 5.0, launch_bound: 16, shape: Shape::Raw }
    }

    #[test]
    fn untimed_rows_are_joined_and_deep_rows_lose_the_slot_term() {
        let table = timings().table().unwrap();
        assert_eq!((table.verify().len(), table.slot_ms(), table.draft_ms()), (32, 2.0, 5.0));
        assert_eq!((table.window_ms(7), table.window_ms(9), table.window_ms(12)), (40.0, 46.0, 52.0));
        assert_eq!((table.window_ms(16), table.window_ms(17), table.window_ms(32)), (60.0, 78.0, 108.0));
        assert_eq!(table.window_ms(22), 88.0);
    }

    #[test]
    fn one_lane_has_no_slot_term_and_goes_on_by_slope() {
        let table = Timings { pair: None, ..timings() }.table().unwrap();
        assert_eq!((table.verify().len(), table.slot_ms()), (16, 0.0));
        assert_eq!(table.rows_ms(18), 64.0);
    }

    #[test]
    fn deep_rows_never_fall() {
        let mut t = timings();
        t.rows[8].1 = 50.0;
        t.rows[9].1 = 40.0;
        let table = t.table().unwrap();
        assert_eq!((table.window_ms(17), table.window_ms(32)), (60.0, 60.0));
        assert_eq!(Timings { pair: Some(40.0), ..timings() }.table().unwrap().slot_ms(), 0.0);
    }

    #[test]
    fn no_join_crosses_a_launch() {
        let mut t = timings();
        t.launch_bound = 10;
        assert_eq!(t.table(), Err(TimingsError::LaunchEdge(11)));
        t.rows.insert(7, (11, 70.0));
        t.rows[8].1 = 80.0;
        t.rows[9].1 = 99.0;
        let table = t.table().unwrap();
        assert_eq!(table.verify()[7..12], [44.0, 48.0, 52.0, 70.0, 72.0]);
    }

    #[test]
    fn deep_joins_stop_at_a_launch_too() {
        let mut t = timings();
        t.launch_bound = 20;
        t.rows.insert(9, (21, 100.0));
        let table = t.table().unwrap();
        assert_eq!(table.verify()[16..21], [78.0, 96.0, 114.0, 132.0, 132.0]);
        t.launch_bound = 0;
        assert_eq!(t.table().unwrap().window_ms(2), 24.0);
    }

    #[test]
    fn rows_start_at_one_and_ascend() {
        let rows = |rows: &[usize]| Timings { rows: rows.iter().map(|&r| (r, 9.0)).collect(), ..timings() };
        assert_eq!(rows(&[2, 3]).table(), Err(TimingsError::Order(vec![2, 3])));
        assert_eq!(rows(&[1, 3, 3]).table(), Err(TimingsError::Order(vec![1, 3, 3])));
        assert_eq!(rows(&[]).table(), Err(TimingsError::Order(vec![])));
        assert_eq!(rows(&[1]).table(), Err(TimingsError::Table(TableError::Rows(1))));
    }
}
