//! Sixteen lanes in one 512-bit register: AVX-512 F, BW, DQ and VL.

use std::arch::x86_64::*;

use super::{Avx2, F32x16};

/// One register.
#[derive(Debug, Clone, Copy)]
pub struct Avx512(pub(crate) __m512);

/// One lane-wise operation.
macro_rules! lanes {
    ($($name:ident = $op:ident;)*) => {$(
        #[inline(always)]
        unsafe fn $name(self, b: Self) -> Self {
            // SAFETY: the caller has AVX-512.
            unsafe { Self($op(self.0, b.0)) }
        }
    )*};
}

impl Avx512 {
    /// The two 256-bit halves.
    #[inline(always)]
    unsafe fn halves(self) -> Avx2 {
        // SAFETY: the caller has AVX-512 DQ.
        unsafe { Avx2(_mm512_castps512_ps256(self.0), _mm512_extractf32x8_ps::<1>(self.0)) }
    }
}

impl F32x16 for Avx512 {
    #[inline(always)]
    unsafe fn splat(v: f32) -> Self {
        // SAFETY: the caller has AVX-512.
        unsafe { Self(_mm512_set1_ps(v)) }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller has AVX-512 and gives sixteen readable elements.
        unsafe { Self(_mm512_loadu_ps(p)) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller has AVX-512 and gives sixteen writable elements.
        unsafe { _mm512_storeu_ps(p, self.0) }
    }
    lanes! {
        add = _mm512_add_ps;
        sub = _mm512_sub_ps;
        mul = _mm512_mul_ps;
        div = _mm512_div_ps;
        max = _mm512_max_ps;
        min = _mm512_min_ps;
    }
    #[inline(always)]
    unsafe fn fma(self, b: Self, c: Self) -> Self {
        // SAFETY: the caller has AVX-512.
        unsafe { Self(_mm512_fmadd_ps(self.0, b.0, c.0)) }
    }
    #[inline(always)]
    unsafe fn exp2_int(self) -> Self {
        // SAFETY: the caller has AVX-512.
        unsafe {
            let k = _mm512_add_epi32(_mm512_cvttps_epi32(self.0), _mm512_set1_epi32(127));
            Self(_mm512_castsi512_ps(_mm512_slli_epi32::<23>(k)))
        }
    }
    #[inline(always)]
    unsafe fn round(self) -> Self {
        const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
        // SAFETY: the caller has AVX-512.
        unsafe { Self(_mm512_roundscale_ps::<NEAREST>(self.0)) }
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: the caller has AVX-512, which includes AVX2.
        unsafe { self.halves().sum() }
    }
    #[inline(always)]
    unsafe fn reduce_max(self) -> f32 {
        // SAFETY: the caller has AVX-512, which includes AVX2.
        unsafe { self.halves().reduce_max() }
    }
}
