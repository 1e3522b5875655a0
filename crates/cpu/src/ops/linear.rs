//! Linear layers, and the hyper-connection mixes that begin with one.

use tokenfare_device::{Result, View};

use crate::args::{Check, Rows};
use crate::linear::{Packed, RowsMutPtr, RowsPtr};
use crate::ops::hyper::{MAX_STREAMS, Mixes};
use crate::simd::F32x16;
use crate::step::{Kernel, Part};
use crate::{Buf, Cpu};

/// `y = W x` for `n` rows.
pub(crate) struct Linear {
    pub n: usize,
    pub x: Rows,
    pub weight: Packed,
    pub y: Rows,
}

impl Linear {
    pub fn new(check: Check, x: View<'_, Cpu>, weight: &Packed, y: View<'_, Cpu>) -> Result<Self> {
        Ok(Self {
            n: check.n,
            x: check.input("x", x, weight.groups() * weight.cols())?,
            weight: weight.clone(),
            y: check.output("y", y, weight.rows())?,
        })
    }

    /// This thread's share: tiles of outputs, or tiles of single rows where there are fewer tiles than threads.
    ///
    /// # Safety
    /// As [`Kernel::run`].
    unsafe fn share(&self, part: &mut Part<'_>) {
        let tiles = self.weight.tiles();
        // SAFETY: checked rows; outputs of threads do not overlap.
        unsafe {
            let x = RowsPtr { ptr: self.x.row(0), stride: self.x.stride };
            let y = RowsMutPtr { ptr: self.y.row(0), stride: self.y.stride };
            if tiles >= part.threads || self.n == 1 {
                let share = part.share(tiles);
                return self.weight.run(self.n, x, y, share, part.scratch);
            }
            for unit in part.share(tiles * self.n) {
                let (tile, r) = (unit / self.n, unit % self.n);
                let x = RowsPtr { ptr: self.x.row(r), ..x };
                let y = RowsMutPtr { ptr: self.y.row(r), ..y };
                self.weight.run(1, x, y, tile..tile + 1, part.scratch);
            }
        }
    }
}

impl Kernel for Linear {
    #[inline(always)]
    unsafe fn run<V: F32x16>(&self, _stage: usize, part: &mut Part<'_>) {
        // SAFETY: as the caller promises.
        unsafe { self.share(part) };
    }
}

/// The mixes: a projection of the streams into `out`, then their norm, gates and Sinkhorn passes.
pub(crate) struct Mix {
    projection: Linear,
    mixes: Mixes,
}

/// Parameters of the mixes beside the projection.
pub(crate) struct MixArgs<'a> {
    pub base: &'a Buf<f32>,
    pub scale: &'a Buf<f32>,
    pub iters: usize,
    pub eps: f32,
    pub norm_eps: f32,
    pub squares: &'a Buf<f32>,
}

impl Mix {
    pub fn new(
        check: Check,
        h: View<'_, Cpu>,
        weight: &Packed,
        args: MixArgs<'_>,
        out: View<'_, Cpu>,
    ) -> Result<Self> {
        let rows = weight.rows();
        let streams = (1..=MAX_STREAMS).find(|s| 2 * s + s * s == rows).unwrap_or(0);
        check.that(
            "mix",
            streams > 0,
            format_args!("2s + s*s rows for up to {MAX_STREAMS} streams s"),
            rows,
        )?;
        check.split("h", h.width, streams)?;
        let projection = Linear::new(check, h, weight, out)?;
        let mixes = Mixes {
            n: check.n,
            h: projection.x.clone(),
            streams,
            base: check.weight("base", args.base, rows)?,
            scale: check.weight("scale", args.scale, 3)?,
            iters: args.iters,
            eps: args.eps,
            norm_eps: args.norm_eps,
            squares: args.squares.clone(),
            out: projection.y.clone(),
        };
        Ok(Self { projection, mixes })
    }
}

impl Kernel for Mix {
    fn stages(&self) -> usize {
        2
    }

    #[inline(always)]
    unsafe fn run<V: F32x16>(&self, stage: usize, part: &mut Part<'_>) {
        // SAFETY: as the caller promises; the second stage reads what the first wrote.
        unsafe {
            if stage == 0 {
                self.projection.share(part);
                self.mixes.squares::<V>(part);
            } else {
                self.mixes.finish::<V>(part);
            }
        }
    }
}
