//! The hyper-connections: mixes, collapse, expand and mean of the streams.

use tokenfare_device::{Result, View};

use crate::args::{Check, Rows};
use crate::math::{exp, sigmoid};
use crate::ops::norm::{Norm, inverse_rms};
use crate::ops::rows::{Piece, load, pieces, store, sum_products};
use crate::simd::F32x16;
use crate::step::{COLUMNS, Kernel, Part};
use crate::{Buf, Cpu};

/// Most streams that the mixes are made for.
pub(crate) const MAX_STREAMS: usize = 8;

/// Most partial sums of squares of one row.
pub(crate) const SQUARES: usize = 32;

/// `sum_i p_i h_i` over the streams, then a norm if given.
pub(crate) struct Collapse {
    pub n: usize,
    pub h: Rows,
    pub pre: Rows,
    pub norm: Option<Norm>,
    pub x: Rows,
}

impl Collapse {
    pub fn new(
        check: Check,
        h: View<'_, Cpu>,
        pre: View<'_, Cpu>,
        norm: Option<(&Buf<f32>, f32)>,
        x: View<'_, Cpu>,
    ) -> Result<Self> {
        Ok(Self {
            n: check.n,
            h: check.input("h", h, pre.width.saturating_mul(x.width))?,
            pre: check.input("pre", pre, pre.width)?,
            norm: Norm::optional(check, norm, x.width)?,
            x: check.output("x", x, x.width)?,
        })
    }
}

impl Collapse {
    /// Whether each row is one thread's, who can go on to its norm.
    fn whole_rows(&self) -> bool {
        self.x.width <= COLUMNS
    }

    /// The norm of this thread's rows.
    ///
    /// # Safety
    /// As [`Kernel::run`].
    #[inline(always)]
    unsafe fn normalize<V: F32x16>(&self, part: &Part<'_>) {
        let Some(norm) = &self.norm else { return };
        for r in part.share(self.n) {
            // SAFETY: checked rows and weight.
            unsafe { norm.row::<V>(self.x.row(r), self.x.row(r), self.x.width) };
        }
    }
}

impl Kernel for Collapse {
    fn stages(&self) -> usize {
        1 + usize::from(self.norm.is_some() && !self.whole_rows())
    }

    #[inline(always)]
    unsafe fn run<V: F32x16>(&self, stage: usize, part: &mut Part<'_>) {
        let width = self.x.width;
        if stage == 1 {
            // SAFETY: as the caller promises.
            return unsafe { self.normalize::<V>(part) };
        }
        for Piece { row, columns } in pieces(part, self.n, width) {
            // SAFETY: checked rows; pieces of threads do not overlap.
            unsafe {
                let (h, pre, x) = (self.h.row(row), self.pre.row(row), self.x.row(row));
                let mut i = columns.start;
                while i < columns.end {
                    let left = columns.end - i;
                    let mut sum = V::splat(0.0);
                    for s in 0..self.pre.width {
                        sum = V::splat(*pre.add(s)).fma(load(h.add(s * width + i), left), sum);
                    }
                    store(sum, x.add(i), left);
                    i += 16;
                }
            }
        }
        if self.whole_rows() {
            // SAFETY: as the caller promises; the pieces of this thread were its whole rows.
            unsafe { self.normalize::<V>(part) };
        }
    }
}

/// `h'_j = post_j b + sum_i comb_ij h_i`, in place.
pub(crate) struct Expand {
    pub n: usize,
    pub b: Rows,
    pub post: Rows,
    pub comb: Rows,
    pub h: Rows,
}

impl Expand {
    pub fn new(
        check: Check,
        b: View<'_, Cpu>,
        post: View<'_, Cpu>,
        comb: View<'_, Cpu>,
        h: View<'_, Cpu>,
    ) -> Result<Self> {
        let streams = post.width;
        check.that("post", streams <= MAX_STREAMS, format_args!("at most {MAX_STREAMS} streams"), streams)?;
        Ok(Self {
            n: check.n,
            b: check.input("b", b, b.width)?,
            post: check.input("post", post, streams)?,
            comb: check.input("comb", comb, streams * streams)?,
            h: check.output("h", h, streams.saturating_mul(b.width))?,
        })
    }
}

impl Kernel for Expand {
    #[inline(always)]
    unsafe fn run<V: F32x16>(&self, _stage: usize, part: &mut Part<'_>) {
        let (width, streams) = (self.b.width, self.post.width);
        for Piece { row, columns } in pieces(part, self.n, width) {
            // SAFETY: checked rows, at most `MAX_STREAMS` streams; pieces of threads do not overlap.
            unsafe {
                let (b, h) = (self.b.row(row), self.h.row(row));
                let (post, comb) = (self.post.row(row), self.comb.row(row));
                let mut old = [V::splat(0.0); MAX_STREAMS];
                let mut i = columns.start;
                while i < columns.end {
                    let left = columns.end - i;
                    let added = load::<V>(b.add(i), left);
                    for (s, old) in old.iter_mut().enumerate().take(streams) {
                        *old = load(h.add(s * width + i), left);
                    }
                    for j in 0..streams {
                        let mut new = V::splat(*post.add(j)).mul(added);
                        for (s, old) in old.iter().enumerate().take(streams) {
                            new = V::splat(*comb.add(s * streams + j)).fma(*old, new);
                        }
                        store(new, h.add(j * width + i), left);
                    }
                    i += 16;
                }
            }
        }
    }
}

/// Mean over the streams.
pub(crate) struct Mean {
    pub n: usize,
    pub h: Rows,
    pub x: Rows,
}

impl Mean {
    pub fn new(check: Check, h: View<'_, Cpu>, x: View<'_, Cpu>) -> Result<Self> {
        check.split("h", h.width, x.width)?;
        Ok(Self { n: check.n, h: check.input("h", h, h.width)?, x: check.output("x", x, x.width)? })
    }
}

impl Kernel for Mean {
    #[inline(always)]
    unsafe fn run<V: F32x16>(&self, _stage: usize, part: &mut Part<'_>) {
        let width = self.x.width;
        let streams = self.h.width / width;
        for Piece { row, columns } in pieces(part, self.n, width) {
            // SAFETY: checked rows; pieces of threads do not overlap.
            unsafe {
                let (h, x) = (self.h.row(row), self.x.row(row));
                let mut i = columns.start;
                while i < columns.end {
                    let left = columns.end - i;
                    let mut sum = V::splat(0.0);
                    for s in 0..streams {
                        sum = sum.add(load(h.add(s * width + i), left));
                    }
                    store(sum.div(V::splat(streams as f32)), x.add(i), left);
                    i += 16;
                }
            }
        }
    }
}

/// What the mixes are made of, but for the projection itself, which `out` holds already.
pub(crate) struct Mixes {
    pub n: usize,
    pub h: Rows,
    pub streams: usize,
    pub base: Buf<f32>,
    pub scale: Buf<f32>,
    pub iters: usize,
    pub eps: f32,
    pub norm_eps: f32,
    /// `[n, SQUARES]` partial sums of squares.
    pub squares: Buf<f32>,
    pub out: Rows,
}

impl Mixes {
    /// Values of `h` a partial sum of squares takes: a function of the width alone.
    fn span(&self) -> usize {
        self.h.width.div_ceil(SQUARES).next_multiple_of(64).max(1024)
    }

    /// This thread's partial sums of squares.
    ///
    /// # Safety
    /// As [`Kernel::run`].
    #[inline(always)]
    pub unsafe fn squares<V: F32x16>(&self, part: &Part<'_>) {
        let (span, width) = (self.span(), self.h.width);
        let per_row = width.div_ceil(span);
        for unit in part.share(self.n * per_row) {
            let (row, start) = (unit / per_row, unit % per_row * span);
            // SAFETY: checked rows; `per_row` is at most `SQUARES`.
            unsafe {
                let h = self.h.row(row).add(start);
                let sum = sum_products::<V>(h, h, None, span.min(width - start));
                self.squares.set(row * SQUARES + unit % per_row, sum);
            }
        }
    }

    /// Turns the projections of this thread's rows into mixes, in place.
    ///
    /// # Safety
    /// As [`Kernel::run`].
    #[inline(always)]
    pub unsafe fn finish<V: F32x16>(&self, part: &Part<'_>) {
        let s = self.streams;
        let count = self.h.width.div_ceil(self.span());
        for r in part.share(self.n) {
            // SAFETY: checked rows; `count` partial sums were written; `out` is `2s + s*s` wide.
            unsafe {
                let sum = (0..count).map(|i| self.squares.get(r * SQUARES + i)).sum::<f32>();
                let inverse = inverse_rms(sum, self.h.width, self.norm_eps);
                let m = std::slice::from_raw_parts_mut(self.out.row(r), 2 * s + s * s);
                for (i, m) in m.iter_mut().enumerate() {
                    *m = *m * inverse * self.scale.get((i / s).min(2)) + self.base.get(i);
                }
                let (gates, comb) = m.split_at_mut(2 * s);
                store(sigmoid(load::<V>(gates.as_ptr(), 2 * s)), gates.as_mut_ptr(), 2 * s);
                gates[..s].iter_mut().for_each(|pre| *pre += self.eps);
                gates[s..].iter_mut().for_each(|post| *post *= 2.0);
                for row in comb.chunks_exact_mut(s) {
                    softmax_row::<V>(row, self.eps);
                }
                sinkhorn(comb, s, self.iters, self.eps);
            }
        }
    }
}

/// Softmax of at most [`MAX_STREAMS`] values, plus `eps`.
#[inline(always)]
unsafe fn softmax_row<V: F32x16>(row: &mut [f32], eps: f32) {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, |m, v| if v > m { v } else { m });
    // SAFETY: `load` and `store` take `row.len()` lanes.
    unsafe {
        let shifted = load::<V>(row.as_ptr(), row.len()).sub(V::splat(max));
        store(exp(shifted), row.as_mut_ptr(), row.len());
    }
    let sum = row.iter().sum::<f32>();
    row.iter_mut().for_each(|v| *v = *v / sum + eps);
}

/// A pass over the columns, then `iters - 1` passes over rows and columns.
#[inline(always)]
fn sinkhorn(c: &mut [f32], s: usize, iters: usize, eps: f32) {
    for pass in 0..iters {
        if pass > 0 {
            for row in c.chunks_exact_mut(s) {
                let sum = row.iter().sum::<f32>() + eps;
                row.iter_mut().for_each(|v| *v /= sum);
            }
        }
        let mut sums = [0.0; MAX_STREAMS];
        for row in c.chunks_exact(s) {
            for (sum, v) in sums.iter_mut().zip(row) {
                *sum += v;
            }
        }
        for row in c.chunks_exact_mut(s) {
            for (v, sum) in row.iter_mut().zip(sums) {
                *v /= sum + eps;
            }
        }
    }
}
