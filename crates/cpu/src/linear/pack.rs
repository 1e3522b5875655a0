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
#[inline(always)]
fn nibbles(v: u32) -> u32 {
    let v = v & 0x0F0F_0F0F;
    let v = (v | v >> 4) & 0x00FF_00FF;
    (v | v >> 8) & 0xFFFF
}

/// `[a0, b0, a1, b1, ..]`, cut in two.
#[inline(always)]
fn zip<T: Copy, const N: usize>(a: [T; N], b: [T; N]) -> [[T; N]; 2] {
    let (mut low, mut high) = (a, a);
    for i in 0..N / 2 {
        (low[2 * i], low[2 * i + 1]) = (a[i], b[i]);
        (high[2 * i], high[2 * i + 1]) = (a[N / 2 + i], b[N / 2 + i]);
    }
    [low, high]
}

/// Rows become columns; `N` is a power of two.
#[inline(always)]
fn transpose<T: Copy, const N: usize>(mut rows: [[T; N]; N]) -> [[T; N]; N] {
    for _ in 0..N.ilog2() {
        let from = rows;
        for i in 0..N / 2 {
            [rows[2 * i], rows[2 * i + 1]] = zip(from[i], from[i + N / 2]);
        }
    }
    rows
}

/// The rows of a tile, a stride apart.
struct Rows<'a> {
    bytes: &'a [u8],
    stride: usize,
    live: usize,
}

impl<'a> Rows<'a> {
    fn new(tile: &Tile, bytes: &'a [u8], stride: usize) -> Self {
        let live = tile.live as usize;
        Self { bytes: &bytes[tile.row as usize * stride..][..live * stride], stride, live }
    }

    /// Sixteen bytes of a row; zeros where the tile has no such feature.
    #[inline(always)]
    fn get(&self, row: usize, at: usize) -> [u8; 16] {
        if row >= self.live {
            return [0; 16];
        }
        self.bytes[row * self.stride + at..].first_chunk().copied().unwrap_or_default()
    }
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
    let blocks = cols / INPUTS;
    let from_scales = &from_scales[tile.row as usize * blocks..][..tile.live as usize * blocks];
    if from_scales.iter().fold(0, |most, &scale| scale.max(most)) == u8::MAX {
        let at = from_scales.iter().position(|&scale| scale == u8::MAX).unwrap_or_default();
        return Err(nan_scale(tile.row as usize + at / blocks, at % blocks * INPUTS));
    }
    let rows = Rows::new(tile, from, cols / 2);
    let (mut low, mut high) = ([u8::MAX; FEATURES], [0; FEATURES]);
    for (b, (codes, scales)) in
        codes.as_chunks_mut::<256>().0.iter_mut().zip(scales.as_chunks_mut::<FEATURES>().0).enumerate()
    {
        let mut zeros = [false; FEATURES];
        for q in 0..FEATURES / 4 {
            let mut words = [[0; 4]; 4];
            for (f, words) in words.iter_mut().enumerate() {
                let row = rows.get(4 * q + f, b * (INPUTS / 2));
                for (word, bytes) in words.iter_mut().zip(row.as_chunks::<4>().0) {
                    *word = u32::from_le_bytes(*bytes);
                }
            }
            let words = transpose(words);
            let mut magnitudes = [0; 4];
            for (z, words) in words.iter().enumerate() {
                for (f, &v) in words.iter().enumerate() {
                    magnitudes[f] |= v & 0x7777_7777;
                    let word = nibbles(v) | nibbles(v >> 4) << 16;
                    codes[z * 64 + q * 16 + 4 * f..][..4].copy_from_slice(&word.to_le_bytes());
                }
            }
            for (zeros, magnitudes) in zeros[4 * q..].iter_mut().zip(magnitudes) {
                *zeros = magnitudes == 0;
            }
        }
        for (scale, list) in scales.iter_mut().zip(from_scales.chunks_exact(blocks)) {
            *scale = list[b];
        }
        for (f, scale) in scales.iter_mut().enumerate() {
            low[f] = low[f].min(if zeros[f] { u8::MAX } else { *scale });
            high[f] = high[f].max(if zeros[f] { 0 } else { *scale });
            *scale = if zeros[f] { ONE } else { *scale };
        }
    }
    let (low, high) = (low.into_iter().fold(u8::MAX, u8::min), high.into_iter().fold(0, u8::max));
    if low <= high {
        seen.scale(low);
        seen.scale(high);
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
    let rows = Rows::new(tile, from, cols);
    let scales = scales.as_chunks_mut::<2>().0;
    for (b, (codes, &scale)) in codes.as_chunks_mut::<512>().0.iter_mut().zip(from_scales).enumerate() {
        if scale == u8::MAX {
            return Err(nan_scale(tile.row as usize, b * INPUTS));
        }
        let mut kinds = Kinds::default();
        for (half, q) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let mut pairs = [[0; 8]; 8];
            for (f, pairs) in pairs.iter_mut().enumerate() {
                let mut row = rows.get(8 * q + f, b * INPUTS + 16 * half);
                for eight in row.as_chunks_mut::<8>().0 {
                    *eight = kinds.take(u64::from_le_bytes(*eight)).to_le_bytes();
                }
                for (pair, bytes) in pairs.iter_mut().zip(row.as_chunks::<2>().0) {
                    *pair = u16::from_le_bytes(*bytes);
                }
            }
            for (p, pairs) in transpose(pairs).iter().enumerate() {
                for (f, pair) in pairs.iter().enumerate() {
                    codes[(8 * half + p) * 32 + q * 16 + 2 * f..][..2].copy_from_slice(&pair.to_le_bytes());
                }
            }
        }
        if kinds.nan() {
            return Err(nan_code(&rows, tile, b * INPUTS));
        }
        scales[b] = [if kinds.zero() { ONE } else { scale }, u8::from(kinds.normal())];
        if !kinds.zero() {
            seen.scale(scale);
        }
    }
    Ok(())
}

/// What E4M3 codes of a block are, eight at a time: their high bits tell, which no sum of two magnitudes carries out of.
struct Kinds {
    nan: u64,
    some: u64,
    normal: u64,
}

impl Default for Kinds {
    /// No codes yet.
    fn default() -> Self {
        Self { nan: 0, some: 0, normal: u64::MAX }
    }
}

impl Kinds {
    const HIGH: u64 = 0x8080_8080_8080_8080;

    /// Takes note of eight codes and gives them back with +0 for each -0: the sign of a zero reaches no sum, and tiles
    /// need +0.
    #[inline(always)]
    fn take(&mut self, codes: u64) -> u64 {
        let each = |byte: u8| u64::from_ne_bytes([byte; 8]);
        let magnitudes = codes & !Self::HIGH;
        let some = magnitudes + each(0x7F);
        self.nan |= magnitudes + each(1);
        self.some |= some;
        // Normal numbers have a bit of the exponent.
        self.normal &= (magnitudes & each(0x78)) + each(0x78);
        codes & (some | !Self::HIGH)
    }

    /// Whether there is a NaN.
    fn nan(&self) -> bool {
        self.nan & Self::HIGH != 0
    }

    /// Whether all are zero.
    fn zero(&self) -> bool {
        self.some & Self::HIGH == 0
    }

    /// Whether all are normal numbers.
    fn normal(&self) -> bool {
        self.normal & Self::HIGH == Self::HIGH
    }
}

/// The first NaN among the FP8 codes of a tile from column `col` on, in a block that has one.
fn nan_code(rows: &Rows<'_>, tile: &Tile, col: usize) -> DeviceError {
    let block = |f: usize| &rows.bytes[f * rows.stride + col..][..INPUTS];
    let find = |f: usize| Some((f, block(f).iter().position(|code| code & 0x7F == 0x7F)?));
    let (f, k) = (0..rows.live).find_map(find).unwrap_or_default();
    let (row, code) = (tile.row as usize + f, block(f)[k]);
    DeviceError::Weight(format!("the FP8 code of row {row}, column {} is 0x{code:02X} (NaN)", col + k))
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
