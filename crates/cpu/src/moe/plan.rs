//! Which rows go to which expert, and which tiles to which thread.

use std::ops::Range;

use super::MoeArgs;
use crate::linear::Packed;

/// Weight bytes that take as long as one row's sums of a block, with vectors and with AMX tiles.
const ROW_COST: u64 = 64;
const ROW_COST_AMX: u64 = 8;

/// Rows by expert: the routed experts that have rows, ascending, then the shared one with all rows.
///
/// Every thread makes its own from the same lists, in memory that it keeps from launch to launch.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Expert and place in the lists of each pair.
    pairs: Vec<(u32, u32)>,
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
    /// A plan without memory yet.
    pub const fn new() -> Self {
        Self {
            pairs: Vec::new(),
            rows: Vec::new(),
            places: Vec::new(),
            factors: Vec::new(),
            routed: Vec::new(),
        }
    }

    /// Reads the lists of experts.
    ///
    /// # Safety
    /// `experts` and `weights` hold `n * top_k` values.
    pub unsafe fn fill(&mut self, args: &MoeArgs<'_>) {
        let (n, k) = (args.n, args.top_k);
        // SAFETY: as the caller states.
        let (experts, weights) = unsafe {
            (std::slice::from_raw_parts(args.experts, n * k), std::slice::from_raw_parts(args.weights, n * k))
        };
        let count = args.routed.count();
        let Self { pairs, rows, places, factors, routed } = self;
        pairs.clear();
        rows.clear();
        places.clear();
        factors.clear();
        routed.clear();
        pairs.extend(experts.iter().zip(0..).map(|(&e, i)| (e, i)).filter(|(e, _)| (*e as usize) < count));
        pairs.sort_unstable();
        let place = |row: usize, slot: usize| (row * (k + 1) + slot) as u32;
        rows.extend(pairs.iter().map(|(_, i)| *i / k as u32));
        places.extend(pairs.iter().map(|(_, i)| place(*i as usize / k, *i as usize % k)));
        factors.extend(pairs.iter().map(|(_, i)| weights[*i as usize]));
        for same in pairs.chunk_by(|a, b| a.0 == b.0) {
            let start = routed.last().map_or(0, |(_, range)| range.end);
            routed.push((same[0].0 as usize, start..start + same.len()));
        }
        rows.extend(0..n as u32);
        places.extend((0..n).map(|row| place(row, k)));
        factors.extend(std::iter::repeat_n(1.0, n));
    }

    /// The groups, in the order of their experts.
    fn groups<'a>(&'a self, args: &'a MoeArgs<'_>) -> impl Iterator<Item = Group<'a>> {
        let routed = self.routed.iter().map(|(e, range)| (args.routed.expert(*e), range.clone()));
        let shared = (args.shared, self.rows.len() - args.n..self.rows.len());
        routed.chain([shared]).map(|(weights, range)| Group {
            weights,
            rows: &self.rows[range.clone()],
            places: &self.places[range.clone()],
            factors: &self.factors[range],
        })
    }

    /// Cuts the tiles of some matrices of all groups into equal costs, and gives this thread's tiles of each group.
    pub(super) fn share<'a>(
        &'a self,
        args: &'a MoeArgs<'_>,
        matrices: Range<usize>,
        thread: usize,
        threads: usize,
    ) -> impl Iterator<Item = (Group<'a>, Range<usize>)> {
        let tiles = move |group: &Group<'_>| {
            let matrices = &group.weights[matrices.clone()];
            (matrices[0].tiles(), group.cost(matrices))
        };
        let total =
            self.groups(args).map(|group| tiles(&group)).map(|(tiles, cost)| tiles as u64 * cost).sum();
        let mut cut = Cut::new(total, thread, threads);
        self.groups(args).map(move |group| {
            let (tiles, cost) = tiles(&group);
            (group, cut.take(tiles, cost))
        })
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

/// One thread's part of a total cost.
struct Cut {
    part: Range<u64>,
    at: u64,
}

impl Cut {
    fn new(total: u64, thread: usize, threads: usize) -> Self {
        let bound = |thread: usize| total * thread as u64 / threads as u64;
        Self { part: bound(thread)..bound(thread + 1), at: 0 }
    }

    /// The part's tiles among the next `tiles` tiles: a tile belongs to the thread in whose part its cost begins.
    fn take(&mut self, tiles: usize, cost: u64) -> Range<usize> {
        let first = |bound: u64| (bound.saturating_sub(self.at).div_ceil(cost) as usize).min(tiles);
        let range = first(self.part.start)..first(self.part.end);
        self.at += tiles as u64 * cost;
        range
    }
}

#[cfg(test)]
mod tests {
    use super::Cut;

    #[test]
    fn every_tile_has_one_thread_and_costs_are_even() {
        let groups = [(3, 10), (144, 7), (1, 1000), (20, 3)];
        for threads in [1, 2, 3, 7, 16, 200] {
            let mut next = [0; 4];
            for thread in 0..threads {
                let mut cut = Cut::new(2098, thread, threads);
                let ranges = groups.map(|(tiles, cost)| cut.take(tiles, cost));
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
