//! Selection of compressed rows by index keys.

use tokenfare_device::{Candidates, IndexSelect, NONE, Result};

use crate::args::{Check, Packed, Rows};
use crate::ops::decode::decode_row;
use crate::ops::dots::dots;
use crate::ops::top::{best, position, rank};
use crate::simd::F32x16;
use crate::step::{Fault, Kernel, Part, Work};
use crate::{Buf, Cpu};

/// Keys scored at a time.
const KEYS: usize = 16;

/// Checked [`tokenfare_device::Candidates`].
pub(crate) enum Blocks {
    Ignore,
    Keep { block: usize, top: usize, mask: Buf<u32>, words: usize },
    Inside { block: usize, mask: Buf<u32>, words: usize },
}

impl Blocks {
    fn new(check: Check, candidates: Candidates<'_, Cpu>) -> Result<Self> {
        let sized = |block: usize, mask: &Buf<u32>, words: usize| {
            check.that("block", block > 0, "at least 1 key", block)?;
            check.dense("mask", mask, words)
        };
        Ok(match candidates {
            Candidates::None => Self::Ignore,
            Candidates::Write { block, top, mask, words } => {
                Self::Keep { block, top, mask: sized(block, mask, words)?, words }
            }
            Candidates::Read { block, mask, words } => {
                Self::Inside { block, mask: sized(block, mask, words)?, words }
            }
        })
    }
}

/// Selection for `n` rows.
pub(crate) struct Select {
    pub n: usize,
    pub q: Rows,
    pub gate: Rows,
    pub scale: f32,
    pub keys: Packed,
    pub base: Buf<u32>,
    pub count: Buf<u32>,
    pub top_k: usize,
    pub blocks: Blocks,
    pub out: Buf<u32>,
    /// Room for `[n, keys.rows]` scores where it is shared.
    pub scores: Work,
}

impl Select {
    pub fn new(check: Check, args: IndexSelect<'_, Cpu>, scores: Work) -> Result<Self> {
        let (width, heads) = (args.keys.width, args.gate.width);
        Ok(Self {
            n: check.n,
            q: check.input("q", args.q, heads.saturating_mul(width))?,
            gate: check.input("gate", args.gate, heads)?,
            scale: args.scale,
            keys: check.cache("keys", args.keys, width)?,
            base: check.dense("base", args.base, 1)?,
            count: check.dense("count", args.count, 1)?,
            top_k: args.top_k,
            blocks: Blocks::new(check, args.candidates)?,
            out: check.dense("out", args.out, args.top_k)?,
            scores,
        })
    }

    /// First key row and number of keys of row `r`; no keys when they would not lie inside the cache.
    ///
    /// # Safety
    /// `r < n`.
    #[inline(always)]
    unsafe fn reach(&self, r: usize, fault: &Fault) -> (usize, usize) {
        // SAFETY: both buffers hold `n` elements.
        let (base, count) = unsafe { (self.base.get(r), self.count.get(r) as usize) };
        if base == NONE || count == 0 {
            return (0, 0);
        }
        if base as usize + count > self.keys.rows {
            fault.index("index_select", "last key", base as usize + count - 1, self.keys.rows);
            return (0, 0);
        }
        (base as usize, count)
    }

    /// Scores keys `from..to` of row `r` into `out[from..to]`.
    ///
    /// # Safety
    /// The keys lie inside the cache, `temp` has room for [`Select::temp`] values; needs `V`'s instruction set.
    #[inline(always)]
    unsafe fn score<V: F32x16>(
        &self,
        r: usize,
        base: usize,
        from: usize,
        to: usize,
        temp: *mut f32,
        out: *mut f32,
    ) {
        let (width, heads) = (self.keys.width, self.gate.width);
        // SAFETY: as promised by the caller; a block has at most `KEYS` keys.
        unsafe {
            let (keys, products) = (temp, temp.add(KEYS * width));
            let (q, gate) = (self.q.row(r), self.gate.row(r));
            let mut first = from;
            while first < to {
                let count = KEYS.min(to - first);
                for k in 0..count {
                    decode_row::<V>(&self.keys, base + first + k, keys.add(k * width));
                }
                dots::<V>(q, heads, keys, count, width, products, KEYS);
                let mut score = V::splat(0.0);
                for h in 0..heads {
                    let product = V::load(products.add(h * KEYS)).max(V::splat(0.0));
                    score = product.fma(V::splat(*gate.add(h) * self.scale), score);
                }
                let mut lanes = [0.0; KEYS];
                score.store(lanes.as_mut_ptr());
                std::ptr::copy_nonoverlapping(lanes.as_ptr(), out.add(first), count);
                first += count;
            }
        }
    }

    /// Working values of [`Select::score`].
    fn temp(&self) -> usize {
        KEYS * (self.keys.width + self.gate.width)
    }

    /// Selects from the scores of row `r`.
    ///
    /// # Safety
    /// Mask and output hold `n` rows, of which this is this thread's alone.
    unsafe fn select(&self, r: usize, scores: &[f32], ranks: &mut [u64], fault: &Fault) {
        if let Blocks::Keep { block, top, mask, words } = &self.blocks {
            // SAFETY: the mask holds `words` words a row.
            let mask = unsafe { std::slice::from_raw_parts_mut(mask.ptr().add(r * words), *words) };
            keep_blocks(scores, *block, *top, mask, ranks, fault);
        }
        let mut len = 0;
        let mut push = |j: usize| {
            ranks[len] = rank(scores[j], j);
            len += 1;
        };
        match &self.blocks {
            Blocks::Inside { block, mask, words } => {
                // SAFETY: the mask holds `words` words a row.
                let mask = unsafe { std::slice::from_raw_parts(mask.ptr().add(r * words), *words) };
                for b in 0..scores.len().div_ceil(*block).min(32 * words) {
                    if mask[b / 32] >> (b % 32) & 1 == 1 {
                        (b * block..scores.len().min((b + 1) * block)).for_each(&mut push);
                    }
                }
            }
            Blocks::Ignore | Blocks::Keep { .. } => (0..scores.len()).for_each(&mut push),
        }
        let kept = best(&mut ranks[..len], self.top_k);
        // SAFETY: the output holds `top_k` elements a row.
        let out = unsafe { std::slice::from_raw_parts_mut(self.out.ptr().add(r * self.top_k), self.top_k) };
        out.fill(NONE);
        for (out, &rank) in out.iter_mut().zip(&ranks[..kept]) {
            *out = position(rank);
        }
    }
}

/// Marks the `top` blocks with the best scores, the newest always among them.
fn keep_blocks(scores: &[f32], block: usize, top: usize, mask: &mut [u32], ranks: &mut [u64], fault: &Fault) {
    mask.fill(0);
    let count = scores.len().div_ceil(block);
    let mut len = 0;
    for (b, scores) in scores.chunks(block).enumerate() {
        let largest = scores.iter().copied().fold(f32::NEG_INFINITY, |m, v| if v > m { v } else { m });
        let largest = if b + 1 == count { f32::INFINITY } else { largest };
        if largest > f32::NEG_INFINITY {
            ranks[len] = rank(largest, b);
            len += 1;
        }
    }
    let kept = best(&mut ranks[..len], top);
    let words = mask.len();
    for &rank in &ranks[..kept] {
        let b = position(rank) as usize;
        match mask.get_mut(b / 32) {
            Some(word) => *word |= 1 << (b % 32),
            None => return fault.index("index_select", "candidate block", b, 32 * words),
        }
    }
}

/// Splits `bytes` into `ranks` ranks and as many values behind them as fit.
fn split(bytes: &mut [u8], ranks: usize) -> (&mut [u64], &mut [f32]) {
    let (head, tail) = bytes.split_at_mut(ranks * size_of::<u64>());
    // SAFETY: the arena is aligned to 64, so both parts are aligned; every bit pattern is valid.
    unsafe { (head.align_to_mut::<u64>().1, tail.align_to_mut::<f32>().1) }
}

impl Kernel for Select {
    fn stages(&self) -> usize {
        self.scores.stages()
    }

    #[inline(always)]
    unsafe fn run<V: F32x16>(&self, stage: usize, part: &mut Part<'_>) {
        // SAFETY: rows and keys are checked; in the first stage of two, threads share keys, else whole rows.
        unsafe {
            match &self.scores {
                Work::Shared(scores) if stage == 0 => {
                    for r in 0..self.n {
                        let (base, count) = self.reach(r, part.fault);
                        let share = part.share(count.div_ceil(KEYS));
                        let (from, to) = (share.start * KEYS, count.min(share.end * KEYS));
                        let temp = part.scratch.floats(self.temp()).as_mut_ptr();
                        self.score::<V>(r, base, from, to, temp, scores.ptr().add(r * self.keys.rows));
                    }
                }
                Work::Shared(scores) => {
                    for r in part.share(self.n) {
                        let (_, count) = self.reach(r, part.fault);
                        let (ranks, _) = split(part.scratch.bytes(count * size_of::<u64>()), count);
                        let scores = std::slice::from_raw_parts(scores.ptr().add(r * self.keys.rows), count);
                        self.select(r, scores, ranks, part.fault);
                    }
                }
                Work::PerThread => {
                    for r in part.share(self.n) {
                        let (base, count) = self.reach(r, part.fault);
                        let bytes = count * size_of::<u64>() + (count + self.temp()) * size_of::<f32>();
                        let (ranks, rest) = split(part.scratch.bytes(bytes), count);
                        let (scores, temp) = rest.split_at_mut(count);
                        self.score::<V>(r, base, 0, count, temp.as_mut_ptr(), scores.as_mut_ptr());
                        self.select(r, scores, ranks, part.fault);
                    }
                }
            }
        }
    }
}
