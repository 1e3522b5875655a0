//! Sixteen lanes in one 512-bit register: AVX-512 F, BW, DQ and VL.

use std::arch::x86_64::*;

use tokenfare_device::format::E2M1;

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
    const REGISTERS: usize = 32;
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
    #[inline(always)]
    unsafe fn sums(v: [Self; 16]) -> Self {
        // SAFETY: the caller has AVX-512.
        unsafe {
            // Each step adds the halves of two vectors at once, with the sums of both side by side.
            let eights = |a: Self, b: Self| {
                let low = _mm512_shuffle_f32x4::<0x44>(a.0, b.0);
                _mm512_add_ps(low, _mm512_shuffle_f32x4::<0xEE>(a.0, b.0))
            };
            let fours = |a: __m512, b: __m512| {
                _mm512_add_ps(_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xDD>(a, b))
            };
            let quad = |i: usize| fours(eights(v[i], v[i + 4]), eights(v[i + 8], v[i + 12]));
            let twos = |a: __m512, b: __m512| {
                let (a, b) = (_mm512_castps_pd(a), _mm512_castps_pd(b));
                let low = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
                _mm512_add_ps(low, _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)))
            };
            let (a, b) = (twos(quad(0), quad(1)), twos(quad(2), quad(3)));
            Self(_mm512_add_ps(_mm512_shuffle_ps::<0x88>(a, b), _mm512_shuffle_ps::<0xDD>(a, b)))
        }
    }
    #[inline(always)]
    unsafe fn e2m1(p: *const u8) -> Self {
        // SAFETY: the caller has AVX-512 and gives eight readable bytes.
        unsafe {
            let (low, high) = (_mm_loadu_si32(p), _mm_loadu_si32(p.add(4)));
            let both = _mm512_mask_broadcastd_epi32(_mm512_broadcastd_epi32(low), 0xFF00, high);
            let shifts = _mm512_set_epi32(28, 24, 20, 16, 12, 8, 4, 0, 28, 24, 20, 16, 12, 8, 4, 0);
            // The lookup reads four bits of an index.
            let codes = _mm512_srlv_epi32(both, shifts);
            Self(_mm512_permutexvar_ps(codes, _mm512_loadu_ps(E2M1.as_ptr())))
        }
    }
    #[inline(always)]
    unsafe fn e4m3(p: *const u8) -> Self {
        // A half with the code's bits holds 2^-8 times its value.
        const HALF: i16 = 0xBF80_u16 as i16;
        // SAFETY: the caller has AVX-512 and F16C, and gives sixteen readable bytes.
        unsafe {
            let v = _mm_loadu_si128(p.cast());
            let magnitude = _mm_set1_epi8(0x7F);
            let nan = _mm_cmpeq_epi8_mask(_mm_and_si128(v, magnitude), magnitude);
            let bits = _mm256_srai_epi16::<1>(_mm256_slli_epi16::<8>(_mm256_cvtepu8_epi16(v)));
            let half = _mm512_cvtph_ps(_mm256_and_si256(bits, _mm256_set1_epi16(HALF)));
            let value = _mm512_mul_ps(half, _mm512_set1_ps(256.0));
            Self(_mm512_mask_mov_ps(value, nan, _mm512_set1_ps(f32::NAN)))
        }
    }
}
