//! The small number formats of the checkpoint and the caches, one value at a time.

use crate::{DeviceError, Result};

/// Largest finite E4M3 value.
pub const E4M3_MAX: f32 = 448.0;

/// Largest E2M1 value.
pub const E2M1_MAX: f32 = 6.0;

/// The E2M1 values by code; bit 3 is the sign.
pub const E2M1: [f32; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// The E4M3 (fn) values by code: sign, 4 exponent bits of bias 7, 3 mantissa bits; `0x7f` and `0xff` are NaN.
pub const E4M3: [f32; 256] = {
    let mut table = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        let (exponent, mantissa) = ((code as u32 >> 3) & 15, code as u32 & 7);
        let magnitude = if exponent == 0 {
            mantissa as f32 / 512.0
        } else if exponent == 15 && mantissa == 7 {
            f32::NAN
        } else {
            f32::from_bits(((exponent + 120) << 23) | (mantissa << 20))
        };
        table[code] = if code < 128 { magnitude } else { -magnitude };
        code += 1;
    }
    table
};

/// Value of an E4M3 code.
pub const fn decode_e4m3(code: u8) -> f32 {
    E4M3[code as usize]
}

/// Value of an E2M1 code; only the low four bits count.
pub const fn decode_e2m1(code: u8) -> f32 {
    E2M1[(code & 15) as usize]
}

/// Value of an E8M0 byte, `2^(byte - 127)`; 255 is NaN.
#[inline]
pub const fn decode_e8m0(byte: u8) -> f32 {
    match byte {
        0 => f32::from_bits(1 << 22),
        255 => f32::NAN,
        byte => f32::from_bits((byte as u32) << 23),
    }
}

/// Value of a bf16 given by its two little-endian bytes.
pub const fn decode_bf16(bytes: [u8; 2]) -> f32 {
    f32::from_bits((u16::from_le_bytes(bytes) as u32) << 16)
}

/// E4M3 code of `x`: nearest, ties to the even code, saturating at ±448. NaN gives `0x7f`.
pub fn encode_e4m3(x: f32) -> u8 {
    if x.is_nan() {
        return 0x7f;
    }
    let sign = ((x.to_bits() >> 31) as u8) << 7;
    let a = x.abs().min(E4M3_MAX);
    let code = if a < 0.015625 {
        (a * 512.0).round_ties_even() as u32
    } else {
        let bits = a.to_bits();
        ((bits + 0x7_ffff + ((bits >> 20) & 1)) >> 20) - (120 << 3)
    };
    sign | code as u8
}

/// E2M1 code of `x`: nearest, ties to the even code, saturating at ±6. NaN gives 0.
pub fn encode_e2m1(x: f32) -> u8 {
    if x.is_nan() {
        return 0;
    }
    let sign = ((x.to_bits() >> 31) as u8) << 3;
    let a = x.abs();
    // A tie goes to the even code: down at 0.25, 1.25, 2.5 and 5, up at 0.75, 1.75 and 3.5.
    let code = u8::from(a > 0.25)
        + u8::from(a >= 0.75)
        + u8::from(a > 1.25)
        + u8::from(a >= 1.75)
        + u8::from(a > 2.5)
        + u8::from(a >= 3.5)
        + u8::from(a > 5.0);
    sign | code
}

/// E8M0 byte of the smallest power of two that is at least `x`, for `x` of at least `2^-126`. Not finite gives 255.
pub fn encode_e8m0_ceil(x: f32) -> u8 {
    if !x.is_finite() {
        return 255;
    }
    let bits = x.to_bits();
    ((bits >> 23) + u32::from(bits & 0x7f_ffff != 0)) as u8
}

/// Checks that no E8M0 scale of a weight is NaN (255).
///
/// # Errors
/// [`DeviceError::Weight`] with the position of the first such byte in `scales`.
pub fn check_e8m0(scales: &[u8]) -> Result<()> {
    match scales.iter().position(|&byte| byte == 255) {
        None => Ok(()),
        Some(at) => Err(DeviceError::Weight(format!("E8M0 scale byte {at} is 255 (NaN), expected 0..=254"))),
    }
}
