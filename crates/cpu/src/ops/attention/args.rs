//! The arguments of attention, checked, and what all ways to share its work have in common.

use std::ops::Range;

use tokenfare_device::{Result, Selected};

use crate::args::{Check, Packed, Rows};
use crate::math::exp;
use crate::ops::dots::HEADS;
use crate::simd::F32x16;
use crate::{Buf, Cpu};

/// Most values of decoded keys that a thread keeps, 512 KiB: half of what each of two threads has of a cache of 2 MiB.
const KEPT: usize = 128 << 10;

/// Threads a row from which on all threads share each row.
const SPREAD: usize = 3;

/// How threads share the rows.
pub(super) enum Form {
    /// Each thread decodes all keys of its rows and keeps them.
    Whole,
    /// Each thread decodes the keys of its rows in blocks, once for the scores and once for the sums.
    Blocks,
    /// All threads share the keys and then the columns of each row; the buffer holds the rows' scores.
    Spread(Buf<f32>),
}

/// Selected compressed rows.
pub(crate) struct Compressed {
    pub cache: Packed,
    pub base: Buf<u32>,
    pub list: Buf<u32>,
    pub top_k: usize,
}

impl Compressed {
    fn new(check: Check, selected: Selected<'_, Cpu>, width: usize) -> Result<Self> {
        Ok(Self {
            cache: check.cache("selected", selected.cache, width)?,
            base: check.dense("selected base", selected.base, 1)?,
            list: check.dense("selected list", selected.list, selected.top_k)?,
            top_k: selected.top_k,
        })
    }
}

/// Attention of `n` rows.
pub(crate) struct Attention {
    pub n: usize,
    pub q: Rows,
    pub heads: usize,
    pub scale: f32,
    pub sink: Buf<f32>,
    pub window: Packed,
    pub base: Buf<u32>,
    pub ring: usize,
    pub lo: Buf<u32>,
    pub hi: Buf<u32>,
    pub selected: Option<Compressed>,
    pub out: Rows,
    pub(super) form: Form,
}

impl Attention {
    /// Checks `args`; `room` gives a buffer that all threads share for so many values.
    pub fn new(
        check: Check,
        args: tokenfare_device::Attention<'_, Cpu>,
        threads: usize,
        room: impl FnOnce(usize) -> Result<Buf<f32>>,
    ) -> Result<Self> {
        let (heads, ring, width) = (args.heads, args.ring, args.window.width);
        let some = heads > 0 && ring > 0;
        check.that("heads, ring", some, "at least 1 of each", format_args!("{heads}, {ring}"))?;
        let window = check.cache("window", args.window, width)?;
        // Threads make room for a whole ring of keys.
        check.that("ring", ring <= window.rows, format_args!("at most {} rows", window.rows), ring)?;
        let mut attention = Self {
            n: check.n,
            q: check.input("q", args.q, heads.saturating_mul(width))?,
            heads,
            scale: args.scale,
            sink: check.weight("sink", args.sink, heads)?,
            window,
            base: check.dense("base", args.base, 1)?,
            ring,
            lo: check.dense("lo", args.lo, 1)?,
            hi: check.dense("hi", args.hi, 1)?,
            selected: args.selected.map(|selected| Compressed::new(check, selected, width)).transpose()?,
            out: check.output("out", args.out, heads.saturating_mul(width))?,
            form: Form::Whole,
        };
        // Without rows, nothing has bounded the list.
        if check.n > 0 && attention.most_keys().saturating_mul(width) > KEPT {
            let few = check.n.saturating_mul(SPREAD) <= threads;
            let values = check.n.saturating_mul(heads).saturating_mul(attention.stride());
            attention.form = if few { Form::Spread(room(values)?) } else { Form::Blocks };
        }
        Ok(attention)
    }

    /// Most keys of a row.
    pub fn most_keys(&self) -> usize {
        self.ring + self.selected.as_ref().map_or(0, |s| s.top_k)
    }

    /// Values between the scores of one head and the next: those of all keys, and the total behind them.
    pub fn stride(&self) -> usize {
        self.most_keys().next_multiple_of(16) + 16
    }

    /// Groups of heads that share the loads of a key.
    pub fn groups(&self) -> usize {
        self.heads.div_ceil(HEADS)
    }

    /// The heads of some groups.
    pub fn heads(&self, groups: Range<usize>) -> Range<usize> {
        groups.start * HEADS..self.heads.min(groups.end * HEADS)
    }

    /// Turns the scores of some heads into weights, and puts their totals behind them.
    ///
    /// # Safety
    /// `scores` holds [`Self::stride`] values a head, `count` of them scores. Needs `V`'s instruction set.
    #[inline(always)]
    pub unsafe fn weigh<V: F32x16>(&self, heads: Range<usize>, count: usize, scores: *mut f32) {
        for (i, head) in heads.enumerate() {
            // SAFETY: as the caller states; there is a sink for each head.
            unsafe {
                let scores = scores.add(i * self.stride());
                let total = weights::<V>(scores, count, self.scale, self.sink.get(head));
                *scores.add(self.stride() - 1) = total;
            }
        }
    }
}

/// Turns the scores of one head into weights over a stride that is a multiple of sixteen, and gives their sum with the
/// sink's.
#[inline(always)]
unsafe fn weights<V: F32x16>(scores: *mut f32, count: usize, scale: f32, sink: f32) -> f32 {
    // SAFETY: the row has room for `count` rounded up to sixteen.
    unsafe {
        let padded = count.next_multiple_of(16);
        for i in count..padded {
            *scores.add(i) = f32::NEG_INFINITY;
        }
        let scale = V::splat(scale);
        let mut max = V::splat(f32::NEG_INFINITY);
        let mut i = 0;
        while i < padded {
            max = V::load(scores.add(i)).mul(scale).max(max);
            i += 16;
        }
        let largest = max.reduce_max();
        let largest = if largest > sink { largest } else { sink };
        let shift = V::splat(largest);
        let mut sum = V::splat(0.0);
        i = 0;
        while i < padded {
            exp(V::load(scores.add(i)).mul(scale).sub(shift)).store(scores.add(i));
            for lane in count.max(i)..padded.min(i + 16) {
                *scores.add(lane) = 0.0;
            }
            sum = sum.add(V::load(scores.add(i)));
            i += 16;
        }
        let mut lane = [0.0; 16];
        exp(V::splat(sink - largest)).store(lane.as_mut_ptr());
        sum.sum() + lane[0]
    }
}
