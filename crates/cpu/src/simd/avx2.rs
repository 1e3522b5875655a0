//! Sixteen lanes in two 256-bit registers: AVX2 with FMA and F16C.

use std::arch::x86_64::*;

use super::F32x16;

/// Lanes 0..8, then 8..16.
#[derive(Debug, Clone, Copy)]
pub struct Avx2(pub(crate) __m256, pub(crate) __m256);

/// One lane-wise operation on both halves.
macro_rules! lanes {
    ($($name:ident = $op:ident;)*) => {$(
        #[inline(always)]
        unsafe fn $name(self, b: Self) -> Self {
            // SAFETY: the caller has AVX2.
            unsafe { Self($op(self.0, b.0), $op(self.1, b.1)) }
        }
    )*};
}

impl F32x16 for Avx2 {
    #[inline(always)]
    unsafe fn splat(v: f32) -> Self {
        // SAFETY: the caller has AVX2.
        unsafe { Self(_mm256_set1_ps(v), _mm256_set1_ps(v)) }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller has AVX2 and gives sixteen readable elements.
        unsafe { Self(_mm256_loadu_ps(p), _mm256_loadu_ps(p.add(8))) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller has AVX2 and gives sixteen writable elements.
        unsafe {
            _mm256_storeu_ps(p, self.0);
            _mm256_storeu_ps(p.add(8), self.1);
        }
    }
    lanes! {
        add = _mm256_add_ps;
        sub = _mm256_sub_ps;
        mul = _mm256_mul_ps;
        div = _mm256_div_ps;
        max = _mm256_max_ps;
        min = _mm256_min_ps;
    }
    #[inline(always)]
    unsafe fn fma(self, b: Self, c: Self) -> Self {
        // SAFETY: the caller has FMA.
        unsafe { Self(_mm256_fmadd_ps(self.0, b.0, c.0), _mm256_fmadd_ps(self.1, b.1, c.1)) }
    }
    #[inline(always)]
    unsafe fn exp2_int(self) -> Self {
        // SAFETY: the caller has AVX2.
        unsafe {
            let bias = _mm256_set1_epi32(127);
            let low = _mm256_add_epi32(_mm256_cvttps_epi32(self.0), bias);
            let high = _mm256_add_epi32(_mm256_cvttps_epi32(self.1), bias);
            Self(
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(low)),
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(high)),
            )
        }
    }
    #[inline(always)]
    unsafe fn round(self) -> Self {
        const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
        // SAFETY: the caller has AVX2.
        unsafe { Self(_mm256_round_ps::<NEAREST>(self.0), _mm256_round_ps::<NEAREST>(self.1)) }
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: the caller has AVX2.
        unsafe {
            let v = _mm256_add_ps(self.0, self.1);
            let v = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let v = _mm_add_ps(v, _mm_movehl_ps(v, v));
            _mm_cvtss_f32(_mm_add_ss(v, _mm_shuffle_ps::<1>(v, v)))
        }
    }
    #[inline(always)]
    unsafe fn reduce_max(self) -> f32 {
        // SAFETY: the caller has AVX2.
        unsafe {
            let low = Self::splat(f32::NEG_INFINITY);
            let v = self.max(low);
            let v = _mm256_max_ps(v.0, v.1);
            let v = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let v = _mm_max_ps(v, _mm_movehl_ps(v, v));
            _mm_cvtss_f32(_mm_max_ss(v, _mm_shuffle_ps::<1>(v, v)))
        }
    }
}
