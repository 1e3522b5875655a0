//! The gate that adds an Engram row to the streams.

use tokenfare_device::{Result, View};

use crate::args::{Check, Rows};
use crate::math::sigmoid;
use crate::ops::norm::inverse_rms;
use crate::ops::rows::{load, store, sum_products};
use crate::simd::F32x16;
use crate::step::{Kernel, Part};
use crate::{Buf, Cpu};

/// Gating of `n` rows, in place on `h`.
pub(crate) struct Gate {
    pub n: usize,
    pub kv: Rows,
    pub qk: Buf<f32>,
    pub eps: f32,
    pub h: Rows,
}

impl Gate {
    pub fn new(check: Check, kv: View<'_, Cpu>, qk: &Buf<f32>, eps: f32, h: View<'_, Cpu>) -> Result<Self> {
        let width = kv.width.saturating_sub(h.width);
        let holds = width > 0 && h.width.is_multiple_of(width);
        check.that("kv", holds, format_args!("the streams of {} values and one more", h.width), kv.width)?;
        Ok(Self {
            n: check.n,
            kv: check.input("kv", kv, kv.width)?,
            qk: check.weight("qk", qk, h.width)?,
            eps,
            h: check.output("h", h, h.width)?,
        })
    }
}

impl Kernel for Gate {
    #[inline(always)]
    unsafe fn run<V: F32x16>(&self, _stage: usize, part: &mut Part<'_>) {
        let width = self.kv.width - self.h.width;
        let streams = self.h.width / width;
        for unit in part.share(self.n * streams) {
            let (r, s) = (unit / streams, unit % streams);
            // SAFETY: checked rows and weight; every stream belongs to one thread.
            unsafe {
                let (h, key) = (self.h.row(r).add(s * width), self.kv.row(r).add(s * width));
                let value = self.kv.row(r).add(self.h.width);
                let dot = sum_products::<V>(h, key, Some(self.qk.ptr().add(s * width)), width);
                let norm = inverse_rms(sum_products::<V>(h, h, None, width), width, self.eps)
                    * inverse_rms(sum_products::<V>(key, key, None, width), width, self.eps);
                let similarity = dot * norm / (width as f32).sqrt();
                let size = similarity.abs();
                let root = if size < 1e-6 { 1e-6_f32.sqrt() } else { size.sqrt() };
                let gate = sigmoid(V::splat(root.copysign(similarity)));
                let mut i = 0;
                while i < width {
                    let left = width - i;
                    store(gate.fma(load(value.add(i), left), load(h.add(i), left)), h.add(i), left);
                    i += 16;
                }
            }
        }
    }
}
