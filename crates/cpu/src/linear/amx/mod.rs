//! AMX tiles: inputs rounded to bf16, weights decoded to bf16 exactly, sums in f32 by the tile unit.
//!
//! One C tile holds sixteen rows by sixteen features and lives over all blocks, so a row's sums run block after block
//! whatever else the launch holds. Passes keep few tiles live, two of them C tiles: where other work slows a core, tile
//! loads wait longer the more tiles are live. A pass of two feature tiles decodes a block between the load of a tile and
//! its product. Tiles take subnormal bf16 for zero, which is why packing folds scales
//! into the weights only where every folded weight is a normal number.

mod format;
mod unit;

use std::arch::asm;
use std::arch::x86_64::*;
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::decode::{Bf16, Fp4, Fp8};
use super::{FEATURES, Format, INPUTS, Kernel, Launch, Packed, Tile};
use crate::Scratch;
use crate::simd::{Avx512, F32x16};
use format::TileFormat;
use unit::{configure, load, multiply, release, store, zero};

/// Rows of a tile.
pub(super) const ROWS: usize = 16;

/// Bytes of a tile: sixteen rows of 64.
const TILE: usize = 1024;

/// Blocks decoded ahead of the one that is multiplied, so that no tile load waits for its stores.
const LEAD: usize = 2;

/// Sets of decoded blocks that passes write by turns: more than [`LEAD`], a power of two.
const SETS: usize = 4;

/// Bytes of decoded feature tiles that stay in a core's second cache beside the inputs of two row tiles.
const KEPT: usize = 1 << 20;

/// Bytes of a feature tile's blocks ahead of the reader that are asked for.
const AHEAD: usize = 4096;

/// Decoded B tiles of up to two feature tiles.
#[repr(C, align(64))]
struct Weights([u8; 2 * SETS * TILE]);

/// A C tile on its way out.
#[repr(C, align(64))]
struct Sums([f32; ROWS * FEATURES]);

/// Runs a launch's tiles.
///
/// # Safety
/// As [`Packed::run`].
pub(super) unsafe fn run(packed: &Packed, launch: Launch<'_>, tiles: Range<usize>, scratch: &mut Scratch) {
    // SAFETY: as the caller states; an AMX path has AVX-512.
    unsafe {
        match packed.format {
            Format::Fp4 => groups::<Fp4>(packed, launch, tiles, scratch),
            Format::Fp8 => groups::<Fp8>(packed, launch, tiles, scratch),
            Format::Bf16 => groups::<Bf16>(packed, launch, tiles, scratch),
            Format::F32 => unreachable!("F32 weights are not packed for tiles"),
        }
    }
}

/// Tiles of one group after another, each with its inputs rounded first.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn groups<F: TileFormat>(
    packed: &Packed,
    launch: Launch<'_>,
    tiles: Range<usize>,
    scratch: &mut Scratch,
) {
    let blocks = packed.blocks();
    let row_tiles = launch.n.div_ceil(ROWS);
    // Decoded B tiles over all blocks, for launches that read them more than once.
    let kept = if F::READY || row_tiles <= 2 { 0 } else { held(blocks).min(tiles.len()) * blocks * TILE };
    let (inputs, kept) =
        scratch.bytes(row_tiles * blocks * TILE + kept).split_at_mut(row_tiles * blocks * TILE);
    let mut at = tiles.start;
    while at < tiles.end {
        let group = packed.tiles[at].group;
        let same = packed.tiles[at..tiles.end].iter().take_while(|t| t.group == group).count();
        let (inputs, kept) = (inputs.as_mut_ptr(), kept.as_mut_ptr());
        let job = Job { packed, launch, blocks, inputs, kept, shape: Cell::new((0, 0)) };
        // SAFETY: as the caller states; the scratch has the sizes that the kernels need.
        unsafe {
            round_inputs(&job, group as usize * packed.cols);
            match packed.kernel {
                Kernel::AmxScaled => scaled::<F>(&job, at..at + same),
                _ if row_tiles == 1 => few::<F>(&job, at..at + same),
                _ => many::<F>(&job, at..at + same),
            }
        }
        at += same;
    }
    // SAFETY: the tiles hold nothing any more.
    unsafe { release!() };
}

/// One group of a launch.
struct Job<'a> {
    packed: &'a Packed,
    launch: Launch<'a>,
    blocks: usize,
    /// A tiles: block after block of sixteen rows.
    inputs: *mut u8,
    /// Room for decoded B tiles.
    kept: *mut u8,
    /// Rows of the tiles as they are set up.
    shape: Cell<(usize, usize)>,
}

impl Job<'_> {
    /// The A tiles of sixteen rows.
    fn a(&self, row_tile: usize) -> *const u8 {
        self.inputs.wrapping_add(row_tile * self.blocks * TILE)
    }

    /// Sets up tiles for one or two row tiles, unless they are, and makes the C tiles zero.
    #[target_feature(enable = "avx512f")]
    unsafe fn begin(&self, shape: (usize, usize)) {
        // SAFETY: the process may use tiles, as the caller states.
        unsafe {
            if self.shape.replace(shape) != shape {
                configure(shape.0, shape.1);
            }
            zero!(0);
            zero!(1);
        }
    }

    /// Rows of a row tile.
    fn rows(&self, row_tile: usize) -> usize {
        ROWS.min(self.launch.n - row_tile * ROWS)
    }

    /// Where a C tile may be stored as it is, and the bytes between its rows: rows in order, all features there.
    unsafe fn direct(&self, row_tile: usize, tile: usize) -> Option<(*mut f32, usize)> {
        let Tile { row, live, .. } = self.packed.tiles[tile];
        if live as usize != FEATURES || self.launch.y_rows.is_some() {
            return None;
        }
        // SAFETY: the rows hold the tile's features.
        let to = unsafe { self.launch.y(row_tile * ROWS).add(row as usize) };
        Some((to, self.launch.y.stride * size_of::<f32>()))
    }

    /// Writes a stored C tile to the output rows, features that exist only.
    #[target_feature(enable = "avx512f")]
    unsafe fn copy(&self, row_tile: usize, tile: usize, sums: *const f32) {
        let Tile { row, live, .. } = self.packed.tiles[tile];
        let mask = ((1u32 << live) - 1) as __mmask16;
        for r in 0..self.rows(row_tile) {
            // SAFETY: the rows hold the tile's features; others are masked.
            unsafe {
                let y = self.launch.y(row_tile * ROWS + r).add(row as usize);
                _mm512_mask_storeu_ps(y, mask, _mm512_load_ps(sums.add(r * FEATURES)));
            }
        }
    }
}

/// Writes C tile `$c` to the output rows of a row tile, through `$room` where it cannot be stored as it is.
macro_rules! finish {
    ($job:expr, $c:literal, $row_tile:expr, $tile:expr, $room:expr) => {
        match $job.direct($row_tile, $tile) {
            Some((to, stride)) => store!($c, to, stride),
            None => {
                store!($c, $room, 64usize);
                $job.copy($row_tile, $tile, $room);
            }
        }
    };
}

/// Rounds a group's inputs to the nearest bf16, ties to even, into A tiles; columns past the end are zero, rows past the
/// end are never loaded.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn round_inputs(job: &Job<'_>, first_col: usize) {
    let whole = job.packed.cols / INPUTS;
    let left = job.packed.cols % INPUTS;
    for r in 0..job.launch.n {
        // SAFETY: the rows hold all groups' columns; masked lanes are not read.
        unsafe {
            let x = job.launch.x(r).add(first_col);
            let to = job.inputs.add(r / ROWS * job.blocks * TILE + r % ROWS * 64).cast::<__m512bh>();
            for b in 0..whole {
                let (low, high) = (_mm512_loadu_ps(x.add(b * 32)), _mm512_loadu_ps(x.add(b * 32 + 16)));
                to.add(b * (TILE / 64)).write(_mm512_cvtne2ps_pbh(high, low));
            }
            if left > 0 {
                let mask = (1u32 << left) - 1;
                let x = x.add(whole * 32);
                let low = _mm512_maskz_loadu_ps(mask as u16, x);
                let high = _mm512_maskz_loadu_ps((mask >> 16) as u16, x.wrapping_add(16));
                to.add(whole * (TILE / 64)).write(_mm512_cvtne2ps_pbh(high, low));
            }
        }
    }
}

/// One row tile: two feature tiles a pass, or the last one, decoded on the way.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn few<F: TileFormat>(job: &Job<'_>, tiles: Range<usize>) {
    // SAFETY: tiles and rows lie in the launch.
    unsafe {
        for tile in tiles.clone().step_by(2) {
            if tile + 1 < tiles.end {
                few_pass::<F, 2>(job, tile);
            } else {
                few_pass::<F, 1>(job, tile);
            }
        }
    }
}

/// One row tile by `N` feature tiles.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn few_pass<F: TileFormat, const N: usize>(job: &Job<'_>, tile: usize) {
    let mut weights = MaybeUninit::<Weights>::uninit();
    let mut sums = MaybeUninit::<Sums>::uninit();
    let room = weights.as_mut_ptr().cast::<u8>();
    let place = |q: usize, b: usize| room.wrapping_add((b % SETS * 2 + q) * TILE);
    let (a, blocks) = (job.a(0), job.blocks);
    // SAFETY: tiles and rows lie in the launch; tiles were configured; what is read of the rooms was written.
    unsafe {
        let streams: [Stream<F>; N] = std::array::from_fn(|q| Stream::new(job, tile + q, N));
        let second = &streams[N - 1];
        job.begin((job.rows(0), 0));
        for b in 0..LEAD.min(blocks) {
            for (q, stream) in streams.iter().enumerate() {
                stream.decode(b, place(q, b));
            }
        }
        load!(4, a);
        load!(6, streams[0].at(0, place(0, 0)));
        for b in 0..blocks {
            if N > 1 {
                load!(7, second.at(b, place(1, b)));
            }
            multiply!(0, 4, 6);
            if b + LEAD < blocks {
                streams[0].decode(b + LEAD, place(0, b + LEAD));
            }
            if b + 1 < blocks {
                load!(6, streams[0].at(b + 1, place(0, b + 1)));
            }
            if N > 1 {
                multiply!(1, 4, 7);
            }
            if b + 1 < blocks {
                load!(4, a.add((b + 1) * TILE));
            }
            if N > 1 && b + LEAD < blocks {
                second.decode(b + LEAD, place(1, b + LEAD));
            }
        }
        let room = sums.as_mut_ptr().cast::<f32>();
        finish!(job, 0, 0, tile, room);
        if N > 1 {
            finish!(job, 1, 0, tile + 1, room);
        }
    }
}

/// The blocks of one feature tile.
struct Stream<F> {
    codes: *const u8,
    scales: *const u8,
    /// Block from which on what lies ahead belongs to the same place of the next pass.
    turn: usize,
    /// Bytes from there to that.
    jump: usize,
    format: std::marker::PhantomData<F>,
}

impl<F: TileFormat> Stream<F> {
    /// A tile as it was packed, `step` tiles a pass.
    unsafe fn new(job: &Job<'_>, tile: usize, step: usize) -> Self {
        Self::at_codes(job, job.packed.codes(tile), job.packed.scales(tile), step)
    }

    /// A tile elsewhere, `step` tiles a pass.
    fn at_codes(job: &Job<'_>, codes: *const u8, scales: *const u8, step: usize) -> Self {
        Self {
            codes,
            scales,
            turn: job.blocks.saturating_sub(AHEAD / F::BLOCK),
            jump: (step - 1) * job.blocks * F::BLOCK,
            format: std::marker::PhantomData,
        }
    }

    /// Decodes a block, and asks for one further on.
    #[inline(always)]
    unsafe fn decode(&self, block: usize, to: *mut u8) {
        let jump = if block < self.turn { 0 } else { self.jump };
        let ahead = self.codes.wrapping_add(block * F::BLOCK + AHEAD + jump);
        for line in 0..F::BLOCK / 64 {
            // SAFETY: any address may be asked for.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(64 * line).cast()) };
        }
        if !F::READY {
            // SAFETY: the block and its scales lie in the tile.
            unsafe { F::folded(self.codes.add(block * F::BLOCK), self.scales.add(block * F::SCALES), to) };
        }
    }

    /// Where a block lies as a B tile: in `decoded`, or as it was packed.
    #[inline(always)]
    unsafe fn at(&self, block: usize, decoded: *const u8) -> *const u8 {
        // SAFETY: the block lies in the tile.
        if F::READY { unsafe { self.codes.add(block * F::BLOCK) } } else { decoded }
    }
}

/// Several row tiles, two a pass; each feature tile is decoded once.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn many<F: TileFormat>(job: &Job<'_>, tiles: Range<usize>) {
    let row_tiles = job.launch.n.div_ceil(ROWS);
    let held = held(job.blocks);
    for first in tiles.clone().step_by(held) {
        let group = first..tiles.end.min(first + held);
        // SAFETY: tiles and rows lie in the launch; the kept room holds a group.
        unsafe {
            if !F::READY && row_tiles <= 2 {
                for tile in group {
                    pair(job, tile, &Stream::<F>::new(job, tile, 1), 0);
                }
                continue;
            }
            let kept = |tile: usize| job.kept.wrapping_add((tile - first) * job.blocks * TILE);
            if !F::READY {
                for tile in group.clone() {
                    let stream = Stream::<F>::new(job, tile, 1);
                    for b in 0..job.blocks {
                        stream.decode(b, kept(tile).add(b * TILE));
                    }
                }
            }
            // The inputs of two row tiles stay in the second cache while the group passes by.
            for row_tile in (0..row_tiles).step_by(2) {
                for tile in group.clone() {
                    let codes = if F::READY { job.packed.codes(tile) } else { kept(tile) };
                    pair(job, tile, &Stream::<Bf16>::at_codes(job, codes, codes, 1), row_tile);
                }
            }
        }
    }
}

/// Feature tiles that a group holds decoded.
fn held(blocks: usize) -> usize {
    (KEPT / (blocks * TILE)).max(1)
}

/// Two row tiles, or the last one, by one feature tile.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn pair<F: TileFormat>(job: &Job<'_>, tile: usize, stream: &Stream<F>, row_tile: usize) {
    let mut weights = MaybeUninit::<Weights>::uninit();
    let mut sums = MaybeUninit::<Sums>::uninit();
    let room = weights.as_mut_ptr().cast::<u8>();
    let place = |b: usize| room.wrapping_add(b % SETS * TILE);
    let (blocks, second) = (job.blocks, row_tile + 1 < job.launch.n.div_ceil(ROWS));
    // SAFETY: tiles and rows lie in the launch; tiles are configured; what is read of the rooms was written.
    unsafe {
        let other = row_tile + usize::from(second);
        job.begin((job.rows(row_tile), job.rows(other)));
        let a = [job.a(row_tile), job.a(other)];
        for b in 0..LEAD.min(blocks) {
            stream.decode(b, place(b));
        }
        load!(4, a[0]);
        load!(6, stream.at(0, place(0)));
        for b in 0..blocks {
            if second {
                load!(5, a[1].add(b * TILE));
            }
            multiply!(0, 4, 6);
            if b + LEAD < blocks {
                stream.decode(b + LEAD, place(b + LEAD));
            }
            if b + 1 < blocks {
                load!(4, a[0].add((b + 1) * TILE));
            }
            if second {
                multiply!(1, 5, 6);
            }
            if b + 1 < blocks {
                load!(6, stream.at(b + 1, place(b + 1)));
            }
        }
        let room = sums.as_mut_ptr().cast::<f32>();
        finish!(job, 0, row_tile, tile, room);
        if second {
            finish!(job, 1, row_tile + 1, tile, room);
        }
    }
}

/// One C tile a block, scaled and added in f32.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn scaled<F: TileFormat>(job: &Job<'_>, tiles: Range<usize>) {
    let mut weights = Weights([0; 2 * SETS * TILE]);
    let mut product = Sums([0.0; ROWS * FEATURES]);
    for row_tile in 0..job.launch.n.div_ceil(ROWS) {
        let rows = job.rows(row_tile);
        // SAFETY: tiles and rows lie in the launch.
        unsafe {
            job.begin((rows, 0));
            for tile in tiles.clone() {
                let (codes, scales) = (job.packed.codes(tile), job.packed.scales(tile));
                let mut sums = Sums([0.0; ROWS * FEATURES]);
                for b in 0..job.blocks {
                    F::plain(codes.add(b * F::BLOCK), weights.0.as_mut_ptr());
                    zero!(0);
                    load!(4, job.a(row_tile).add(b * TILE));
                    load!(6, weights.0.as_ptr());
                    multiply!(0, 4, 6);
                    store!(0, product.0.as_mut_ptr(), 64usize);
                    let factors = F::factors(scales.add(b * F::SCALES));
                    for r in 0..rows {
                        let sum = sums.0.as_mut_ptr().add(r * FEATURES);
                        let product = Avx512::load(product.0.as_ptr().add(r * FEATURES));
                        product.fma(factors, Avx512::load(sum)).store(sum);
                    }
                }
                job.copy(row_tile, tile, sums.0.as_ptr());
            }
        }
    }
}
