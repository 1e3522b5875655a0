//! The trained cache formats. Row layouts are the same on every device, so saved rows move between devices.

mod codes;
mod row;

pub use codes::{
    E2M1, E2M1_MAX, E4M3, E4M3_MAX, check_e8m0, decode_bf16, decode_e2m1, decode_e4m3, decode_e8m0,
    encode_e2m1, encode_e4m3, encode_e8m0_ceil,
};

use crate::{Buffer, Device};

/// How one row of a cache is stored. `w` is the row's width in values.
///
/// Scales follow the quantizers the model was trained with: FP8 `s = 2^ceil(log2(max(amax, 1e-4) / 448))`;
/// FP4 in groups of 16 `s = e4m3(max(amax, 6 * 2^-9) / 6)`; FP4 in groups of 32
/// `s = 2^ceil(log2(max(amax, 6 * 2^-126) / 6))`, both divisions as products with the f32 reciprocal where the
/// trained quantizer has them so. Every stored value is exact in bf16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CacheFormat {
    /// E4M3 codes, then one E8M0 scale byte per 32 values: `w + w/32` bytes. Window rows.
    Fp8,
    /// E2M1 codes (value 2k in the low nibble of byte k), then one E4M3 scale byte per 16: `w/2 + w/16` bytes.
    /// Compressed rows.
    Fp4Group16,
    /// E2M1 codes, then one E8M0 scale byte per 32: `w/2 + w/32` bytes. Index keys, and index queries in place.
    Fp4Group32,
    /// f32, little endian: `4w` bytes. No round trip.
    F32,
}

impl CacheFormat {
    /// Bytes of one row of `width` values (a multiple of 32).
    pub const fn row_bytes(self, width: usize) -> usize {
        match self {
            Self::Fp8 => width + width / 32,
            Self::Fp4Group16 => width / 2 + width / 16,
            Self::Fp4Group32 => width / 2 + width / 32,
            Self::F32 => 4 * width,
        }
    }
}

/// A table of packed rows in device memory: row `i` starts at byte `i * format.row_bytes(width)`.
pub struct Cache<D: Device> {
    /// The bytes, row after row.
    pub bytes: D::Buf<u8>,
    /// How a row is stored.
    pub format: CacheFormat,
    /// Values a row.
    pub width: usize,
}

impl<D: Device> Cache<D> {
    /// Allocates `rows` zeroed rows.
    pub fn new(device: &D, format: CacheFormat, width: usize, rows: usize) -> crate::Result<Self> {
        Ok(Self { bytes: device.alloc(rows * format.row_bytes(width))?, format, width })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.bytes.len() / self.format.row_bytes(self.width)
    }
}

impl<D: Device> Clone for Cache<D> {
    fn clone(&self) -> Self {
        Self { bytes: self.bytes.clone(), format: self.format, width: self.width }
    }
}
