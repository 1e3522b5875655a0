//! The f32 kernels: one order of sums on every instruction set and for every number of rows.

use std::ops::Range;

use super::decode::{Bf16, Decode, F32, Fp4, Fp8, Stored};
use super::{FEATURES, Format, INPUTS, Launch, Packed, RowsPtr};
use crate::Scratch;
use crate::simd::{F32x16, per_isa};

/// Rows that share one decoding of a tile; their inputs should stay in a core's second cache.
pub(super) const ROW_BLOCK: usize = 64;

/// Blocks decoded at a time, 16 KiB of f32.
const CHUNK: usize = 8;

/// f32 values of a decoded block.
const DECODED: usize = FEATURES * INPUTS;

/// Bytes ahead of the reader that are asked for.
const AHEAD: usize = 4096;

/// What one thread does of a launch.
struct Job<'a> {
    packed: &'a Packed,
    launch: Launch<'a>,
    /// Inputs of a group as they lie in `launch.x`: the columns, rounded up to whole blocks.
    group_stride: usize,
    tiles: Range<usize>,
    /// `CHUNK * DECODED` values, then `ROW_BLOCK * FEATURES`.
    buffer: *mut f32,
}

const BUFFER: usize = CHUNK * DECODED + ROW_BLOCK * FEATURES;

per_isa! {
    /// Tiles of an FP4 matrix.
    unsafe fn linear_fp4(job: &Job<'_>) = tiles::<V, Fp4>(job);
}
per_isa! {
    /// Tiles of an FP8 matrix.
    unsafe fn linear_fp8(job: &Job<'_>) = tiles::<V, Fp8>(job);
}
per_isa! {
    /// Tiles of a BF16 matrix.
    unsafe fn linear_bf16(job: &Job<'_>) = tiles::<V, Bf16>(job);
}
per_isa! {
    /// Tiles of an F32 matrix.
    unsafe fn linear_f32(job: &Job<'_>) = tiles::<V, F32>(job);
}

/// Runs a launch's tiles.
///
/// # Safety
/// As [`Packed::run`].
pub(super) unsafe fn run(packed: &Packed, launch: Launch<'_>, tiles: Range<usize>, scratch: &mut Scratch) {
    let padded = packed.cols.next_multiple_of(INPUTS);
    let ragged = padded != packed.cols;
    let width = packed.groups * padded;
    let copy = if ragged { launch.n * width } else { 0 };
    let (copied, buffer) = scratch.floats(copy + BUFFER).split_at_mut(copy);
    let mut job = Job { packed, launch, group_stride: padded, tiles, buffer: buffer.as_mut_ptr() };
    if ragged {
        // SAFETY: the rows hold `groups * cols` values, as the caller states.
        unsafe { pad(packed, &launch, copied) };
        job.launch = Launch { x: RowsPtr { ptr: copied.as_ptr(), stride: width }, x_rows: None, ..launch };
    }
    // SAFETY: as the caller states; the buffer has the size that the kernels need.
    unsafe {
        match packed.format {
            Format::Fp4 => linear_fp4(packed.path, &job),
            Format::Fp8 => linear_fp8(packed.path, &job),
            Format::Bf16 => linear_bf16(packed.path, &job),
            Format::F32 => linear_f32(packed.path, &job),
        }
    }
}

/// Copies the rows with zeros after each group's columns, so that no kernel reads past them.
unsafe fn pad(packed: &Packed, launch: &Launch<'_>, to: &mut [f32]) {
    let padded = packed.cols.next_multiple_of(INPUTS);
    for (r, row) in to.chunks_exact_mut(packed.groups * padded).enumerate() {
        for (g, group) in row.chunks_exact_mut(padded).enumerate() {
            // SAFETY: the row holds `groups * cols` values, as the caller states.
            let from = unsafe { std::slice::from_raw_parts(launch.x(r).add(g * packed.cols), packed.cols) };
            group[..packed.cols].copy_from_slice(from);
            group[packed.cols..].fill(0.0);
        }
    }
}

/// Eight inputs of a tile at a time.
trait Source: Copy {
    /// Inputs `8q..8q + 8` of a block.
    unsafe fn eight<V: Decode>(self, block: usize, q: usize) -> [V; 8];
    /// The scales of a block.
    unsafe fn scale<V: Decode>(self, block: usize) -> V;
    /// Called once a block.
    unsafe fn ahead<V: Decode>(self, block: usize);
}

/// A tile as it is packed.
struct Coded<S> {
    codes: *const u8,
    scales: *const u8,
    stored: std::marker::PhantomData<S>,
}

impl<S> Clone for Coded<S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S> Copy for Coded<S> {}

impl<S: Stored> Source for Coded<S> {
    #[inline(always)]
    unsafe fn eight<V: Decode>(self, block: usize, q: usize) -> [V; 8] {
        // SAFETY: the block lies in the tile.
        unsafe { S::eight::<V>(self.codes.add(block * S::BLOCK + q * (S::BLOCK / 4))) }
    }
    #[inline(always)]
    unsafe fn scale<V: Decode>(self, block: usize) -> V {
        // SAFETY: the block lies in the tile.
        unsafe { S::scale::<V>(self.scales.add(block * S::SCALES)) }
    }
    #[inline(always)]
    unsafe fn ahead<V: Decode>(self, block: usize) {
        let from = self.codes.wrapping_add(block * S::BLOCK + AHEAD);
        for line in 0..S::BLOCK / 64 {
            // SAFETY: any address may be asked for.
            unsafe { V::prefetch(from.wrapping_add(64 * line)) };
        }
    }
}

/// A chunk of a tile, decoded.
struct Decoded<S> {
    values: *const f32,
    coded: Coded<S>,
    /// Block of the tile that the chunk starts with.
    first: usize,
}

impl<S> Clone for Decoded<S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S> Copy for Decoded<S> {}

impl<S: Stored> Source for Decoded<S> {
    #[inline(always)]
    unsafe fn eight<V: Decode>(self, block: usize, q: usize) -> [V; 8] {
        // SAFETY: the block lies in the chunk, as f32.
        unsafe { F32::eight::<V>(self.values.add((block - self.first) * DECODED + q * (DECODED / 4)).cast()) }
    }
    #[inline(always)]
    unsafe fn scale<V: Decode>(self, block: usize) -> V {
        // SAFETY: the block lies in the tile.
        unsafe { self.coded.scale::<V>(block) }
    }
    #[inline(always)]
    unsafe fn ahead<V: Decode>(self, _: usize) {}
}

/// Adds blocks of inputs to the sums of `R` rows: the order of every sum of this module.
#[inline(always)]
unsafe fn blocks<V: Decode, S: Stored, const R: usize>(
    source: impl Source,
    range: Range<usize>,
    x: &[*const f32; R],
    acc: &mut [V; R],
) {
    // SAFETY: the blocks lie in the tile and in the rows.
    unsafe {
        for b in range {
            source.ahead::<V>(b);
            let (mut even, mut odd) = ([V::splat(0.0); R], [V::splat(0.0); R]);
            for q in 0..4 {
                let w = source.eight::<V>(b, q);
                for pair in 0..4 {
                    for r in 0..R {
                        let x = x[r].add(b * INPUTS + 8 * q + 2 * pair);
                        even[r] = w[2 * pair].fma(V::splat(*x), even[r]);
                        odd[r] = w[2 * pair + 1].fma(V::splat(*x.add(1)), odd[r]);
                    }
                }
            }
            let scale = source.scale::<V>(b);
            for r in 0..R {
                let mut sum = even[r].add(odd[r]);
                if S::FACTOR != 1.0 {
                    sum = sum.mul(V::splat(S::FACTOR));
                }
                acc[r] = sum.fma(scale, acc[r]);
            }
        }
    }
}

/// Calls a kernel with the number of rows, at most `V::ROWS`, as a constant.
macro_rules! with_rows {
    ($rows:expr, $kernel:ident($($arg:expr),*)) => {
        match $rows {
            1 => $kernel::<V, S, 1>($($arg),*),
            2 if V::ROWS >= 2 => $kernel::<V, S, 2>($($arg),*),
            3 if V::ROWS >= 3 => $kernel::<V, S, 3>($($arg),*),
            4 if V::ROWS >= 4 => $kernel::<V, S, 4>($($arg),*),
            5 if V::ROWS >= 5 => $kernel::<V, S, 5>($($arg),*),
            6 if V::ROWS >= 6 => $kernel::<V, S, 6>($($arg),*),
            7 if V::ROWS >= 7 => $kernel::<V, S, 7>($($arg),*),
            8 if V::ROWS >= 8 => $kernel::<V, S, 8>($($arg),*),
            rows => unreachable!("{rows} rows at once"),
        }
    };
}

#[inline(always)]
unsafe fn tiles<V: Decode, S: Stored>(job: &Job<'_>) {
    for first in (0..job.launch.n).step_by(ROW_BLOCK) {
        let rows = ROW_BLOCK.min(job.launch.n - first);
        for tile in job.tiles.clone() {
            // SAFETY: tile and rows lie in the launch.
            unsafe {
                if rows <= V::ROWS {
                    with_rows!(rows, direct(job, tile, first));
                } else {
                    decoded::<V, S>(job, tile, first, rows);
                }
            }
        }
    }
}

/// `R` rows of one tile straight from its packed bytes.
#[inline(always)]
unsafe fn direct<V: Decode, S: Stored, const R: usize>(job: &Job<'_>, tile: usize, first: usize) {
    // SAFETY: tile and rows lie in the launch.
    unsafe {
        let mut x = [std::ptr::null(); R];
        for (r, x) in x.iter_mut().enumerate() {
            *x = job.x(tile, first + r);
        }
        let mut acc = [V::splat(0.0); R];
        blocks::<V, S, R>(job.coded::<S>(tile), 0..job.packed.blocks(), &x, &mut acc);
        for (r, acc) in acc.into_iter().enumerate() {
            job.finish(tile, first + r, acc);
        }
    }
}

/// Many rows of one tile, decoded chunk by chunk for all of them.
#[inline(always)]
unsafe fn decoded<V: Decode, S: Stored>(job: &Job<'_>, tile: usize, first: usize, rows: usize) {
    let coded = job.coded::<S>(tile);
    let blocks = job.packed.blocks();
    let mut x = [std::ptr::null(); ROW_BLOCK];
    // SAFETY: tile and rows lie in the launch; the buffer holds a chunk and the sums of all rows.
    unsafe {
        for (r, x) in x[..rows].iter_mut().enumerate() {
            *x = job.x(tile, first + r);
        }
        let sums = job.buffer.add(CHUNK * DECODED);
        for start in (0..blocks).step_by(CHUNK) {
            let range = start..blocks.min(start + CHUNK);
            for b in range.clone() {
                coded.ahead::<V>(b);
                for q in 0..4 {
                    let to = job.buffer.add((b - start) * DECODED + q * (DECODED / 4));
                    for (k, w) in coded.eight::<V>(b, q).into_iter().enumerate() {
                        w.store(to.add(k * FEATURES));
                    }
                }
            }
            let source = Decoded { values: job.buffer.cast_const(), coded, first: start };
            for r in (0..rows).step_by(V::ROWS) {
                let x = &x[r..rows.min(r + V::ROWS)];
                with_rows!(x.len(), chunk(source, range.clone(), x, sums.add(r * FEATURES)));
            }
        }
        for r in 0..rows {
            job.finish(tile, first + r, V::load(sums.add(r * FEATURES)));
        }
    }
}

/// `R` rows of one decoded chunk, from and to the kept sums.
#[inline(always)]
unsafe fn chunk<V: Decode, S: Stored, const R: usize>(
    source: Decoded<S>,
    range: Range<usize>,
    x: &[*const f32],
    sums: *mut f32,
) {
    // SAFETY: `R` rows lie in `x` and in the kept sums.
    unsafe {
        let mut rows = [std::ptr::null(); R];
        rows.copy_from_slice(x);
        let mut acc = [V::splat(0.0); R];
        if range.start > 0 {
            for (r, acc) in acc.iter_mut().enumerate() {
                *acc = V::load(sums.add(r * FEATURES));
            }
        }
        blocks::<V, S, R>(source, range, &rows, &mut acc);
        for (r, acc) in acc.into_iter().enumerate() {
            acc.store(sums.add(r * FEATURES));
        }
    }
}

impl Job<'_> {
    /// First input of a row for a tile's group.
    #[inline(always)]
    unsafe fn x(&self, tile: usize, row: usize) -> *const f32 {
        let group = self.packed.tiles[tile].group as usize;
        // SAFETY: the row holds all groups.
        unsafe { self.launch.x(row).add(group * self.group_stride) }
    }

    /// A tile's packed bytes.
    #[inline(always)]
    fn coded<S: Stored>(&self, tile: usize) -> Coded<S> {
        Coded {
            codes: self.packed.codes(tile),
            scales: self.packed.scales(tile),
            stored: std::marker::PhantomData,
        }
    }

    /// Writes a row's sums of the features that exist.
    #[inline(always)]
    unsafe fn finish<V: F32x16>(&self, tile: usize, row: usize, sums: V) {
        let tile = self.packed.tiles[tile];
        // SAFETY: the row holds the tile's features.
        unsafe {
            let y = self.launch.y(row).add(tile.row as usize);
            if tile.live as usize == FEATURES {
                sums.store(y);
            } else {
                let mut all = [0.0; FEATURES];
                sums.store(all.as_mut_ptr());
                std::ptr::copy_nonoverlapping(all.as_ptr(), y, tile.live as usize);
            }
        }
    }
}
