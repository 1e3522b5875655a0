//! Which rows go to which expert, and which tiles to which thread.

use std::ops::Range;

use super::MoeArgs;
use crate::linear::Packed;

/// Weight bytes that take as long as one row's sums of a block, with vectors and with AMX tiles.
const ROW_COST: u64 = 64;
const ROW_COST_AMX: u64 = 8;

/// Rows by expert: the routed experts that have rows, ascending, then the shared one with all rows.
///
/// Every thread makes its own from the same lists.
pub(super) struct Plan {
    /// Input rows.
    rows: Vec<u32>,
    /// Their rows in scratch: `row * (top_k + 1) + slot`.
    places: Vec<u32>,
    /// Their weights, 1 for the shared expert.
    factors: Vec<f32>,
    /// Routed experts and where their rows lie in the lists.
    routed: Vec<(usize, Range<usize>)>,
}

/// One expert with its rows.
pub(super) struct Group<'a> {
    /// w1, w3 and w2.
    pub weights: [&'a Packed; 3],
    /// Input rows.
    pub rows: &'a [u32],
    /// Their rows in scratch.
    pub places: &'a [u32],
    /// Their weights.
    pub factors: &'a [f32],
}

impl Plan {
    /// Reads the lists of experts.
    ///
    /// # Safety
    /// `experts` and `weights` hold `n * top_k` values.
    pub unsafe fn new(args: &MoeArgs<'_>) -> Self {
        let (n, k) = (args.n, args.top_k);
        // SAFETY: as the caller states.
        let (experts, weights) = unsafe {
            (std::slice::from_raw_parts(args.experts, n * k), std::slice::from_raw_parts(args.weights, n * k))
        };
        let count = args.routed.count();
        let mut pairs: Vec<(u32, u32)> =
            experts.iter().zip(0..).map(|(&e, i)| (e, i)).filter(|(e, _)| (*e as usize) < count).collect();
        pairs.sort_unstable();
        let place = |row: usize, slot: usize| (row * (k + 1) + slot) as u32;
        let mut rows: Vec<u32> = pairs.iter().map(|(_, i)| *i / k as u32).collect();
        let mut places: Vec<u32> =
            pairs.iter().map(|(_, i)| place(*i as usize / k, *i as usize % k)).collect();
        let mut factors: Vec<f32> = pairs.iter().map(|(_, i)| weights[*i as usize]).collect();
        let mut routed: Vec<(usize, Range<usize>)> = Vec::new();
        for same in pairs.chunk_by(|a, b| a.0 == b.0) {
            let start = routed.last().map_or(0, |(_, range)| range.end);
            routed.push((same[0].0 as usize, start..start + same.len()));
        }
        rows.extend(0..n as u32);
        places.extend((0..n).map(|row| place(row, k)));
        factors.extend(std::iter::repeat_n(1.0, n));
        Self { rows, places, factors, routed }
    }

    /// The groups, in the order of their experts.
    pub fn groups<'a>(&'a self, args: &'a MoeArgs<'_>) -> Vec<Group<'a>> {
        let routed = self.routed.iter().map(|(e, range)| (args.routed.expert(*e), range.clone()));
        let shared = (args.shared, self.rows.len() - args.n..self.rows.len());
        routed
            .chain([shared])
            .map(|(weights, range)| Group {
                weights,
                rows: &self.rows[range.clone()],
                places: &self.places[range.clone()],
                factors: &self.factors[range],
            })
            .collect()
    }
}

impl Group<'_> {
    /// What one tile of each of these matrices costs, in bytes of weights.
    pub fn cost(&self, matrices: &[&Packed]) -> u64 {
        let row_cost = |m: &Packed| if m.on_amx() { ROW_COST_AMX } else { ROW_COST };
        let rows = self.rows.len() as u64;
        matrices.iter().map(|m| m.tile_bytes() as u64 + rows * m.blocks() as u64 * row_cost(m)).sum()
    }
}

/// Cuts `(tiles, cost of a tile)` of all groups into equal costs and gives this thread's tiles of each group.
pub(super) fn share(groups: &[(usize, u64)], thread: usize, threads: usize) -> Vec<Range<usize>> {
    let total: u64 = groups.iter().map(|(tiles, cost)| *tiles as u64 * cost).sum();
    let bound = |thread: usize| total * thread as u64 / threads as u64;
    let (start, end) = (bound(thread), bound(thread + 1));
    let mut at = 0;
    groups
        .iter()
        .map(|&(tiles, cost)| {
            // A tile belongs to the thread in whose part its cost begins.
            let first = |bound: u64| (bound.saturating_sub(at).div_ceil(cost) as usize).min(tiles);
            let range = first(start)..first(end);
            at += tiles as u64 * cost;
            range
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn every_tile_has_one_thread_and_costs_are_even() {
        let groups = [(3, 10), (144, 7), (1, 1000), (20, 3)];
        for threads in [1, 2, 3, 7, 16, 200] {
            let mut next = [0; 4];
            for thread in 0..threads {
                let ranges = share(&groups, thread, threads);
                let cost: u64 = ranges.iter().zip(groups).map(|(r, (_, cost))| r.len() as u64 * cost).sum();
                assert!(cost <= 2098 / threads as u64 + 1000, "{cost} for thread {thread} of {threads}");
                for (range, next) in ranges.into_iter().zip(&mut next) {
                    if !range.is_empty() {
                        assert_eq!(range.start, *next);
                        *next = range.end;
                    }
                }
            }
            assert_eq!(next, [3, 144, 1, 20]);
        }
    }
}
