//! Gated pooling of token pairs, the ratio-2 compressor.

use tokenfare_device::{Buffer, NONE, PairPool, Result};

use crate::args::{Check, Rows};
use crate::math::exp;
use crate::ops::rows::{load, store};
use crate::simd::F32x16;
use crate::step::{Kernel, Part};
use crate::{Buf, Cpu};

/// Columns that one thread takes at a time.
const SPAN: usize = 64;

/// Pooling of pairs. Threads share the columns, so each column's writes and reads keep the order of the rows.
pub(crate) struct Pool {
    pub n: usize,
    pub kv: Rows,
    pub gate: Rows,
    pub carry: Buf<f32>,
    /// Rows of `carry`.
    pub held: usize,
    pub store: Buf<u32>,
    pub first: Buf<u32>,
    pub out: Rows,
}

impl Pool {
    pub fn new(check: Check, args: PairPool<'_, Cpu>) -> Result<Self> {
        let width = args.out.width;
        let out = check.output("out", args.out, width)?;
        let found = args.carry.len();
        check.that("carry", found.is_multiple_of(2 * width), format_args!("rows of {}", 2 * width), found)?;
        Ok(Self {
            n: check.n,
            kv: check.input("kv", args.kv, width)?,
            gate: check.input("gate", args.gate, width)?,
            carry: args.carry.clone(),
            held: found / (2 * width),
            store: check.dense("store", args.store, 1)?,
            first: check.dense("first", args.first, 1)?,
            out,
        })
    }

    /// The carry row that an index names; `None` for no row, or for one that is not there.
    ///
    /// # Safety
    /// `index` holds `n` elements and `r < n`.
    #[inline(always)]
    unsafe fn carry_row(
        &self,
        what: &'static str,
        index: &Buf<u32>,
        r: usize,
        part: &Part<'_>,
    ) -> Option<*mut f32> {
        // SAFETY: the row is checked against the rows that `carry` holds.
        unsafe {
            let row = index.get(r);
            if row == NONE {
                return None;
            }
            if row as usize >= self.held {
                part.fault.index("pair_pool", what, row as usize, self.held);
                return None;
            }
            Some(self.carry.ptr().add(row as usize * 2 * self.out.width))
        }
    }
}

impl Kernel for Pool {
    #[inline(always)]
    unsafe fn run<V: F32x16>(&self, _stage: usize, part: &mut Part<'_>) {
        let width = self.out.width;
        let share = part.share(width.div_ceil(SPAN));
        let (start, end) = (share.start * SPAN, width.min(share.end * SPAN));
        if start >= end {
            return;
        }
        // SAFETY: checked rows; columns `start..end` belong to this thread alone.
        unsafe {
            for r in 0..self.n {
                if let Some(carry) = self.carry_row("store", &self.store, r, part) {
                    std::ptr::copy(self.kv.row(r).add(start), carry.add(start), end - start);
                    std::ptr::copy(self.gate.row(r).add(start), carry.add(width + start), end - start);
                }
            }
            for r in 0..self.n {
                let (kv, gate, out) = (self.kv.row(r), self.gate.row(r), self.out.row(r));
                let Some(carry) = self.carry_row("first", &self.first, r, part) else {
                    std::ptr::write_bytes(out.add(start), 0, end - start);
                    continue;
                };
                let mut i = start;
                while i < end {
                    let left = end - i;
                    let (ga, gb) = (load::<V>(carry.add(width + i), left), load::<V>(gate.add(i), left));
                    let max = ga.max(gb);
                    let (a, b) = (exp(ga.sub(max)), exp(gb.sub(max)));
                    let sum = a.add(b);
                    let second = load::<V>(kv.add(i), left).mul(b.div(sum));
                    store(load::<V>(carry.add(i), left).fma(a.div(sum), second), out.add(i), left);
                    i += 16;
                }
            }
        }
    }
}
