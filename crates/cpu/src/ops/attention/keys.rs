//! The keys of a row: where they lie in the caches, and what is decoded of them.

use std::ops::Range;

use tokenfare_device::NONE;

use super::args::Attention;
use crate::ops::decode::decode_columns;
use crate::simd::F32x16;
use crate::step::Fault;

/// Cache rows of a row's keys in the order of its sums: those of the window, then the selected.
#[derive(Clone, Copy)]
pub(super) struct Keys<'a> {
    pub window: &'a [usize],
    pub selected: &'a [usize],
}

impl Keys<'_> {
    pub fn count(&self) -> usize {
        self.window.len() + self.selected.len()
    }
}

impl Attention {
    /// The keys of row `r`; none where it attends to nothing, or to a row outside a cache.
    ///
    /// # Safety
    /// `r < n`; `rows` has room for [`Attention::most_keys`] cache rows.
    pub(super) unsafe fn keys<'a>(&self, r: usize, fault: &Fault, rows: &'a mut [usize]) -> Keys<'a> {
        let none = Keys { window: &[], selected: &[] };
        // SAFETY: index buffers hold `n` rows.
        unsafe {
            let base = self.base.get(r);
            if base == NONE {
                return none;
            }
            let lo = self.lo.get(r) as usize;
            let seen = (self.hi.get(r) as usize).saturating_sub(lo);
            if seen > self.ring {
                fault.index("attention", "hi - lo", seen, self.ring + 1);
                return none;
            }
            let first = lo % self.ring;
            for (i, to) in rows[..seen].iter_mut().enumerate() {
                let place = first + i;
                let row = base as usize + if place < self.ring { place } else { place - self.ring };
                if row >= self.window.rows {
                    fault.index("attention", "window row", row, self.window.rows);
                    return none;
                }
                *to = row;
            }
            let mut count = seen;
            if let Some(selected) = &self.selected {
                let base = selected.base.get(r) as usize;
                for i in 0..selected.top_k {
                    let key = selected.list.get(r * selected.top_k + i);
                    if key == NONE {
                        continue;
                    }
                    let row = base + key as usize;
                    if row >= selected.cache.rows {
                        fault.index("attention", "selected row", row, selected.cache.rows);
                        return none;
                    }
                    rows[count] = row;
                    count += 1;
                }
            }
            let (window, selected) = rows[..count].split_at(seen);
            Keys { window, selected }
        }
    }

    /// Decodes `columns` of the keys `which`, one behind the other.
    ///
    /// # Safety
    /// The keys are those of a row, the columns inside the width and their bounds multiples of 32; `out` has room. Needs
    /// `V`'s instruction set.
    #[inline(always)]
    pub(super) unsafe fn decode<V: F32x16>(
        &self,
        keys: Keys<'_>,
        which: Range<usize>,
        columns: Range<usize>,
        out: *mut f32,
    ) {
        let (window, last) = (keys.window.len(), keys.selected.len());
        let (near, far) =
            (&keys.window[within(&which, 0, window)], &keys.selected[within(&which, window, last)]);
        // SAFETY: the caches hold the rows of all keys; otherwise as the caller states.
        unsafe {
            decode_columns::<V>(&self.window, near, columns.start, columns.len(), out);
            if let Some(selected) = &self.selected {
                let out = out.add(near.len() * columns.len());
                decode_columns::<V>(&selected.cache, far, columns.start, columns.len(), out);
            }
        }
    }
}

/// What of `which` lies among the `len` places from `start` on, counted from there.
fn within(which: &Range<usize>, start: usize, len: usize) -> Range<usize> {
    let clip = |at: usize| at.clamp(start, start + len) - start;
    clip(which.start)..clip(which.end)
}
