//! Decoding in plain Rust.

use std::array::from_fn;

use tokenfare_device::format::{E2M1, decode_e8m0};

use super::Decode;
use crate::simd::Scalar;

/// One byte of each E2M1 value's bf16 form, for lookups by nibble.
const fn e2m1_bytes(shift: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    let mut code = 0;
    while code < 16 {
        bytes[code] = (E2M1[code].to_bits() >> shift) as u8;
        code += 1;
    }
    bytes
}
pub(super) static E2M1_HIGH: [u8; 16] = e2m1_bytes(24);
pub(super) static E2M1_LOW: [u8; 16] = e2m1_bytes(16);

/// `2^-8` times the value of each E4M3 code.
const E4M3: [f32; 256] = {
    let mut table = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        // As an f32 the seven bits stand for 2^-120 times the value, subnormals included.
        let bits = ((code & 0x7F) << 20) | ((code & 0x80) << 24);
        table[code as usize] = f32::from_bits(bits) * f32::from_bits((127 + 112) << 23);
        code += 1;
    }
    table
};

impl Decode for Scalar {
    const ROWS: usize = 1;
    #[inline(always)]
    unsafe fn fp4(p: *const u8) -> [Self; 8] {
        // SAFETY: 64 bytes lie at `p`.
        let words: [u32; 16] = from_fn(|f| u32::from_le(unsafe { p.cast::<u32>().add(f).read_unaligned() }));
        from_fn(|k| {
            let shift = 4 * (k / 2) + 16 * (k % 2);
            Self(from_fn(|f| E2M1[(words[f] >> shift) as usize & 15]))
        })
    }
    #[inline(always)]
    unsafe fn fp8(p: *const u8) -> [Self; 8] {
        // SAFETY: 128 bytes lie at `p`.
        from_fn(|k| Self(from_fn(|f| E4M3[unsafe { *p.add(32 * (k / 2) + 2 * f + k % 2) } as usize])))
    }
    #[inline(always)]
    unsafe fn bf16(p: *const u8) -> [Self; 8] {
        let p = p.cast::<u16>();
        from_fn(|k| {
            Self(from_fn(|f| {
                // SAFETY: 256 bytes lie at `p`.
                let bits = u16::from_le(unsafe { p.add(32 * (k / 2) + 2 * f + k % 2).read_unaligned() });
                f32::from_bits(u32::from(bits) << 16)
            }))
        })
    }
    #[inline(always)]
    unsafe fn scales(p: *const u8) -> Self {
        // SAFETY: sixteen bytes lie at `p`.
        Self(from_fn(|f| decode_e8m0(unsafe { *p.add(f) })))
    }
    #[inline(always)]
    unsafe fn prefetch(_: *const u8) {}
}
