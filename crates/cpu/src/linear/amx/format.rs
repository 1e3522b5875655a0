//! From packed blocks to B tiles of bf16.

use std::arch::x86_64::*;

use tokenfare_device::format::decode_e8m0;

use super::TILE;
use crate::linear::decode::{Bf16, Fp4, Fp8, Stored};
use crate::simd::{Avx512, F32x16};

/// A format that decodes to B tiles: sixteen input pairs, each a line of `(even, odd)` bf16 of all features.
pub(super) trait TileFormat: Stored {
    /// Whether the packed block is a B tile itself.
    const READY: bool = false;
    /// Decodes a block with its scales folded in.
    unsafe fn folded(codes: *const u8, scales: *const u8, to: *mut u8);
    /// Decodes a block without its scales.
    unsafe fn plain(codes: *const u8, to: *mut u8);
    /// The scale of each feature.
    unsafe fn factors(scales: *const u8) -> Avx512;
}

/// bf16 bits of the E2M1 codes (twice) times `2^125`; both zeros are +0, which the saturating subtraction keeps.
const E2M1_BIG: [u16; 32] = {
    let values = [0u16, 0x3F00, 0x3F80, 0x3FC0, 0x4000, 0x4040, 0x4080, 0x40C0];
    let mut table = [0; 32];
    let mut code = 0;
    while code < 32 {
        if code & 7 != 0 {
            table[code] = (values[code & 7] + (125 << 7)) | if code & 8 != 0 { 0x8000 } else { 0 };
        }
        code += 1;
    }
    table
};

/// The scale byte of 1.
const ONE: i32 = 127;

/// The scale byte with which [`E2M1_BIG`] needs no change.
const BIG: i32 = ONE + 125;

/// Where `vpmultishiftqb` finds the bytes of four words that are moved down by `bits`; the lookup ignores what comes in
/// from the next word. Shifts proper share a port with both the lookup and the subtraction.
const fn shifted_words(bits: i64) -> i64 {
    let (mut places, mut byte) = (0, 0);
    while byte < 8 {
        places |= ((byte * 8 + bits) & 63) << (byte * 8);
        byte += 1;
    }
    places
}

/// Decodes an FP4 block; `down` holds, for each feature and in both halves of its word, how much to lower the exponent.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn fp4_lines(codes: *const u8, down: __m512i, to: *mut u8) {
    // SAFETY: a block lies at `codes`, a tile at `to`.
    unsafe {
        let table = _mm512_loadu_si512(E2M1_BIG.as_ptr().cast());
        let down_by = [4, 8, 12].map(|bits| _mm512_set1_epi64(shifted_words(bits)));
        for z in 0..4 {
            let v = _mm512_loadu_si512(codes.add(64 * z).cast());
            let to = to.add(256 * z).cast::<__m512i>();
            let line = |v| _mm512_subs_epu16(_mm512_permutexvar_epi16(v, table), down);
            _mm512_store_si512(to, line(v));
            _mm512_store_si512(to.add(1), line(_mm512_multishift_epi64_epi8(down_by[0], v)));
            _mm512_store_si512(to.add(2), line(_mm512_multishift_epi64_epi8(down_by[1], v)));
            _mm512_store_si512(to.add(3), line(_mm512_multishift_epi64_epi8(down_by[2], v)));
        }
    }
}

impl TileFormat for Fp4 {
    #[inline(always)]
    unsafe fn folded(codes: *const u8, scales: *const u8, to: *mut u8) {
        // SAFETY: a block and its scales lie at the pointers; scales are at most `BIG`.
        unsafe {
            let scales = _mm512_cvtepu8_epi32(_mm_loadu_si128(scales.cast()));
            let steps = _mm512_sub_epi32(_mm512_set1_epi32(BIG), scales);
            let down = _mm512_or_si512(_mm512_slli_epi32::<7>(steps), _mm512_slli_epi32::<23>(steps));
            fp4_lines(codes, down, to);
        }
    }
    #[inline(always)]
    unsafe fn plain(codes: *const u8, to: *mut u8) {
        // SAFETY: as the caller states.
        unsafe { fp4_lines(codes, _mm512_set1_epi16(((BIG - ONE) << 7) as i16), to) }
    }
    #[inline(always)]
    unsafe fn factors(scales: *const u8) -> Avx512 {
        // SAFETY: as the caller states.
        unsafe { Self::scale::<Avx512>(scales) }
    }
}

/// Bytes of the bf16 bits of the E4M3 magnitudes times `2^119`: the low ones, then the high ones. Codes are never NaN.
const E4M3_BIG: [[u8; 128]; 2] = {
    let mut tables = [[0; 128]; 2];
    let mut code = 1_usize;
    while code < 127 {
        let (exponent, mantissa) = (code >> 3, code & 7);
        // A subnormal mantissa moves up until its leading bit is the implicit one.
        let shift = if exponent > 0 { 0 } else { mantissa.leading_zeros() - 60 };
        let exponent = if exponent > 0 { exponent } else { 1 } + 239 - shift as usize;
        let bits = exponent << 7 | ((mantissa << shift) & 7) << 4;
        tables[0][code] = bits as u8;
        tables[1][code] = (bits >> 8) as u8;
        code += 1;
    }
    tables
};

/// The exponent of 1 in E4M3.
const E4M3_BIAS: i32 = 7;

/// The scale byte with which [`E4M3_BIG`] needs no change.
const E4M3_SCALE: i32 = ONE + 119;

/// Decodes an FP8 block with a scale byte of at least 10 and at most 246 folded in.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn fp8_lines(codes: *const u8, scale: i32, to: *mut u8) {
    // SAFETY: a block lies at `codes`, a tile at `to`.
    unsafe {
        let table = |half: usize, at: usize| _mm512_loadu_si512(E4M3_BIG[half].as_ptr().add(64 * at).cast());
        let (low, high) = ([table(0, 0), table(0, 1)], [table(1, 0), table(1, 1)]);
        // Lookups interleave inside 128 bits, so each takes eight codes of one line and eight of the next.
        let order = _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0);
        let down = _mm512_set1_epi16(((E4M3_SCALE - scale) << 7) as i16);
        let sign = _mm512_set1_epi8(i8::MIN);
        for two in 0..8 {
            let v = _mm512_permutexvar_epi64(order, _mm512_loadu_si512(codes.add(64 * two).cast()));
            let bytes = _mm512_permutex2var_epi8(low[0], v, low[1]);
            let tops = _mm512_permutex2var_epi8(high[0], v, high[1]);
            // 0xF8: tops | (code & sign).
            let tops = _mm512_ternarylogic_epi32::<0xF8>(tops, v, sign);
            let to = to.add(128 * two).cast::<__m512i>();
            _mm512_store_si512(to, _mm512_subs_epu16(_mm512_unpacklo_epi8(bytes, tops), down));
            _mm512_store_si512(to.add(1), _mm512_subs_epu16(_mm512_unpackhi_epi8(bytes, tops), down));
        }
    }
}

/// Decodes an FP8 block of normal numbers with a scale byte of at least 7 and at most 246 folded in: the bits of exponent
/// and mantissa are those of bf16, four places up, and the exponent needs a sum.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn fp8_normal_lines(codes: *const u8, scale: i32, to: *mut u8) {
    // Sign, four bits of the exponent, mantissa.
    const KEPT: i16 = 0x87F0_u16 as i16;
    // SAFETY: a block lies at `codes`, a tile at `to`.
    unsafe {
        let up = _mm512_set1_epi16(((scale - E4M3_BIAS) << 7) as i16);
        for line in 0..16 {
            let words = _mm512_cvtepi8_epi16(_mm256_loadu_si256(codes.add(32 * line).cast()));
            let bits = _mm512_and_si512(_mm512_slli_epi16::<4>(words), _mm512_set1_epi16(KEPT));
            _mm512_store_si512(to.add(64 * line).cast(), _mm512_add_epi16(bits, up));
        }
    }
}

impl TileFormat for Fp8 {
    #[inline(always)]
    unsafe fn folded(codes: *const u8, scales: *const u8, to: *mut u8) {
        // SAFETY: as the caller states.
        unsafe {
            let [scale, normal] = *scales.cast::<[u8; 2]>();
            if normal == 1 {
                fp8_normal_lines(codes, i32::from(scale), to);
            } else {
                fp8_lines(codes, i32::from(scale), to);
            }
        }
    }
    #[inline(always)]
    unsafe fn plain(codes: *const u8, to: *mut u8) {
        // SAFETY: as the caller states.
        unsafe { fp8_lines(codes, ONE, to) }
    }
    #[inline(always)]
    unsafe fn factors(scales: *const u8) -> Avx512 {
        // SAFETY: as the caller states.
        unsafe { Avx512::splat(decode_e8m0(*scales)) }
    }
}

impl TileFormat for Bf16 {
    const READY: bool = true;
    #[inline(always)]
    unsafe fn folded(codes: *const u8, _: *const u8, to: *mut u8) {
        // SAFETY: as the caller states.
        unsafe { std::ptr::copy_nonoverlapping(codes, to, TILE) }
    }
    #[inline(always)]
    unsafe fn plain(codes: *const u8, to: *mut u8) {
        // SAFETY: as the caller states.
        unsafe { Self::folded(codes, codes, to) }
    }
    #[inline(always)]
    unsafe fn factors(_: *const u8) -> Avx512 {
        // SAFETY: as the caller states.
        unsafe { Avx512::splat(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Path;

    #[test]
    fn normal_fp8_codes_decode_alike_either_way() {
        if !Path::available().contains(&Path::Amx) {
            return;
        }
        let normal: Vec<u8> = (0..=255).filter(|code| code & 0x78 != 0 && code & 0x7F != 0x7F).collect();
        let codes: Vec<u8> = normal.iter().copied().cycle().take(512).collect();
        #[repr(align(64))]
        struct Lines([u64; TILE / 8]);
        for scale in 64..=190 {
            let (mut want, mut got) = (Lines([0; TILE / 8]), Lines([u64::MAX; TILE / 8]));
            // SAFETY: the machine has the path; a block and a tile lie at the pointers.
            unsafe {
                fp8_lines(codes.as_ptr(), scale, want.0.as_mut_ptr().cast());
                fp8_normal_lines(codes.as_ptr(), scale, got.0.as_mut_ptr().cast());
            }
            assert_eq!(got.0, want.0, "scale {scale}");
        }
    }
}
