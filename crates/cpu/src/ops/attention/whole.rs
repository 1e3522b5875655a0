//! Rows whose decoded keys a thread keeps: each thread takes some groups of heads of some rows.

use super::args::Attention;
use super::keys::Keys;
use super::values::{Runs, Sums};
use crate::args::Packed;
use crate::ops::decode::decode_row;
use crate::ops::dots::{HEADS, dots};
use crate::simd::F32x16;
use crate::step::Part;

impl Attention {
    /// This thread's share of all rows.
    ///
    /// # Safety
    /// As [`crate::step::Kernel::run`].
    #[inline(always)]
    pub(super) unsafe fn whole<V: F32x16>(&self, part: &mut Part<'_>) {
        let (width, most, stride, groups) =
            (self.window.width, self.most_keys(), self.stride(), self.groups());
        let units = part.share(self.n * groups);
        if units.is_empty() {
            return;
        }
        let numbers = (4 * most).next_multiple_of(16);
        // SAFETY: the scratch holds two numbers a key, the keys and their scores; rows are checked, threads share no head.
        unsafe {
            let scores = part.scratch.floats(numbers + HEADS * stride + most * width).as_mut_ptr();
            let numbered = std::slice::from_raw_parts_mut(scores.cast::<usize>(), 2 * most);
            let (rows, held) = numbered.split_at_mut(most);
            let scores = scores.add(numbers);
            held.fill(usize::MAX);
            let mut kept = Kept { held, room: scores.add(HEADS * stride) };
            let mut current = None;
            for unit in units {
                let (r, group) = (unit / groups, unit % groups);
                let heads = self.heads(group..group + 1);
                let (runs, count) = match current {
                    Some((row, runs)) if row == r => runs,
                    _ => {
                        let keys = self.keys(r, part.fault, rows);
                        current.insert((r, (self.runs::<V>(r, keys, &mut kept), keys.count()))).1
                    }
                };
                let (q, out) = (self.q.row(r), self.out.row(r));
                let (q, out) = (q.add(heads.start * width), out.add(heads.start * width));
                if count == 0 {
                    std::ptr::write_bytes(out, 0, heads.len() * width);
                    continue;
                }
                let mut from = 0;
                for (keys, count) in runs {
                    dots::<V>(q, heads.len(), keys, count, width, scores.add(from), stride);
                    from += count;
                }
                self.weigh::<V>(heads.clone(), count, scores);
                let sums =
                    Sums { keys: runs, step: width, columns: width, stride, width, from: 0, last: true };
                sums.run::<V>(heads.len(), scores, out);
            }
        }
    }

    /// Decodes the keys of row `r` that are not kept yet, and says where all of them lie: those of the window up to the
    /// end of its ring, those from its start on, the selected.
    ///
    /// # Safety
    /// As [`Attention::whole`].
    #[inline(always)]
    unsafe fn runs<V: F32x16>(&self, r: usize, keys: Keys<'_>, kept: &mut Kept<'_>) -> Runs {
        // SAFETY: the caches hold the rows of all keys, the room a ring and the selected.
        unsafe {
            let base = self.base.get(r) as usize;
            for &row in keys.window {
                kept.hold::<V>(row - base, &self.window, row);
            }
            if let Some(selected) = &self.selected {
                for (i, &row) in keys.selected.iter().enumerate() {
                    kept.hold::<V>(self.ring + i, &selected.cache, row);
                }
            }
            let first = keys.window.first().map_or(0, |row| row - base);
            let unwrapped = keys.window.len().min(self.ring - first);
            let at = |place: usize| kept.room.wrapping_add(place * self.window.width).cast_const();
            [
                (at(first), unwrapped),
                (at(0), keys.window.len() - unwrapped),
                (at(self.ring), keys.selected.len()),
            ]
        }
    }
}

/// Keys as a thread has decoded them, each at its place: that of the ring, or behind it.
struct Kept<'a> {
    /// The cache row that each place holds; rows of one stream share most of their keys.
    held: &'a mut [usize],
    room: *mut f32,
}

impl Kept<'_> {
    /// Decodes a cache row to its place, unless that holds it.
    ///
    /// # Safety
    /// The row lies in the cache, its place in the room. Needs `V`'s instruction set.
    #[inline(always)]
    unsafe fn hold<V: F32x16>(&mut self, place: usize, cache: &Packed, row: usize) {
        if self.held[place] != row {
            self.held[place] = row;
            // SAFETY: as the caller states.
            unsafe { decode_row::<V>(cache, row, self.room.add(place * cache.width)) }
        }
    }
}
