//! From the checkpoint's bytes to the packed layout.

use std::sync::Arc;

use tokenfare_device::{DeviceError, LinearData, Matrix, Result};

use super::{FEATURES, Format, INPUTS, Kernel, Packed, Tile};
use crate::{HugeBytes, Path};

/// Scale bytes within which scaled weights, and their products with bf16 inputs of ordinary size, stay normal numbers.
const FOLDABLE: std::ops::RangeInclusive<u8> = 64..=190;

/// The scale byte of 1, given to blocks of zeros, whose own scale means nothing.
const ONE: u8 = 127;

/// Rows and columns of an FP8 scale block.
const FP8_BLOCK: usize = 32;

/// What packing learned of the values.
struct Seen {
    /// Smallest and largest scale byte of a block that is not all zeros.
    scales: Option<(u8, u8)>,
    /// Whether a BF16 weight is subnormal, which tiles take for zero.
    subnormal: bool,
}

impl Packed {
    /// Packs a matrix for a path. Matrices may be packed on several threads at once.
    ///
    /// # Errors
    /// [`DeviceError::Shape`] when the bytes do not fit the sizes, [`DeviceError::Weight`] for a NaN among FP8 codes or
    /// E8M0 scales, [`DeviceError::OutOfMemory`].
    pub fn pack(data: LinearData<'_>, path: Path) -> Result<Self> {
        check(&data)?;
        let LinearData { rows, cols, groups, values } = data;
        let format = match values {
            Matrix::Fp4 { .. } => Format::Fp4,
            Matrix::Fp8 { .. } => Format::Fp8,
            Matrix::Bf16(_) => Format::Bf16,
            Matrix::F32(_) => Format::F32,
        };
        let tiles = tiles(rows, groups, format);
        let blocks = cols.div_ceil(INPUTS);
        let scales_at = tiles.len() * blocks * format.block_bytes();
        let mut bytes = HugeBytes::new(scales_at + tiles.len() * blocks * format.scale_bytes())?;
        let mut seen = Seen { scales: None, subnormal: false };
        let (codes, scales) = bytes.as_mut_slice().split_at_mut(scales_at);
        for (t, tile) in tiles.iter().enumerate() {
            let codes = &mut codes[t * blocks * format.block_bytes()..][..blocks * format.block_bytes()];
            let scales = &mut scales[t * blocks * format.scale_bytes()..][..blocks * format.scale_bytes()];
            match values {
                Matrix::Fp4 { codes: from, scales: from_scales } => {
                    fp4(tile, cols, from, from_scales, codes, scales, &mut seen)?;
                }
                Matrix::Fp8 { codes: from, scales: from_scales } => {
                    fp8(tile, cols, from, from_scales, codes, scales, &mut seen)?;
                }
                Matrix::Bf16(from) => bf16(tile, cols, from, codes, &mut seen),
                Matrix::F32(from) => f32(tile, cols, from, codes),
            }
        }
        let kernel = kernel(path, format, &seen);
        let (tiles, bytes) = (tiles.into(), Arc::new(bytes));
        Ok(Self { rows, cols, groups, path, format, kernel, tiles, bytes, scales_at })
    }
}

fn kernel(path: Path, format: Format, seen: &Seen) -> Kernel {
    if path != Path::Amx || format == Format::F32 || seen.subnormal {
        return Kernel::Rows;
    }
    match seen.scales {
        Some((low, high)) if !(FOLDABLE.contains(&low) && FOLDABLE.contains(&high)) => Kernel::AmxScaled,
        _ => Kernel::AmxFolded,
    }
}

impl Seen {
    fn scale(&mut self, byte: u8) {
        let (low, high) = self.scales.unwrap_or((byte, byte));
        self.scales = Some((low.min(byte), high.max(byte)));
    }
}

/// Cuts each group into tiles; an FP8 tile lies inside one row of scale blocks.
fn tiles(rows: usize, groups: usize, format: Format) -> Vec<Tile> {
    let mut tiles = Vec::new();
    for group in 0..groups {
        let (mut row, end) = (group * (rows / groups), (group + 1) * (rows / groups));
        while row < end {
            let mut live = FEATURES.min(end - row);
            if format == Format::Fp8 {
                live = live.min(FP8_BLOCK - row % FP8_BLOCK);
            }
            tiles.push(Tile { row: row as u32, live: live as u32, group: group as u32 });
            row += live;
        }
    }
    tiles
}

fn check(data: &LinearData<'_>) -> Result<()> {
    let LinearData { rows, cols, groups, values } = *data;
    let shape = |what, expected: String, found: String| {
        Err(DeviceError::Shape { op: "linear_weight", what, expected, found })
    };
    if rows == 0 || cols == 0 || u32::try_from(rows).is_err() {
        return shape("matrix", "1 to 2^32 - 1 rows and 1 column or more".into(), format!("{rows} x {cols}"));
    }
    if groups == 0 || rows % groups != 0 {
        return shape("groups", format!("a divisor of {rows} rows"), groups.to_string());
    }
    if matches!(values, Matrix::Fp4 { .. } | Matrix::Fp8 { .. }) && cols % INPUTS != 0 {
        return shape("columns", format!("a multiple of {INPUTS}"), cols.to_string());
    }
    let parts = match values {
        Matrix::Fp4 { codes, scales } => {
            [("FP4 codes", codes, rows * cols / 2), ("FP4 scales", scales, rows * cols / INPUTS)]
        }
        Matrix::Fp8 { codes, scales } => {
            let blocks = rows.div_ceil(FP8_BLOCK) * cols.div_ceil(FP8_BLOCK);
            [("FP8 codes", codes, rows * cols), ("FP8 scales", scales, blocks)]
        }
        Matrix::Bf16(values) => [("BF16 values", values, 2 * rows * cols), ("scales", &[][..], 0)],
        Matrix::F32(values) => [("F32 values", values, 4 * rows * cols), ("scales", &[][..], 0)],
    };
    for (what, bytes, expected) in parts {
        if bytes.len() != expected {
            return shape(what, format!("{expected} bytes"), format!("{} bytes", bytes.len()));
        }
    }
    Ok(())
}

fn nan_scale(row: usize, col: usize) -> DeviceError {
    DeviceError::Weight(format!("the E8M0 scale of row {row}, column {col} is 255 (NaN)"))
}

/// The four nibbles at bits 0, 8, 16 and 24, joined.
fn nibbles(v: u32) -> u32 {
    let v = v & 0x0F0F_0F0F;
    let v = (v | v >> 4) & 0x00FF_00FF;
    (v | v >> 8) & 0xFFFF
}

fn fp4(
    tile: &Tile,
    cols: usize,
    from: &[u8],
    from_scales: &[u8],
    codes: &mut [u8],
    scales: &mut [u8],
    seen: &mut Seen,
) -> Result<()> {
    scales.fill(ONE);
    for f in 0..tile.live as usize {
        let row = tile.row as usize + f;
        let from = &from[row * cols / 2..][..cols / 2];
        let from_scales = &from_scales[row * cols / INPUTS..][..cols / INPUTS];
        for (b, (block, &scale)) in from.chunks_exact(INPUTS / 2).zip(from_scales).enumerate() {
            if scale == u8::MAX {
                return Err(nan_scale(row, b * INPUTS));
            }
            if block.iter().any(|byte| byte & 0x77 != 0) {
                seen.scale(scale);
                scales[b * FEATURES + f] = scale;
            }
            for (z, eight) in block.as_chunks::<4>().0.iter().enumerate() {
                let v = u32::from_le_bytes(*eight);
                let word = nibbles(v) | nibbles(v >> 4) << 16;
                codes[b * 256 + z * 64 + 4 * f..][..4].copy_from_slice(&word.to_le_bytes());
            }
        }
    }
    Ok(())
}

fn fp8(
    tile: &Tile,
    cols: usize,
    from: &[u8],
    from_scales: &[u8],
    codes: &mut [u8],
    scales: &mut [u8],
    seen: &mut Seen,
) -> Result<()> {
    let blocks = cols / INPUTS;
    let from_scales = &from_scales[tile.row as usize / FP8_BLOCK * blocks..][..blocks];
    for (b, &scale) in from_scales.iter().enumerate() {
        if scale == u8::MAX {
            return Err(nan_scale(tile.row as usize, b * INPUTS));
        }
        let mut zeros = true;
        for f in 0..tile.live as usize {
            let row = tile.row as usize + f;
            let block = &from[row * cols + b * INPUTS..][..INPUTS];
            if let Some(k) = block.iter().position(|byte| byte & 0x7F == 0x7F) {
                let (col, code) = (b * INPUTS + k, block[k]);
                let message = format!("the FP8 code of row {row}, column {col} is 0x{code:02X} (NaN)");
                return Err(DeviceError::Weight(message));
            }
            zeros &= block.iter().all(|byte| byte & 0x7F == 0);
            for (p, pair) in block.chunks_exact(2).enumerate() {
                // The sign of a zero reaches no sum, and tiles need +0.
                let pair = [pair[0], pair[1]].map(|code| if code == 0x80 { 0 } else { code });
                codes[b * 512 + p * 32 + 2 * f..][..2].copy_from_slice(&pair);
            }
        }
        scales[b] = if zeros { ONE } else { scale };
        if !zeros {
            seen.scale(scale);
        }
    }
    Ok(())
}

fn bf16(tile: &Tile, cols: usize, from: &[u8], codes: &mut [u8], seen: &mut Seen) {
    for f in 0..tile.live as usize {
        let row = tile.row as usize + f;
        for (k, value) in from[2 * row * cols..][..2 * cols].as_chunks::<2>().0.iter().enumerate() {
            let bits = u16::from_le_bytes(*value);
            seen.subnormal |= bits & 0x7F80 == 0 && bits & 0x7F != 0;
            codes[k / 2 * 64 + 4 * f + k % 2 * 2..][..2].copy_from_slice(value);
        }
    }
}

fn f32(tile: &Tile, cols: usize, from: &[u8], codes: &mut [u8]) {
    for f in 0..tile.live as usize {
        let row = tile.row as usize + f;
        for (k, value) in from[4 * row * cols..][..4 * cols].as_chunks::<4>().0.iter().enumerate() {
            codes[k * 64 + 4 * f..][..4].copy_from_slice(value);
        }
    }
}
