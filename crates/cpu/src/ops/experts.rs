//! The mixture of experts as an operation.

use tokenfare_device::{Moe, Result};

use crate::args::{Check, Rows};
use crate::linear::{Packed, RowsMutPtr, RowsPtr};
use crate::moe::{MoeArgs, PackedExperts, STAGES, check_expert, run_stage, scratch_len};
use crate::simd::F32x16;
use crate::step::{Kernel, Part};
use crate::{Buf, Cpu, Path};

/// Routed and shared experts of `n` rows.
pub(crate) struct Mixture {
    n: usize,
    x: Rows,
    experts: Buf<u32>,
    weights: Buf<f32>,
    top_k: usize,
    routed: PackedExperts,
    shared: [Packed; 3],
    limit: f32,
    path: Path,
    scratch: Buf<f32>,
    out: Rows,
}

impl Mixture {
    pub fn new(check: Check, args: Moe<'_, Cpu>, path: Path) -> Result<Self> {
        let (n, k, width) = (check.n, args.top_k, args.routed.width());
        let shared = args.shared.each_ref().map(|weight| &weight.0);
        check_expert("shared", shared, width, shared[0].rows())?;
        let inner = args.routed.inner().max(shared[0].rows());
        let one = Check { n: 1, ..check };
        Ok(Self {
            n,
            x: check.input("x", args.x, width)?,
            experts: check.dense("experts", args.experts, k)?,
            weights: check.dense("weights", args.weights, k)?,
            top_k: k,
            routed: args.routed.clone(),
            shared: shared.map(Packed::clone),
            limit: args.limit,
            path,
            scratch: one.dense("scratch", args.scratch, scratch_len(n, k, width, inner))?,
            out: check.output("out", args.out, width)?,
        })
    }
}

impl Kernel for Mixture {
    fn stages(&self) -> usize {
        STAGES
    }

    #[inline(always)]
    unsafe fn run<V: F32x16>(&self, stage: usize, part: &mut Part<'_>) {
        // SAFETY: rows, lists and scratch were checked; the pool puts a barrier after each stage.
        unsafe {
            let args = MoeArgs {
                n: self.n,
                x: RowsPtr { ptr: self.x.row(0), stride: self.x.stride },
                experts: self.experts.ptr(),
                weights: self.weights.ptr(),
                top_k: self.top_k,
                routed: &self.routed,
                shared: self.shared.each_ref(),
                limit: self.limit,
                path: self.path,
                scratch: self.scratch.ptr(),
                out: RowsMutPtr { ptr: self.out.row(0), stride: self.out.stride },
            };
            if stage == 0
                && part.thread == 0
                && let Some(expert) = args.unknown_expert()
            {
                part.fault.index("moe", "experts", expert as usize, self.routed.count());
            }
            run_stage(&args, stage, part.thread, part.threads, part.scratch);
        }
    }
}
