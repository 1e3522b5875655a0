//! Decoding with NEON.

use std::arch::aarch64::*;

use super::Decode;
use super::scalar::{E2M1_HIGH, E2M1_LOW};
use crate::simd::Neon;

/// The even (first) and odd f32 of four bf16 pairs.
#[inline(always)]
unsafe fn pair(words: uint32x4_t) -> (float32x4_t, float32x4_t) {
    // SAFETY: the caller has NEON.
    unsafe {
        let odd = vandq_u32(words, vdupq_n_u32(0xFFFF_0000));
        (vreinterpretq_f32_u32(vshlq_n_u32::<16>(words)), vreinterpretq_f32_u32(odd))
    }
}

/// Four bf16 pairs of four features from 16 bytes of FP4.
#[inline(always)]
unsafe fn fp4_pairs(p: *const u8) -> [uint32x4_t; 4] {
    // SAFETY: the caller has NEON and 16 bytes at `p`.
    unsafe {
        let (high, low) = (vld1q_u8(E2M1_HIGH.as_ptr()), vld1q_u8(E2M1_LOW.as_ptr()));
        let v = vld1q_u8(p);
        let (a, b) = (vandq_u8(v, vdupq_n_u8(15)), vshrq_n_u8::<4>(v));
        let (a_high, a_low) = (vqtbl1q_u8(high, a), vqtbl1q_u8(low, a));
        let (b_high, b_low) = (vqtbl1q_u8(high, b), vqtbl1q_u8(low, b));
        [
            vreinterpretq_u32_u8(vtrn1q_u8(a_low, a_high)),
            vreinterpretq_u32_u8(vtrn1q_u8(b_low, b_high)),
            vreinterpretq_u32_u8(vtrn2q_u8(a_low, a_high)),
            vreinterpretq_u32_u8(vtrn2q_u8(b_low, b_high)),
        ]
    }
}

/// `2^-8` times the E4M3 values of the codes in bits 0..8 of each word.
#[inline(always)]
unsafe fn e4m3(codes: uint32x4_t) -> float32x4_t {
    // SAFETY: the caller has NEON.
    unsafe {
        let magnitude = vshlq_n_u32::<20>(vandq_u32(codes, vdupq_n_u32(0x7F)));
        let sign = vshlq_n_u32::<24>(vandq_u32(codes, vdupq_n_u32(0x80)));
        // As an f32 the seven bits stand for 2^-120 times the value, subnormals included.
        let scaled = vreinterpretq_f32_u32(vorrq_u32(magnitude, sign));
        vmulq_f32(scaled, vdupq_n_f32(f32::from_bits((127 + 112) << 23)))
    }
}

/// Four E8M0 scales.
#[inline(always)]
unsafe fn e8m0(bytes: uint16x4_t) -> float32x4_t {
    // SAFETY: the caller has NEON.
    unsafe {
        let bits = vshlq_n_u32::<23>(vmovl_u16(bytes));
        vreinterpretq_f32_u32(vmaxq_u32(bits, vdupq_n_u32(1 << 22)))
    }
}

impl Decode for Neon {
    const ROWS: usize = 2;
    #[inline(always)]
    unsafe fn fp4(p: *const u8) -> [Self; 8] {
        // SAFETY: the caller has NEON and 64 bytes at `p`.
        unsafe {
            let mut out = [Self([vdupq_n_f32(0.0); 4]); 8];
            for quarter in 0..4 {
                let words = fp4_pairs(p.add(16 * quarter));
                for i in 0..4 {
                    let (even, odd) = pair(words[i]);
                    out[2 * i].0[quarter] = even;
                    out[2 * i + 1].0[quarter] = odd;
                }
            }
            out
        }
    }
    #[inline(always)]
    unsafe fn fp8(p: *const u8) -> [Self; 8] {
        // SAFETY: the caller has NEON and 128 bytes at `p`.
        unsafe {
            let mut out = [Self([vdupq_n_f32(0.0); 4]); 8];
            for i in 0..4 {
                for quarter in 0..4 {
                    let words = vmovl_u16(vld1_u16(p.add(32 * i + 8 * quarter).cast()));
                    out[2 * i].0[quarter] = e4m3(words);
                    out[2 * i + 1].0[quarter] = e4m3(vshrq_n_u32::<8>(words));
                }
            }
            out
        }
    }
    #[inline(always)]
    unsafe fn bf16(p: *const u8) -> [Self; 8] {
        // SAFETY: the caller has NEON and 256 bytes at `p`.
        unsafe {
            let mut out = [Self([vdupq_n_f32(0.0); 4]); 8];
            for i in 0..4 {
                for quarter in 0..4 {
                    let (even, odd) = pair(vld1q_u32(p.add(64 * i + 16 * quarter).cast()));
                    out[2 * i].0[quarter] = even;
                    out[2 * i + 1].0[quarter] = odd;
                }
            }
            out
        }
    }
    #[inline(always)]
    unsafe fn scales(p: *const u8) -> Self {
        // SAFETY: the caller has NEON and sixteen bytes at `p`.
        unsafe {
            let v = vld1q_u8(p);
            let (low, high) = (vmovl_u8(vget_low_u8(v)), vmovl_u8(vget_high_u8(v)));
            Self([
                e8m0(vget_low_u16(low)),
                e8m0(vget_high_u16(low)),
                e8m0(vget_low_u16(high)),
                e8m0(vget_high_u16(high)),
            ])
        }
    }
    #[inline(always)]
    unsafe fn prefetch(_: *const u8) {}
}
