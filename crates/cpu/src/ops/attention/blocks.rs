//! Keys decoded in blocks that stay in the first cache, for all heads at a time: some of the keys for their scores, then
//! some of the columns for the sums.

use std::ops::Range;

use super::args::Attention;
use super::keys::Keys;
use super::values::Sums;
use crate::ops::dots::{HEADS, dots};
use crate::simd::F32x16;
use crate::step::Part;

/// Keys decoded at a time for their scores.
const SCORED: usize = 16;

/// Keys of a slice decoded at a time for the sums.
const SUMMED: usize = 64;

/// Columns of a slice, a multiple of 32.
pub(super) const SLICE: usize = 128;

/// Working memory of a thread.
pub(super) struct Room<'a> {
    /// A cache row for each key.
    pub rows: &'a mut [usize],
    /// A block of decoded keys.
    pub block: *mut f32,
    /// Room for the scores of all heads.
    pub scores: *mut f32,
}

impl Attention {
    /// Working memory with room for the scores of `heads` heads.
    pub(super) fn room<'a>(&self, part: &'a mut Part<'_>, heads: usize) -> Room<'a> {
        let (most, width) = (self.most_keys(), self.window.width);
        let rows = (2 * most).next_multiple_of(16);
        let block = (SCORED * width).max(SUMMED * SLICE);
        let floats = part.scratch.floats(rows + block + heads * self.stride());
        let (numbers, rest) = floats.split_at_mut(rows);
        let (block, scores) = rest.split_at_mut(block);
        // SAFETY: every bit pattern is a number; the arena is aligned to 64.
        let rows = unsafe { &mut numbers.align_to_mut::<usize>().1[..most] };
        Room { rows, block: block.as_mut_ptr(), scores: scores.as_mut_ptr() }
    }

    /// Scores of the keys `which` for some heads of row `r`: those of a head are [`Self::stride`] values behind those of
    /// the head before, a key's at its place.
    ///
    /// # Safety
    /// `keys` are those of the row; `scores` has room for the heads, `block` is that of a [`Room`]. Needs `V`'s
    /// instruction set.
    #[inline(always)]
    pub(super) unsafe fn score<V: F32x16>(
        &self,
        r: usize,
        heads: Range<usize>,
        keys: Keys<'_>,
        which: Range<usize>,
        block: *mut f32,
        scores: *mut f32,
    ) {
        let width = self.window.width;
        // SAFETY: as the caller states.
        unsafe {
            let q = self.q.row(r).add(heads.start * width);
            let mut from = which.start;
            while from < which.end {
                let count = SCORED.min(which.end - from);
                self.decode::<V>(keys, from..from + count, 0..width, block);
                dots::<V>(q, heads.len(), block, count, width, scores.add(from), self.stride());
                from += count;
            }
        }
    }

    /// Number of slices of the columns.
    pub(super) fn slices(&self) -> usize {
        self.window.width.div_ceil(SLICE)
    }

    /// The output of one slice of columns and some groups of heads of row `r`.
    ///
    /// # Safety
    /// `keys` are those of the row; `scores` holds the weights and totals of these heads, `block` is that of a [`Room`].
    /// No other thread has these groups and this slice. Needs `V`'s instruction set.
    #[inline(always)]
    pub(super) unsafe fn sum<V: F32x16>(
        &self,
        r: usize,
        groups: Range<usize>,
        slice: usize,
        keys: Keys<'_>,
        block: *mut f32,
        scores: *const f32,
    ) {
        let (width, stride, count) = (self.window.width, self.stride(), keys.count());
        let columns = slice * SLICE..width.min((slice + 1) * SLICE);
        // SAFETY: as the caller states.
        unsafe {
            let mut from = 0;
            while from < count {
                let until = count.min(from + SUMMED);
                self.decode::<V>(keys, from..until, columns.clone(), block);
                let none = (block.cast_const(), 0);
                let sums = Sums {
                    keys: [(block.cast_const(), until - from), none, none],
                    step: columns.len(),
                    columns: columns.len(),
                    stride,
                    width,
                    from,
                    last: until == count,
                };
                for group in groups.clone() {
                    let heads = self.heads(group..group + 1);
                    let out = self.out.row(r).add(heads.start * width + columns.start);
                    sums.run::<V>(heads.len(), scores.add((group - groups.start) * HEADS * stride), out);
                }
                from = until;
            }
        }
    }

    /// This thread's share of all rows.
    ///
    /// # Safety
    /// As [`crate::step::Kernel::run`].
    #[inline(always)]
    pub(super) unsafe fn blocks<V: F32x16>(&self, part: &mut Part<'_>) {
        let (width, groups) = (self.window.width, self.groups());
        let mut units = part.share(self.n * groups);
        let fault = part.fault;
        let Room { rows, block, scores } = self.room(part, self.heads(0..units.len().min(groups)).len());
        while !units.is_empty() {
            let r = units.start / groups;
            let until = units.end.min((r + 1) * groups);
            let groups = units.start - r * groups..until - r * groups;
            units.start = until;
            let heads = self.heads(groups.clone());
            // SAFETY: rows are checked, threads share no head, the room has the sizes.
            unsafe {
                let keys = self.keys(r, fault, rows);
                if keys.count() == 0 {
                    let out = self.out.row(r).add(heads.start * width);
                    std::ptr::write_bytes(out, 0, heads.len() * width);
                    continue;
                }
                self.score::<V>(r, heads.clone(), keys, 0..keys.count(), block, scores);
                self.weigh::<V>(heads, keys.count(), scores);
                for slice in 0..self.slices() {
                    self.sum::<V>(r, groups.clone(), slice, keys, block, scores);
                }
            }
        }
    }
}
