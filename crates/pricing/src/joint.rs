//! Sharing the rows of one launch among several windows.

use crate::{CostTable, TIE};

/// One window's part in a shared launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Share<'a> {
    /// Breaks ties between equal gains: the lower slot first.
    pub slot: usize,
    /// Probability of each draft, conditional on those before it.
    pub q: &'a [f64],
    /// Drafts verified in any case, at most `top`.
    pub floor: usize,
    /// Most drafts, at most the length of `q`.
    pub top: usize,
}

/// The depth of each share, so that expected tokens less `lambda * rows_ms(rows)` is greatest over all allocations,
/// ties to fewer rows. `other_rows` are the launch's rows outside `shares`; `row_cap` bounds its rows in all,
/// except where floors alone exceed it.
///
/// A window's gains `q0*...*qj` fall with `j`, so the best allocation of any total is the largest gains, and
/// scanning all totals finds the best of all, even where the cost of rows is a staircase.
pub fn share_rows(
    shares: &[Share<'_>],
    other_rows: usize,
    row_cap: usize,
    table: &CostTable,
    lambda: f64,
) -> Vec<usize> {
    let base = other_rows + shares.iter().map(|s| 1 + s.floor).sum::<usize>();
    let mut gains: Vec<(f64, usize, usize)> = Vec::new();
    for (index, share) in shares.iter().enumerate() {
        let mut survival = 1.0;
        for (j, q) in share.q.iter().enumerate().take(share.top) {
            survival *= q;
            if j >= share.floor {
                gains.push((survival, index, j));
            }
        }
    }
    gains.sort_by(|a, b| {
        b.0.total_cmp(&a.0).then(shares[a.1].slot.cmp(&shares[b.1].slot)).then(a.2.cmp(&b.2))
    });
    gains.truncate(row_cap.saturating_sub(base));

    let mut tokens = 0.0;
    let mut best = (0, -lambda * table.rows_ms(base));
    for (i, gain) in gains.iter().enumerate() {
        tokens += gain.0;
        let value = tokens - lambda * table.rows_ms(base + i + 1);
        if value > best.1 + TIE {
            best = (i + 1, value);
        }
    }
    let mut depths: Vec<usize> = shares.iter().map(|s| s.floor).collect();
    for gain in &gains[..best.0] {
        depths[gain.1] += 1;
    }
    depths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expected_tokens;
    use proptest::prelude::*;

    fn value(shares: &[Share<'_>], depths: &[usize], other: usize, table: &CostTable, lambda: f64) -> f64 {
        let rows = other + depths.iter().map(|d| d + 1).sum::<usize>();
        let tokens: f64 = shares.iter().zip(depths).map(|(s, &d)| expected_tokens(s.q, d)).sum();
        tokens - lambda * table.rows_ms(rows)
    }

    fn allocations(shares: &[Share<'_>]) -> Vec<Vec<usize>> {
        shares.iter().fold(vec![vec![]], |all, share| {
            all.iter()
                .flat_map(|head| (share.floor..=share.top).map(move |d| [head.as_slice(), &[d]].concat()))
                .collect()
        })
    }

    #[test]
    fn a_staircase_is_crossed_when_the_rows_behind_it_pay() {
        let table = CostTable::new(&[10.0, 10.0, 10.0, 20.0, 20.0, 20.0, 20.0, 20.0], 1.0, 0.0).unwrap();
        let near = [0.99, 0.98, 0.97];
        let far = [0.3, 0.2, 0.1];
        let share = |slot, q, floor| Share { slot, q, floor, top: 3 };
        let shares = [share(0, &near[..], 0), share(1, &far[..], 0)];
        assert_eq!(share_rows(&shares, 0, 64, &table, 0.1), [3, 3]);
        assert_eq!(share_rows(&shares, 0, 64, &table, 0.25), [1, 0]);
        assert_eq!(share_rows(&shares, 0, 5, &table, 0.1), [3, 0]);
        assert_eq!(share_rows(&shares, 4, 64, &table, 0.1), [3, 3]);
    }

    #[test]
    fn equal_gains_go_to_the_lower_slot() {
        let table = CostTable::new(&[10.0, 10.0, 10.0, 90.0], 1.0, 0.0).unwrap();
        let q = [0.5, 0.5];
        let share = |slot| Share { slot, q: &q, floor: 0, top: 2 };
        assert_eq!(share_rows(&[share(5), share(2)], 0, 64, &table, 0.1), [0, 1]);
    }

    proptest! {
        #[test]
        fn the_scan_equals_brute_force(
            slots in prop::collection::vec(prop::collection::vec(0.0f64..=0.995, 0..=5), 1..=3),
            verify in prop::collection::vec(1.0f64..60.0, 2..=64),
            stairs in 0.0f64..40.0,
            other in 0usize..5,
            cap in 6usize..30,
            floor in 0usize..=1,
            lambda in 0.0f64..0.3,
        ) {
            let verify: Vec<f64> = verify.iter().enumerate().map(|(r, ms)| ms + stairs * (r / 4) as f64).collect();
            let table = CostTable::new(&verify, 1.0, 0.0).unwrap();
            let shares: Vec<Share<'_>> = slots
                .iter()
                .enumerate()
                .map(|(slot, q)| Share { slot, q, floor: floor.min(q.len()), top: q.len() })
                .collect();
            let rows = |d: &[usize]| other + d.iter().map(|d| d + 1).sum::<usize>();
            let floors: Vec<usize> = shares.iter().map(|s| s.floor).collect();
            let found = share_rows(&shares, other, cap, &table, lambda);
            prop_assert!(rows(&found) <= cap.max(rows(&floors)));
            let best = allocations(&shares)
                .into_iter()
                .filter(|d| rows(d) <= cap || *d == floors)
                .map(|d| value(&shares, &d, other, &table, lambda))
                .fold(f64::NEG_INFINITY, f64::max);
            prop_assert!((value(&shares, &found, other, &table, lambda) - best).abs() < 1e-9);
        }
    }
}
