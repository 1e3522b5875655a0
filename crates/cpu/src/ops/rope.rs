//! Rotation of adjacent pairs.

use tokenfare_device::{CacheFormat, Result, View};

use crate::args::{Check, Rows};
use crate::ops::decode::decode;
use crate::simd::F32x16;
use crate::step::{Kernel, Part};
use crate::{Buf, Cpu};

/// Direction of a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Forward,
    Inverse,
}

/// Rotates the last `angles.len()` values of `x`: `e' = e cos - o sin`, `o' = e sin + o cos`.
#[inline(always)]
pub(crate) fn rotate(x: &mut [f32], angles: &[f32], turn: Turn) {
    let (cos, sin) = angles.split_at(angles.len() / 2);
    let start = x.len() - angles.len();
    for ((pair, c), s) in x[start..].as_chunks_mut::<2>().0.iter_mut().zip(cos).zip(sin) {
        let s = if turn == Turn::Inverse { -s } else { *s };
        let [e, o] = *pair;
        *pair = [e * c - o * s, e * s + o * c];
    }
}

/// Rotation of every head, then a round trip through a cache format.
pub(crate) struct Rope {
    pub n: usize,
    pub x: Rows,
    pub heads: usize,
    pub angles: Buf<f32>,
    pub rope_dims: usize,
    pub turn: Turn,
    pub round_trip: CacheFormat,
}

impl Rope {
    pub fn new(
        check: Check,
        x: View<'_, Cpu>,
        heads: usize,
        (angles, rope_dims, turn): (&Buf<f32>, usize, Turn),
        round_trip: CacheFormat,
    ) -> Result<Self> {
        let dim = check.split("x", x.width, heads)?;
        check.rotated(rope_dims, dim)?;
        let whole = round_trip == CacheFormat::F32 || dim.is_multiple_of(32);
        check.that("x", whole, "heads of a multiple of 32 values", dim)?;
        Ok(Self {
            n: check.n,
            x: check.output("x", x, x.width)?,
            heads,
            angles: check.dense("angles", angles, rope_dims)?,
            rope_dims,
            turn,
            round_trip,
        })
    }
}

impl Kernel for Rope {
    #[inline(always)]
    unsafe fn run<V: F32x16>(&self, _stage: usize, part: &mut Part<'_>) {
        let dim = self.x.width / self.heads;
        for unit in part.share(self.n * self.heads) {
            let (r, head) = (unit / self.heads, unit % self.heads);
            // SAFETY: checked rows and angles; every head belongs to one thread.
            let (x, angles) = unsafe {
                let x = std::slice::from_raw_parts_mut(self.x.row(r).add(head * dim), dim);
                let angles = self.angles.ptr().add(r * self.rope_dims);
                (x, std::slice::from_raw_parts(angles, self.rope_dims))
            };
            rotate(x, angles, self.turn);
            if self.round_trip != CacheFormat::F32 {
                let row = part.scratch.bytes(self.round_trip.row_bytes(dim));
                self.round_trip.encode(x, row);
                // SAFETY: the caller has V's instruction set.
                unsafe { decode::<V>(self.round_trip, row, x) };
            }
        }
    }
}
