//! Attention over the window and the selected compressed rows: one key-value head, values = keys.

use std::ops::Range;

use tokenfare_device::{NONE, Result, Selected};

use crate::args::{Check, Packed, Rows};
use crate::math::exp;
use crate::ops::decode::decode_row;
use crate::ops::dots::{HEADS, dots};
use crate::simd::F32x16;
use crate::step::{Fault, Kernel, Part};
use crate::{Buf, Cpu};

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
}

impl Attention {
    pub fn new(check: Check, args: tokenfare_device::Attention<'_, Cpu>) -> Result<Self> {
        let (heads, ring, width) = (args.heads, args.ring, args.window.width);
        let some = heads > 0 && ring > 0;
        check.that("heads, ring", some, "at least 1 of each", format_args!("{heads}, {ring}"))?;
        let window = check.cache("window", args.window, width)?;
        // Threads make room for a whole ring of keys.
        check.that("ring", ring <= window.rows, format_args!("at most {} rows", window.rows), ring)?;
        Ok(Self {
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
        })
    }

    /// Most keys of a row.
    fn most_keys(&self) -> usize {
        self.ring + self.selected.as_ref().map_or(0, |s| s.top_k)
    }

    /// Groups of heads that share the loads of a key.
    fn groups(&self) -> usize {
        self.heads.div_ceil(HEADS)
    }

    /// Attends with some of the groups of heads of all rows.
    ///
    /// # Safety
    /// `scores` has room for one group; otherwise as [`Kernel::run`].
    #[inline(always)]
    unsafe fn attend<V: F32x16>(
        &self,
        units: Range<usize>,
        fault: &Fault,
        scores: *mut f32,
        mut decoded: Decoded<'_>,
    ) {
        let (width, stride) = (self.window.width, self.most_keys().next_multiple_of(16));
        let groups = self.groups();
        let mut current = None;
        for unit in units {
            let (r, first) = (unit / groups, unit % groups * HEADS);
            let heads = HEADS.min(self.heads - first);
            // SAFETY: checked rows; `count` keys of `width` values; heads belong to one thread.
            unsafe {
                let keys = match current {
                    Some((row, keys)) if row == r => keys,
                    _ => current.insert((r, self.keys::<V>(r, fault, &mut decoded))).1,
                };
                let count = keys.count();
                let (q, out) = (self.q.row(r).add(first * width), self.out.row(r).add(first * width));
                if count == 0 {
                    std::ptr::write_bytes(out, 0, heads * width);
                    continue;
                }
                let mut done = 0;
                for (keys, count) in keys.0 {
                    dots::<V>(q, heads, keys, count, width, scores.add(done), stride);
                    done += count;
                }
                let mut totals = [V::splat(1.0); HEADS];
                for (h, total) in totals.iter_mut().enumerate().take(heads) {
                    let w = scores.add(h * stride);
                    *total = V::splat(weights::<V>(w, count, self.scale, self.sink.get(first + h)));
                }
                let values = Values { keys, width };
                if heads == HEADS {
                    values.accumulate::<V, HEADS>(scores, stride, &totals, out);
                    continue;
                }
                for (h, &total) in totals.iter().enumerate().take(heads) {
                    values.accumulate::<V, 1>(scores.add(h * stride), stride, &[total], out.add(h * width));
                }
            }
        }
    }

    /// Decodes the keys of row `r` that are not decoded yet, and says where its keys lie; none where it attends to
    /// nothing, or to a row outside a cache.
    ///
    /// # Safety
    /// As [`Kernel::run`].
    #[inline(always)]
    unsafe fn keys<V: F32x16>(&self, r: usize, fault: &Fault, decoded: &mut Decoded<'_>) -> Keys {
        // SAFETY: index buffers hold `n` rows; every cache row is checked against its cache.
        unsafe {
            let (base, none) = (self.base.get(r), Keys([(decoded.room.cast_const(), 0); 3]));
            if base == NONE {
                return none;
            }
            let lo = self.lo.get(r) as usize;
            let count = (self.hi.get(r) as usize).saturating_sub(lo);
            if count > self.ring {
                fault.index("attention", "hi - lo", count, self.ring + 1);
                return none;
            }
            let first = lo % self.ring;
            let unwrapped = count.min(self.ring - first);
            for place in (first..first + unwrapped).chain(0..count - unwrapped) {
                let row = base as usize + place;
                if row >= self.window.rows {
                    fault.index("attention", "window row", row, self.window.rows);
                    return none;
                }
                decoded.hold::<V>(place, &self.window, row);
            }
            let at = |place: usize| decoded.room.wrapping_add(place * self.window.width).cast_const();
            let mut keys = Keys([(at(first), unwrapped), (at(0), count - unwrapped), (at(self.ring), 0)]);
            let Some(selected) = &self.selected else {
                return keys;
            };
            let (base, behind) = (selected.base.get(r) as usize, &mut keys.0[2].1);
            for i in 0..selected.top_k {
                let key = selected.list.get(r * selected.top_k + i);
                if key == NONE {
                    continue;
                }
                let row = base + key as usize;
                if row >= selected.cache.rows {
                    fault.index("attention", "selected row", row, selected.cache.rows);
                    return none;
                }
                decoded.hold::<V>(self.ring + *behind, &selected.cache, row);
                *behind += 1;
            }
            keys
        }
    }
}

/// Keys as a thread has decoded them, each at its place: that of the ring, or behind it.
struct Decoded<'a> {
    /// The cache row that each place holds; rows of one stream share most of their keys.
    held: &'a mut [u64],
    room: *mut f32,
}

impl Decoded<'_> {
    /// Decodes a cache row to its place, unless that holds it.
    ///
    /// # Safety
    /// The row lies in the cache, its place in the room. Needs `V`'s instruction set.
    #[inline(always)]
    unsafe fn hold<V: F32x16>(&mut self, place: usize, cache: &Packed, row: usize) {
        if self.held[place] != row as u64 {
            self.held[place] = row as u64;
            // SAFETY: as the caller states.
            unsafe { decode_row::<V>(cache, row, self.room.add(place * cache.width)) }
        }
    }
}

/// Decoded keys of a row, in order: those of the window up to the end of its ring, those from its start on, the selected.
#[derive(Clone, Copy)]
struct Keys([(*const f32, usize); 3]);

impl Keys {
    fn count(&self) -> usize {
        self.0.iter().map(|(_, count)| count).sum()
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

/// Decoded keys, which are the values too.
struct Values {
    keys: Keys,
    width: usize,
}

impl Values {
    /// `out_h = sum_k w_hk key_k / total_h` for `H` heads, keys in order.
    ///
    /// # Safety
    /// A weight for each key lies at each `stride` of `w`; `out` holds `H` rows of the keys' width, a multiple of sixteen.
    #[inline(always)]
    unsafe fn accumulate<V: F32x16, const H: usize>(
        &self,
        w: *const f32,
        stride: usize,
        totals: &[V; H],
        out: *mut f32,
    ) {
        let mut col = 0;
        // SAFETY: columns lie inside the width.
        unsafe {
            while col < self.width {
                col += match self.width - col {
                    64.. if V::REGISTERS > 4 * H + 4 => self.columns::<V, H, 4>(w, stride, totals, out, col),
                    _ => self.columns::<V, H, 1>(w, stride, totals, out, col),
                };
            }
        }
    }

    /// `C` vectors of columns from `col` on; gives their number of values.
    #[inline(always)]
    unsafe fn columns<V: F32x16, const H: usize, const C: usize>(
        &self,
        w: *const f32,
        stride: usize,
        totals: &[V; H],
        out: *mut f32,
        col: usize,
    ) -> usize {
        // SAFETY: as the caller states.
        unsafe {
            let mut sums = [[V::splat(0.0); C]; H];
            let mut w = w;
            for (keys, count) in self.keys.0 {
                for k in 0..count {
                    let key = keys.add(k * self.width + col);
                    let mut values = [V::splat(0.0); C];
                    for (c, value) in values.iter_mut().enumerate() {
                        *value = V::load(key.add(16 * c));
                    }
                    for (h, sums) in sums.iter_mut().enumerate() {
                        let factor = V::splat(*w.add(h * stride + k));
                        for (sum, value) in sums.iter_mut().zip(values) {
                            *sum = factor.fma(value, *sum);
                        }
                    }
                }
                w = w.add(count);
            }
            for (h, (sums, &total)) in sums.into_iter().zip(totals).enumerate() {
                for (c, sum) in sums.into_iter().enumerate() {
                    sum.div(total).store(out.add(h * self.width + col + 16 * c));
                }
            }
        }
        16 * C
    }
}

impl Kernel for Attention {
    #[inline(always)]
    unsafe fn run<V: F32x16>(&self, _stage: usize, part: &mut Part<'_>) {
        let units = part.share(self.n * self.groups());
        // Without rows, nothing has bounded the list.
        if units.is_empty() {
            return;
        }
        let (width, most) = (self.window.width, self.most_keys());
        let stride = most.next_multiple_of(16);
        // SAFETY: the scratch holds `most` keys and their scores, rows are checked, and threads share no head.
        unsafe {
            let scores = part.scratch.floats((HEADS + 2) * stride + most * width).as_mut_ptr();
            let room = scores.add((HEADS + 2) * stride);
            let held = std::slice::from_raw_parts_mut(scores.add(HEADS * stride).cast(), most);
            held.fill(u64::MAX);
            self.attend::<V>(units, part.fault, scores, Decoded { held, room });
        }
    }
}
