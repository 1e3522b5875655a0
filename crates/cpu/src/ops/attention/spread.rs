//! Few rows on many threads: all threads share the keys of each row for the scores, its heads for the weights, and its
//! columns for the sums.

use super::args::Attention;
use super::blocks::Room;
use crate::simd::F32x16;
use crate::step::Part;

/// Scores, weights, sums.
pub(super) const STAGES: usize = 3;

/// Keys that a thread takes at least.
const LEAST: usize = 8;

impl Attention {
    /// This thread's share of all rows in one of the stages.
    ///
    /// # Safety
    /// As [`crate::step::Kernel::run`]; `scores` holds [`Self::stride`] values for each head of each row.
    #[inline(always)]
    pub(super) unsafe fn spread<V: F32x16>(&self, stage: usize, part: &mut Part<'_>, scores: *mut f32) {
        let (thread, threads, fault) = (part.thread, part.threads, part.fault);
        let share = |units: usize| units * thread / threads..units * (thread + 1) / threads;
        let (heads, groups) = (self.heads, self.groups());
        let Room { rows, block, .. } = self.room(part, 0);
        // SAFETY: rows are checked; threads share no key, then no head, then no columns of a group of heads.
        unsafe {
            for r in 0..self.n {
                let keys = self.keys(r, fault, rows);
                let count = keys.count();
                let scores = scores.add(r * heads * self.stride());
                match stage {
                    0 => {
                        let blocks = share(count.div_ceil(LEAST));
                        let which = blocks.start * LEAST..count.min(blocks.end * LEAST);
                        self.score::<V>(r, 0..heads, keys, which, block, scores);
                    }
                    1 if count > 0 => {
                        let heads = share(heads);
                        let scores = scores.add(heads.start * self.stride());
                        self.weigh::<V>(heads, count, scores);
                    }
                    1 => {}
                    _ if count == 0 => {
                        let out = self.out.row(r);
                        let values = share(self.out.width);
                        std::ptr::write_bytes(out.add(values.start), 0, values.len());
                    }
                    _ => {
                        let mut units = share(self.slices() * groups);
                        while !units.is_empty() {
                            let slice = units.start / groups;
                            let until = units.end.min((slice + 1) * groups);
                            let groups = units.start - slice * groups..until - slice * groups;
                            units.start = until;
                            let scores = scores.add(self.heads(groups.clone()).start * self.stride());
                            self.sum::<V>(r, groups, slice, keys, block, scores);
                        }
                    }
                }
            }
        }
    }
}
