//! The packed layout, and how each instruction set reads it.
//!
//! A block holds 16 features by 32 inputs. FP4 (256 bytes): four parts of 64 bytes, each with eight inputs; the 32-bit
//! word of a feature has the even inputs in its low nibbles 0..4 and the odd ones in nibbles 4..8. FP8 (512 bytes),
//! BF16 (1024) and F32 (2048): for each pair of inputs the values `(even, odd)` of feature after feature, but F32
//! keeps the sixteen even values before the odd ones. The pair order is the one that AMX tiles want. Behind all blocks lie
//! their scales: FP4 a byte a feature; FP8 the scale, then 1 where the codes of all sixteen features are normal numbers,
//! which AMX tiles decode faster, else 0.

#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

use tokenfare_device::format::decode_e8m0;

use super::{FEATURES, Format};
use crate::simd::F32x16;

impl Format {
    /// Bytes of a block.
    pub const fn block_bytes(self) -> usize {
        match self {
            Self::Fp4 => Fp4::BLOCK,
            Self::Fp8 => Fp8::BLOCK,
            Self::Bf16 => Bf16::BLOCK,
            Self::F32 => F32::BLOCK,
        }
    }

    /// Scale bytes of a block.
    pub const fn scale_bytes(self) -> usize {
        match self {
            Self::Fp4 => Fp4::SCALES,
            Self::Fp8 => Fp8::SCALES,
            Self::Bf16 => Bf16::SCALES,
            Self::F32 => F32::SCALES,
        }
    }
}

/// What the stored formats need of an instruction set beyond [`F32x16`].
///
/// # Safety
/// As for [`F32x16`]; pointers must be valid for the bytes named.
#[allow(clippy::missing_safety_doc, reason = "stated once for the trait")]
pub(crate) trait Decode: F32x16 {
    /// Rows that a kernel keeps in registers beside the weights.
    const ROWS: usize;
    /// Eight inputs from 64 bytes of FP4.
    unsafe fn fp4(p: *const u8) -> [Self; 8];
    /// Eight inputs from 128 bytes of FP8, each `2^-8` times the stored value (what a half with the same bits holds).
    unsafe fn fp8(p: *const u8) -> [Self; 8];
    /// Eight inputs from 256 bytes of BF16.
    unsafe fn bf16(p: *const u8) -> [Self; 8];
    /// Sixteen E8M0 scales, `2^(byte - 127)`; byte 0 is a subnormal.
    unsafe fn scales(p: *const u8) -> Self;
    /// Asks for the cache line at any address.
    unsafe fn prefetch(p: *const u8);
}

/// A stored format.
///
/// # Safety
/// As for [`Decode`]; `p` points at eight inputs of a tile, `s` at a block's scales.
#[allow(clippy::missing_safety_doc, reason = "stated once for the trait")]
pub(crate) trait Stored {
    /// Bytes of a block.
    const BLOCK: usize;
    /// Scale bytes of a block.
    const SCALES: usize;
    /// Power of two that the decoded values lack.
    const FACTOR: f32;
    /// Eight inputs.
    unsafe fn eight<V: Decode>(p: *const u8) -> [V; 8];
    /// The scale of each feature.
    unsafe fn scale<V: Decode>(s: *const u8) -> V;
}

pub(crate) struct Fp4;
pub(crate) struct Fp8;
pub(crate) struct Bf16;
pub(crate) struct F32;

impl Stored for Fp4 {
    const BLOCK: usize = 256;
    const SCALES: usize = FEATURES;
    const FACTOR: f32 = 1.0;
    #[inline(always)]
    unsafe fn eight<V: Decode>(p: *const u8) -> [V; 8] {
        // SAFETY: as the caller states.
        unsafe { V::fp4(p) }
    }
    #[inline(always)]
    unsafe fn scale<V: Decode>(s: *const u8) -> V {
        // SAFETY: as the caller states.
        unsafe { V::scales(s) }
    }
}

impl Stored for Fp8 {
    const BLOCK: usize = 512;
    const SCALES: usize = 2;
    const FACTOR: f32 = 256.0;
    #[inline(always)]
    unsafe fn eight<V: Decode>(p: *const u8) -> [V; 8] {
        // SAFETY: as the caller states.
        unsafe { V::fp8(p) }
    }
    #[inline(always)]
    unsafe fn scale<V: Decode>(s: *const u8) -> V {
        // SAFETY: as the caller states.
        unsafe { V::splat(decode_e8m0(*s)) }
    }
}

impl Stored for Bf16 {
    const BLOCK: usize = 1024;
    const SCALES: usize = 0;
    const FACTOR: f32 = 1.0;
    #[inline(always)]
    unsafe fn eight<V: Decode>(p: *const u8) -> [V; 8] {
        // SAFETY: as the caller states.
        unsafe { V::bf16(p) }
    }
    #[inline(always)]
    unsafe fn scale<V: Decode>(_: *const u8) -> V {
        // SAFETY: as the caller states.
        unsafe { V::splat(1.0) }
    }
}

impl Stored for F32 {
    const BLOCK: usize = 2048;
    const SCALES: usize = 0;
    const FACTOR: f32 = 1.0;
    #[inline(always)]
    unsafe fn eight<V: Decode>(p: *const u8) -> [V; 8] {
        let p = p.cast::<f32>();
        // SAFETY: eight times sixteen f32 lie at `p`.
        unsafe {
            [
                V::load(p),
                V::load(p.add(16)),
                V::load(p.add(32)),
                V::load(p.add(48)),
                V::load(p.add(64)),
                V::load(p.add(80)),
                V::load(p.add(96)),
                V::load(p.add(112)),
            ]
        }
    }
    #[inline(always)]
    unsafe fn scale<V: Decode>(_: *const u8) -> V {
        // SAFETY: as the caller states.
        unsafe { V::splat(1.0) }
    }
}
