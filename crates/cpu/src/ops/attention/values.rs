//! Weighted sums of decoded keys, which are the values too.

use crate::ops::dots::HEADS;
use crate::simd::F32x16;

/// Runs of decoded keys, in the order of their sums: address and number.
pub(super) type Runs = [(*const f32, usize); 3];

/// Sums over some of a row's keys, in some of their columns.
pub(super) struct Sums {
    pub keys: Runs,
    /// Values from one key of a run to the next.
    pub step: usize,
    /// Number of columns, a multiple of sixteen.
    pub columns: usize,
    /// Values from the weights of one head to those of the next; the last of them is the head's total.
    pub stride: usize,
    /// Values from the output of one head to that of the next.
    pub width: usize,
    /// Place of the first of these keys among the row's; sums start from zero at 0, else from what the output holds.
    pub from: usize,
    /// These keys are the row's last: sums are divided by the totals.
    pub last: bool,
}

impl Sums {
    /// `out_h = sum_k w_hk key_k / total_h` for `heads` heads, at most [`HEADS`], keys in order.
    ///
    /// # Safety
    /// Each head has its weights and total at `w` and its columns at `out`. Needs `V`'s instruction set.
    #[inline(always)]
    pub unsafe fn run<V: F32x16>(&self, heads: usize, w: *const f32, out: *mut f32) {
        // SAFETY: as the caller states.
        unsafe {
            if heads == HEADS {
                return self.heads::<V, HEADS>(w, out);
            }
            for h in 0..heads {
                self.heads::<V, 1>(w.add(h * self.stride), out.add(h * self.width));
            }
        }
    }

    #[inline(always)]
    unsafe fn heads<V: F32x16, const H: usize>(&self, w: *const f32, out: *mut f32) {
        let mut col = 0;
        // SAFETY: columns are those of the caller.
        unsafe {
            while col < self.columns {
                col += match self.columns - col {
                    64.. if V::REGISTERS > 4 * H + 4 => self.vectors::<V, H, 4>(w, out.add(col), col),
                    _ => self.vectors::<V, H, 1>(w, out.add(col), col),
                };
            }
        }
    }

    /// `C` vectors of columns from `col` on; gives their number of values.
    #[inline(always)]
    unsafe fn vectors<V: F32x16, const H: usize, const C: usize>(
        &self,
        w: *const f32,
        out: *mut f32,
        col: usize,
    ) -> usize {
        // SAFETY: as the caller states.
        unsafe {
            let mut sums = [[V::splat(0.0); C]; H];
            if self.from > 0 {
                for (h, sums) in sums.iter_mut().enumerate() {
                    for (c, sum) in sums.iter_mut().enumerate() {
                        *sum = V::load(out.add(h * self.width + 16 * c));
                    }
                }
            }
            let mut weights = w.add(self.from);
            for (keys, count) in self.keys {
                for k in 0..count {
                    let key = keys.add(k * self.step + col);
                    let mut values = [V::splat(0.0); C];
                    for (c, value) in values.iter_mut().enumerate() {
                        *value = V::load(key.add(16 * c));
                    }
                    for (h, sums) in sums.iter_mut().enumerate() {
                        let factor = V::splat(*weights.add(h * self.stride + k));
                        for (sum, value) in sums.iter_mut().zip(values) {
                            *sum = factor.fma(value, *sum);
                        }
                    }
                }
                weights = weights.add(count);
            }
            for (h, sums) in sums.iter_mut().enumerate() {
                if self.last {
                    let total = V::splat(*w.add((h + 1) * self.stride - 1));
                    sums.iter_mut().for_each(|sum| *sum = sum.div(total));
                }
                for (c, sum) in sums.iter().enumerate() {
                    sum.store(out.add(h * self.width + 16 * c));
                }
            }
        }
        16 * C
    }
}
