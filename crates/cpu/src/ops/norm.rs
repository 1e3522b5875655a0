//! RMSNorm.

use tokenfare_device::{Result, View};

use crate::args::{Check, Rows};
use crate::ops::rows::{load, store, sum_products};
use crate::simd::F32x16;
use crate::step::{Kernel, Part};
use crate::{Buf, Cpu};

/// `(sum / width + eps)^-0.5`.
#[inline(always)]
pub(crate) fn inverse_rms(sum: f32, width: usize, eps: f32) -> f32 {
    1.0 / (sum / width as f32 + eps).sqrt()
}

/// A norm's weight and epsilon.
#[derive(Clone)]
pub(crate) struct Norm {
    pub weight: Buf<f32>,
    pub eps: f32,
}

impl Norm {
    /// A norm over rows of `width`, if there is one.
    pub fn optional(check: Check, norm: Option<(&Buf<f32>, f32)>, width: usize) -> Result<Option<Self>> {
        match norm {
            Some((weight, eps)) => Ok(Some(Self { weight: check.weight("norm", weight, width)?, eps })),
            None => Ok(None),
        }
    }

    /// `y = x * (mean(x^2) + eps)^-0.5 * weight` over one row; `x` and `y` may be the same.
    ///
    /// # Safety
    /// `width` values at `x` and `y`, and the weight's width; needs `V`'s instruction set.
    #[inline(always)]
    pub unsafe fn row<V: F32x16>(&self, x: *const f32, y: *mut f32, width: usize) {
        // SAFETY: every access stays below `width`.
        unsafe {
            let inverse = V::splat(inverse_rms(sum_products::<V>(x, x, None, width), width, self.eps));
            let mut i = 0;
            while i < width {
                let left = width - i;
                let v = load::<V>(x.add(i), left).mul(inverse).mul(load(self.weight.ptr().add(i), left));
                store(v, y.add(i), left);
                i += 16;
            }
        }
    }
}

/// [`Norm`] of every row.
pub(crate) struct RmsNorm {
    pub n: usize,
    pub x: Rows,
    pub norm: Norm,
    pub y: Rows,
}

impl RmsNorm {
    pub fn new(
        check: Check,
        x: View<'_, Cpu>,
        weight: &Buf<f32>,
        eps: f32,
        y: View<'_, Cpu>,
    ) -> Result<Self> {
        let norm = Norm { weight: check.weight("weight", weight, y.width)?, eps };
        Ok(Self { n: check.n, x: check.input("x", x, y.width)?, norm, y: check.output("y", y, y.width)? })
    }
}

impl Kernel for RmsNorm {
    #[inline(always)]
    unsafe fn run<V: F32x16>(&self, _stage: usize, part: &mut Part<'_>) {
        for r in part.share(self.n) {
            // SAFETY: checked rows and weight.
            unsafe { self.norm.row::<V>(self.x.row(r), self.y.row(r), self.x.width) };
        }
    }
}
