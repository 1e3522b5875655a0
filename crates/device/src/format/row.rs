//! One cache row: the scalar quantizers that every device matches bit for bit.

use super::CacheFormat;
use super::codes::{
    E2M1_MAX, E4M3_MAX, decode_e2m1, decode_e4m3, decode_e8m0, encode_e2m1, encode_e4m3, encode_e8m0_ceil,
};

/// Smallest amax of an FP8 group.
const FP8_FLOOR: f32 = 1e-4;
/// Smallest amax of an FP4 group of 16: its scale is then the smallest E4M3 value, 2^-9.
const FP4_16_FLOOR: f32 = 6.0 / 512.0;
/// Smallest amax of an FP4 group of 32: its scale is then the smallest normal f32, 2^-126.
const FP4_32_FLOOR: f32 = 6.0 * f32::MIN_POSITIVE;

impl CacheFormat {
    /// Encodes the values `x` (a multiple of 32) as one row.
    ///
    /// A group with a value that is not finite gets a NaN scale, so that all of it decodes to NaN.
    ///
    /// # Panics
    /// If `row` is not [`CacheFormat::row_bytes`] of `x.len()` long, or `x` not a multiple of 32.
    pub fn encode(self, x: &[f32], row: &mut [u8]) {
        self.check_lengths(x.len(), row.len());
        match self {
            Self::F32 => {
                for (bytes, value) in row.chunks_exact_mut(4).zip(x) {
                    bytes.copy_from_slice(&value.to_le_bytes());
                }
            }
            Self::Fp8 => {
                let (codes, scales) = row.split_at_mut(x.len());
                for ((group, codes), scale) in x.chunks(32).zip(codes.chunks_mut(32)).zip(scales) {
                    *scale = encode_e8m0_ceil(amax(group, FP8_FLOOR) * (1.0 / E4M3_MAX));
                    let s = decode_e8m0(*scale);
                    for (code, value) in codes.iter_mut().zip(group) {
                        *code = encode_e4m3(value / s);
                    }
                }
            }
            Self::Fp4Group16 => {
                let (codes, scales) = row.split_at_mut(x.len() / 2);
                for ((group, codes), scale) in x.chunks(16).zip(codes.chunks_mut(8)).zip(scales) {
                    *scale = encode_e4m3(amax(group, FP4_16_FLOOR) / E2M1_MAX);
                    encode_fp4(group, decode_e4m3(*scale), codes);
                }
            }
            Self::Fp4Group32 => {
                let (codes, scales) = row.split_at_mut(x.len() / 2);
                for ((group, codes), scale) in x.chunks(32).zip(codes.chunks_mut(16)).zip(scales) {
                    *scale = encode_e8m0_ceil(amax(group, FP4_32_FLOOR) * (1.0 / E2M1_MAX));
                    encode_fp4(group, decode_e8m0(*scale), codes);
                }
            }
        }
    }

    /// Decodes one row into the values `x`.
    ///
    /// # Panics
    /// As [`CacheFormat::encode`].
    pub fn decode(self, row: &[u8], x: &mut [f32]) {
        self.check_lengths(x.len(), row.len());
        match self {
            Self::F32 => {
                for (value, bytes) in x.iter_mut().zip(row.as_chunks().0) {
                    *value = f32::from_le_bytes(*bytes);
                }
            }
            Self::Fp8 => {
                let (codes, scales) = row.split_at(x.len());
                for ((group, codes), &scale) in x.chunks_mut(32).zip(codes.chunks(32)).zip(scales) {
                    let s = decode_e8m0(scale);
                    for (value, &code) in group.iter_mut().zip(codes) {
                        *value = decode_e4m3(code) * s;
                    }
                }
            }
            Self::Fp4Group16 => {
                let (codes, scales) = row.split_at(x.len() / 2);
                for ((group, codes), &scale) in x.chunks_mut(16).zip(codes.chunks(8)).zip(scales) {
                    decode_fp4(codes, decode_e4m3(scale), group);
                }
            }
            Self::Fp4Group32 => {
                let (codes, scales) = row.split_at(x.len() / 2);
                for ((group, codes), &scale) in x.chunks_mut(32).zip(codes.chunks(16)).zip(scales) {
                    decode_fp4(codes, decode_e8m0(scale), group);
                }
            }
        }
    }

    /// Replaces `x` by what a stored row of it would decode to.
    ///
    /// # Panics
    /// If `x` is not a multiple of 32 long.
    pub fn round_trip(self, x: &mut [f32]) {
        if self != Self::F32 {
            let mut row = vec![0; self.row_bytes(x.len())];
            self.encode(x, &mut row);
            self.decode(&row, x);
        }
    }

    fn check_lengths(self, width: usize, bytes: usize) {
        assert!(width.is_multiple_of(32), "a row of {width} values is not a multiple of 32");
        assert_eq!(bytes, self.row_bytes(width), "bytes of a {self:?} row of {width} values");
    }
}

/// Largest magnitude, at least `floor`; NaN if a value is not finite.
fn amax(group: &[f32], floor: f32) -> f32 {
    if group.iter().all(|v| v.is_finite()) {
        group.iter().fold(floor, |m, v| m.max(v.abs()))
    } else {
        f32::NAN
    }
}

fn encode_fp4(group: &[f32], scale: f32, codes: &mut [u8]) {
    for (byte, pair) in codes.iter_mut().zip(group.chunks_exact(2)) {
        *byte = encode_e2m1(pair[0] / scale) | encode_e2m1(pair[1] / scale) << 4;
    }
}

fn decode_fp4(codes: &[u8], scale: f32, group: &mut [f32]) {
    for (pair, &byte) in group.chunks_exact_mut(2).zip(codes) {
        pair[0] = decode_e2m1(byte) * scale;
        pair[1] = decode_e2m1(byte >> 4) * scale;
    }
}
