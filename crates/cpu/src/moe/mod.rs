//! Mixture of experts, in three stages with a barrier after each.
//!
//! Rows are grouped by expert, so that each expert's weights are read once for all of its rows; the shared expert is
//! one more group with every row. Stage 0 computes `weight * silu(w1 x) * (w3 x)` for each pair of row and expert,
//! stage 1 multiplies it by w2, and stage 2 sums each row's products: routed experts in their order, then the shared
//! one. Threads share the tiles of all groups by cost; no sum depends on how.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tokenfare_device::{DeviceError, Result};

use crate::linear::{FEATURES, Launch, Packed, RowsMutPtr, RowsPtr};
use crate::math::exp;
use crate::simd::{F32x16, per_isa};
use crate::{Path, Scratch};
use plan::Group;
pub(crate) use plan::Plan;

/// Number of stages; a barrier belongs after each.
pub const STAGES: usize = 3;

/// All routed experts of a layer; a clone shares the memory.
#[derive(Debug, Clone)]
pub struct PackedExperts {
    list: Arc<[[Packed; 3]]>,
}

impl PackedExperts {
    /// Joins `[w1, w3, w2]` of each expert, in expert order: w1 and w3 `[inner, width]`, w2 `[width, inner]`.
    ///
    /// # Errors
    /// [`DeviceError::Shape`] when there is none, or two do not have the same sizes.
    pub fn new(list: Vec<[Packed; 3]>) -> Result<Self> {
        let Some(first) = list.first() else {
            return Err(shape("experts", "1 or more".into(), "0".into()));
        };
        let (width, inner) = (first[0].cols(), first[0].rows());
        for expert in &list {
            check_expert("experts", expert.each_ref(), width, inner)?;
        }
        Ok(Self { list: list.into() })
    }

    /// Number of experts.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Values of an input and of an output row.
    pub fn width(&self) -> usize {
        self.list[0][0].cols()
    }

    /// Values between the matrices.
    pub fn inner(&self) -> usize {
        self.list[0][0].rows()
    }

    /// w1, w3 and w2 of an expert.
    fn expert(&self, expert: usize) -> [&Packed; 3] {
        self.list[expert].each_ref()
    }
}

fn shape(what: &'static str, expected: String, found: String) -> DeviceError {
    DeviceError::Shape { op: "experts", what, expected, found }
}

/// Checks that `[w1, w3, w2]` map `width` values to `inner` and back.
///
/// # Errors
/// [`DeviceError::Shape`] naming `what`.
pub(crate) fn check_expert(
    what: &'static str,
    expert: [&Packed; 3],
    width: usize,
    inner: usize,
) -> Result<()> {
    for (packed, rows, cols) in
        [(expert[0], inner, width), (expert[1], inner, width), (expert[2], width, inner)]
    {
        if (packed.rows(), packed.cols(), packed.groups()) != (rows, cols, 1) {
            let found = format!("{} x {} in {} groups", packed.rows(), packed.cols(), packed.groups());
            return Err(shape(what, format!("{rows} x {cols} in 1 groups"), found));
        }
    }
    Ok(())
}

/// f32 values that `n` rows need between the stages; `inner` is the larger of the routed and the shared experts'.
pub const fn scratch_len(n: usize, top_k: usize, width: usize, inner: usize) -> usize {
    n * (top_k + 1) * (hidden_stride(inner) + product_stride(width, inner))
}

const fn hidden_stride(inner: usize) -> usize {
    inner.next_multiple_of(FEATURES)
}

const fn product_stride(width: usize, inner: usize) -> usize {
    (if width > inner { width } else { inner }).next_multiple_of(FEATURES)
}

/// One mixture over `n` rows.
#[derive(Debug, Clone, Copy)]
pub struct MoeArgs<'a> {
    /// Rows.
    pub n: usize,
    /// `[n, width]`.
    pub x: RowsPtr,
    /// `[n, top_k]` experts of each row, ascending.
    pub experts: *const u32,
    /// `[n, top_k]` weights in the same order.
    pub weights: *const f32,
    /// Experts a row.
    pub top_k: usize,
    /// The routed experts.
    pub routed: &'a PackedExperts,
    /// The shared expert's w1, w3 and w2.
    pub shared: [&'a Packed; 3],
    /// `g = min(w1 x, limit)` and `u = clamp(w3 x, -limit, limit)`; 0: no limit.
    pub limit: f32,
    /// The run's path.
    pub path: Path,
    /// [`scratch_len`] values that nothing else uses from the first stage to the last.
    pub scratch: *mut f32,
    /// `[n, width]`.
    pub out: RowsMutPtr,
}

impl MoeArgs<'_> {
    /// The first expert number in the rows that is not one of the routed experts; such a pair adds nothing.
    ///
    /// # Safety
    /// `experts` holds `n * top_k` numbers.
    pub unsafe fn unknown_expert(&self) -> Option<u32> {
        // SAFETY: as the caller states.
        let experts = unsafe { std::slice::from_raw_parts(self.experts, self.n * self.top_k) };
        experts.iter().copied().find(|&e| e as usize >= self.routed.count())
    }

    /// The larger of the routed and the shared experts' inner sizes.
    fn inner(&self) -> usize {
        self.routed.inner().max(self.shared[0].rows())
    }

    /// Rows of `silu(g) * u` in scratch, one for each place.
    fn hidden(&self) -> RowsMutPtr {
        RowsMutPtr { ptr: self.scratch, stride: hidden_stride(self.inner()) }
    }

    /// Rows of products of w2, one for each place; in stage 0 they hold `u`.
    fn products(&self) -> RowsMutPtr {
        let hidden = self.n * (self.top_k + 1) * hidden_stride(self.inner());
        let stride = product_stride(self.routed.width(), self.inner());
        RowsMutPtr { ptr: self.scratch.wrapping_add(hidden), stride }
    }
}

/// One thread's part of a stage.
///
/// # Safety
/// `stage` counts from 0 to [`STAGES`], and all `threads` threads finish a stage before any starts the next. The rows,
/// lists and scratch have the sizes that [`MoeArgs`] names, and nothing else uses the scratch and the output. The
/// machine has the path, for which all weights were packed.
pub unsafe fn run_stage(
    args: &MoeArgs<'_>,
    stage: usize,
    thread: usize,
    threads: usize,
    scratch: &mut Scratch,
) {
    if args.n == 0 {
        return;
    }
    // SAFETY: as the caller states.
    unsafe {
        match stage {
            0 => hidden(args, thread, threads, scratch),
            1 => products(args, thread, threads, scratch),
            2 => sums(args.path, args, thread, threads),
            _ => unreachable!("stage {stage} of {STAGES}"),
        }
    }
}

/// Stage 0: `weight * silu(g) * u` of every place.
unsafe fn hidden(args: &MoeArgs<'_>, thread: usize, threads: usize, scratch: &mut Scratch) {
    let (hidden, products) = (args.hidden(), args.products());
    // SAFETY: as the caller states; threads have features of their own.
    unsafe {
        let mut plan = std::mem::take(&mut scratch.plan);
        plan.fill(args);
        for (group, tiles) in plan.share(args, 0..2, thread, threads) {
            if tiles.is_empty() {
                continue;
            }
            let [w1, w3, _] = group.weights;
            let (x_rows, y_rows) = (Some(group.rows), Some(group.places));
            let gate = Launch { n: group.rows.len(), x: args.x, x_rows, y: hidden, y_rows };
            w1.launch(gate, tiles.clone(), scratch);
            w3.launch(Launch { y: products, ..gate }, tiles.clone(), scratch);
            activate(args.path, args, &group, tiles.start * FEATURES, tiles.end * FEATURES);
        }
        scratch.plan = plan;
    }
}

/// Stage 1: w2 times the hidden rows.
unsafe fn products(args: &MoeArgs<'_>, thread: usize, threads: usize, scratch: &mut Scratch) {
    let (hidden, y) = (args.hidden(), args.products());
    let x = RowsPtr { ptr: hidden.ptr, stride: hidden.stride };
    // SAFETY: as the caller states; threads have features of their own.
    unsafe {
        let mut plan = std::mem::take(&mut scratch.plan);
        plan.fill(args);
        for (group, tiles) in plan.share(args, 2..3, thread, threads) {
            let places = Some(group.places);
            let launch = Launch { n: group.rows.len(), x, x_rows: places, y, y_rows: places };
            group.weights[2].launch(launch, tiles, scratch);
        }
        scratch.plan = plan;
    }
}

per_isa! {
    /// `hidden = silu(min(hidden, limit)) * clamp(products, limit) * weight` in a range of columns.
    unsafe fn activate(args: &MoeArgs<'_>, group: &Group<'_>, first: usize, end: usize)
        = activate_columns::<V>(args, group, first, end);
}

#[inline(always)]
unsafe fn activate_columns<V: F32x16>(args: &MoeArgs<'_>, group: &Group<'_>, first: usize, end: usize) {
    let (hidden, up) = (args.hidden(), args.products());
    // SAFETY: the columns lie in rows that are whole vectors wide.
    unsafe {
        let limit = if args.limit > 0.0 { args.limit } else { f32::INFINITY };
        let (high, low) = (V::splat(limit), V::splat(-limit));
        for (&place, &factor) in group.places.iter().zip(group.factors) {
            let g = hidden.ptr.add(place as usize * hidden.stride);
            let u = up.ptr.add(place as usize * up.stride);
            for col in (first..end).step_by(FEATURES) {
                // The limit comes first so that a NaN is kept.
                let gate = high.min(V::load(g.add(col)));
                let up = high.min(low.max(V::load(u.add(col))));
                let e = exp(V::splat(0.0).sub(gate));
                let silu = gate.div(V::splat(1.0).add(e));
                silu.mul(up).mul(V::splat(factor)).store(g.add(col));
            }
        }
    }
}

per_isa! {
    /// Stage 2: each row's products, summed in the order of the experts, the shared one last.
    unsafe fn sums(args: &MoeArgs<'_>, thread: usize, threads: usize) = sum_lines::<V>(args, thread, threads);
}

#[inline(always)]
unsafe fn sum_lines<V: F32x16>(args: &MoeArgs<'_>, thread: usize, threads: usize) {
    let (k, width, products) = (args.top_k, args.routed.width(), args.products());
    let lines = width.div_ceil(FEATURES);
    let total = args.n * lines;
    for unit in total * thread / threads..total * (thread + 1) / threads {
        let (r, col) = (unit / lines, unit % lines * FEATURES);
        // SAFETY: rows of products are whole vectors wide; output rows have `width` values.
        unsafe {
            let mut sum = V::splat(0.0);
            for slot in 0..=k {
                if slot < k && *args.experts.add(r * k + slot) as usize >= args.routed.count() {
                    continue;
                }
                let place = r * (k + 1) + slot;
                sum = sum.add(V::load(products.ptr.add(place * products.stride + col)));
            }
            let out = args.out.ptr.add(r * args.out.stride + col);
            if col + FEATURES <= width {
                sum.store(out);
            } else {
                let mut all = [0.0; FEATURES];
                sum.store(all.as_mut_ptr());
                std::ptr::copy_nonoverlapping(all.as_ptr(), out, width - col);
            }
        }
    }
}
