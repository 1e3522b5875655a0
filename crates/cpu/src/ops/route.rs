//! Choice of routed experts.

use tokenfare_device::Result;

use crate::args::{Check, Rows};
use crate::math::softplus;
use crate::ops::rows::{load, store};
use crate::ops::top::{best, position, rank};
use crate::simd::F32x16;
use crate::step::{Kernel, Part};
use crate::{Buf, Cpu};

/// Whether the chosen affinities are divided by their sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Normalize {
    BySum,
    Not,
}

/// Routing of `n` rows.
pub(crate) struct Route {
    pub n: usize,
    pub logits: Rows,
    pub bias: Buf<f32>,
    pub top_k: usize,
    pub normalize: Normalize,
    pub scale: f32,
    pub experts: Buf<u32>,
    pub weights: Buf<f32>,
}

impl Route {
    pub fn new(check: Check, args: tokenfare_device::Route<'_, Cpu>) -> Result<Self> {
        let (count, k) = (args.logits.width, args.top_k);
        check.that("top_k", k <= count, format_args!("at most {count}"), k)?;
        Ok(Self {
            n: check.n,
            logits: check.input("logits", args.logits, count)?,
            bias: check.weight("bias", args.bias, count)?,
            top_k: k,
            normalize: if args.normalize { Normalize::BySum } else { Normalize::Not },
            scale: args.scale,
            experts: check.dense("experts", args.experts, k)?,
            weights: check.dense("weights", args.weights, k)?,
        })
    }
}

impl Kernel for Route {
    #[inline(always)]
    unsafe fn run<V: F32x16>(&self, _stage: usize, part: &mut Part<'_>) {
        let count = self.logits.width;
        for r in part.share(self.n) {
            let (head, tail) = part.scratch.bytes(count * 12).split_at_mut(count * 8);
            // SAFETY: the arena is aligned to 64, so both parts are aligned; every bit pattern is valid.
            let (ranks, affinity) = unsafe { (head.align_to_mut::<u64>().1, tail.align_to_mut::<f32>().1) };
            // SAFETY: checked rows; the bias holds `count` values, experts and weights `top_k` a row.
            unsafe {
                let logits = self.logits.row(r);
                let mut i = 0;
                while i < count {
                    let left = count - i;
                    store(softplus(load::<V>(logits.add(i), left)), affinity.as_mut_ptr().add(i), left);
                    i += 16;
                }
                for (e, (rank_at, affinity)) in ranks.iter_mut().zip(affinity.iter_mut()).enumerate() {
                    *affinity = affinity.sqrt();
                    *rank_at = rank(*affinity + self.bias.get(e), e);
                }
                let kept = best(ranks, self.top_k);
                let chosen = &ranks[..kept];
                let sum = chosen.iter().map(|&rank| affinity[position(rank) as usize]).sum::<f32>();
                let divisor = if self.normalize == Normalize::BySum { sum + 1e-20 } else { 1.0 };
                for (i, &rank) in chosen.iter().enumerate() {
                    let weight = affinity[position(rank) as usize] / divisor * self.scale;
                    self.experts.set(r * self.top_k + i, position(rank));
                    self.weights.set(r * self.top_k + i, weight);
                }
            }
        }
    }
}
