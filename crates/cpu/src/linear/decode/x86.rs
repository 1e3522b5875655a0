//! Decoding with AVX2 and AVX-512.

use std::arch::x86_64::*;

use tokenfare_device::format::E2M1;

use super::Decode;
use super::scalar::{E2M1_HIGH, E2M1_LOW};
use crate::simd::{Avx2, Avx512};

/// What is left of a half's bits once an E4M3 code in the upper byte was shifted right by one: sign, then 7 bits.
const HALF: i16 = 0xBF80_u16 as i16;

/// The even (first) and odd f32 of eight bf16 pairs.
#[inline(always)]
unsafe fn pair(words: __m256i) -> (__m256, __m256) {
    // SAFETY: the caller has AVX2.
    unsafe {
        let odd = _mm256_and_si256(words, _mm256_set1_epi32(0xFFFF_0000_u32 as i32));
        (_mm256_castsi256_ps(_mm256_slli_epi32::<16>(words)), _mm256_castsi256_ps(odd))
    }
}

/// Four bf16 pairs of eight features from 32 bytes of FP4.
#[inline(always)]
unsafe fn fp4_pairs(p: *const u8) -> [__m256i; 4] {
    // SAFETY: the caller has AVX2 and 32 bytes at `p`.
    unsafe {
        let high = _mm256_broadcastsi128_si256(_mm_loadu_si128(E2M1_HIGH.as_ptr().cast()));
        let low = _mm256_broadcastsi128_si256(_mm_loadu_si128(E2M1_LOW.as_ptr().cast()));
        let (nibble, first) = (_mm256_set1_epi8(15), _mm256_set1_epi16(0xFF));
        let v = _mm256_loadu_si256(p.cast());
        let a = _mm256_and_si256(v, nibble);
        let b = _mm256_and_si256(_mm256_srli_epi16::<4>(v), nibble);
        let (a_high, a_low) = (_mm256_shuffle_epi8(high, a), _mm256_shuffle_epi8(low, a));
        let (b_high, b_low) = (_mm256_shuffle_epi8(high, b), _mm256_shuffle_epi8(low, b));
        [
            _mm256_or_si256(_mm256_and_si256(a_low, first), _mm256_slli_epi16::<8>(a_high)),
            _mm256_or_si256(_mm256_and_si256(b_low, first), _mm256_slli_epi16::<8>(b_high)),
            _mm256_or_si256(_mm256_srli_epi16::<8>(a_low), _mm256_andnot_si256(first, a_high)),
            _mm256_or_si256(_mm256_srli_epi16::<8>(b_low), _mm256_andnot_si256(first, b_high)),
        ]
    }
}

impl Decode for Avx2 {
    const ROWS: usize = 2;
    #[inline(always)]
    unsafe fn fp4(p: *const u8) -> [Self; 8] {
        // SAFETY: the caller has AVX2 and 64 bytes at `p`.
        unsafe {
            let (first, second) = (fp4_pairs(p), fp4_pairs(p.add(32)));
            let mut out = [Self(_mm256_setzero_ps(), _mm256_setzero_ps()); 8];
            for i in 0..4 {
                let (a, b) = (pair(first[i]), pair(second[i]));
                out[2 * i] = Self(a.0, b.0);
                out[2 * i + 1] = Self(a.1, b.1);
            }
            out
        }
    }
    #[inline(always)]
    unsafe fn fp8(p: *const u8) -> [Self; 8] {
        // SAFETY: the caller has AVX2 and F16C, and 128 bytes at `p`.
        unsafe {
            let mut out = [Self(_mm256_setzero_ps(), _mm256_setzero_ps()); 8];
            for i in 0..4 {
                let v = _mm256_loadu_si256(p.add(32 * i).cast());
                let half = _mm256_set1_epi16(HALF);
                let even = _mm256_and_si256(_mm256_srai_epi16::<1>(_mm256_slli_epi16::<8>(v)), half);
                let odd = _mm256_and_si256(_mm256_srai_epi16::<1>(v), half);
                out[2 * i] = Self(
                    _mm256_cvtph_ps(_mm256_castsi256_si128(even)),
                    _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(even)),
                );
                out[2 * i + 1] = Self(
                    _mm256_cvtph_ps(_mm256_castsi256_si128(odd)),
                    _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(odd)),
                );
            }
            out
        }
    }
    #[inline(always)]
    unsafe fn bf16(p: *const u8) -> [Self; 8] {
        // SAFETY: the caller has AVX2 and 256 bytes at `p`.
        unsafe {
            let mut out = [Self(_mm256_setzero_ps(), _mm256_setzero_ps()); 8];
            for i in 0..4 {
                let a = pair(_mm256_loadu_si256(p.add(64 * i).cast()));
                let b = pair(_mm256_loadu_si256(p.add(64 * i + 32).cast()));
                out[2 * i] = Self(a.0, b.0);
                out[2 * i + 1] = Self(a.1, b.1);
            }
            out
        }
    }
    #[inline(always)]
    unsafe fn scales(p: *const u8) -> Self {
        // SAFETY: the caller has AVX2 and sixteen bytes at `p`.
        unsafe {
            let v = _mm_loadu_si128(p.cast());
            let smallest = _mm256_set1_epi32(1 << 22);
            let low = _mm256_slli_epi32::<23>(_mm256_cvtepu8_epi32(v));
            let high = _mm256_slli_epi32::<23>(_mm256_cvtepu8_epi32(_mm_srli_si128::<8>(v)));
            Self(
                _mm256_castsi256_ps(_mm256_max_epi32(low, smallest)),
                _mm256_castsi256_ps(_mm256_max_epi32(high, smallest)),
            )
        }
    }
    #[inline(always)]
    unsafe fn prefetch(p: *const u8) {
        // SAFETY: a prefetch of any address is allowed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
    }
}

impl Decode for Avx512 {
    const ROWS: usize = 8;
    #[inline(always)]
    unsafe fn fp4(p: *const u8) -> [Self; 8] {
        // SAFETY: the caller has AVX-512 and 64 bytes at `p`.
        unsafe {
            let table = _mm512_loadu_ps(E2M1.as_ptr());
            let v = _mm512_loadu_si512(p.cast());
            [
                Self(_mm512_permutexvar_ps(v, table)),
                Self(_mm512_permutexvar_ps(_mm512_srli_epi32::<16>(v), table)),
                Self(_mm512_permutexvar_ps(_mm512_srli_epi32::<4>(v), table)),
                Self(_mm512_permutexvar_ps(_mm512_srli_epi32::<20>(v), table)),
                Self(_mm512_permutexvar_ps(_mm512_srli_epi32::<8>(v), table)),
                Self(_mm512_permutexvar_ps(_mm512_srli_epi32::<24>(v), table)),
                Self(_mm512_permutexvar_ps(_mm512_srli_epi32::<12>(v), table)),
                Self(_mm512_permutexvar_ps(_mm512_srli_epi32::<28>(v), table)),
            ]
        }
    }
    #[inline(always)]
    unsafe fn fp8(p: *const u8) -> [Self; 8] {
        // SAFETY: the caller has AVX-512 and 128 bytes at `p`.
        unsafe {
            let mut out = [Self(_mm512_setzero_ps()); 8];
            for i in 0..2 {
                let v = _mm512_loadu_si512(p.add(64 * i).cast());
                let half = _mm512_set1_epi16(HALF);
                let even = _mm512_and_si512(_mm512_srai_epi16::<1>(_mm512_slli_epi16::<8>(v)), half);
                let odd = _mm512_and_si512(_mm512_srai_epi16::<1>(v), half);
                out[4 * i] = Self(_mm512_cvtph_ps(_mm512_castsi512_si256(even)));
                out[4 * i + 1] = Self(_mm512_cvtph_ps(_mm512_castsi512_si256(odd)));
                out[4 * i + 2] = Self(_mm512_cvtph_ps(_mm512_extracti64x4_epi64::<1>(even)));
                out[4 * i + 3] = Self(_mm512_cvtph_ps(_mm512_extracti64x4_epi64::<1>(odd)));
            }
            out
        }
    }
    #[inline(always)]
    unsafe fn bf16(p: *const u8) -> [Self; 8] {
        // SAFETY: the caller has AVX-512 and 256 bytes at `p`.
        unsafe {
            let upper = _mm512_set1_epi32(0xFFFF_0000_u32 as i32);
            let mut out = [Self(_mm512_setzero_ps()); 8];
            for i in 0..4 {
                let v = _mm512_loadu_si512(p.add(64 * i).cast());
                out[2 * i] = Self(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(v)));
                out[2 * i + 1] = Self(_mm512_castsi512_ps(_mm512_and_si512(v, upper)));
            }
            out
        }
    }
    #[inline(always)]
    unsafe fn scales(p: *const u8) -> Self {
        // SAFETY: the caller has AVX-512 and sixteen bytes at `p`.
        unsafe {
            let v = _mm512_slli_epi32::<23>(_mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast())));
            Self(_mm512_castsi512_ps(_mm512_max_epi32(v, _mm512_set1_epi32(1 << 22))))
        }
    }
    #[inline(always)]
    unsafe fn prefetch(p: *const u8) {
        // SAFETY: a prefetch of any address is allowed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
    }
}
