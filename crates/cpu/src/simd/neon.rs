//! Sixteen lanes in four 128-bit registers: aarch64 NEON.

use std::arch::aarch64::*;

use super::F32x16;

/// Lanes 0..4, 4..8, 8..12 and 12..16.
#[derive(Debug, Clone, Copy)]
pub struct Neon(pub(crate) [float32x4_t; 4]);

/// One lane-wise operation on the four registers.
macro_rules! lanes {
    ($($name:ident = $op:ident;)*) => {$(
        #[inline(always)]
        unsafe fn $name(self, b: Self) -> Self {
            let (a, b) = (self.0, b.0);
            // SAFETY: the caller has NEON.
            unsafe { Self([$op(a[0], b[0]), $op(a[1], b[1]), $op(a[2], b[2]), $op(a[3], b[3])]) }
        }
    )*};
}

/// `a` where `a > b`, else `b`.
#[inline(always)]
unsafe fn larger(a: float32x4_t, b: float32x4_t) -> float32x4_t {
    // SAFETY: the caller has NEON.
    unsafe { vbslq_f32(vcgtq_f32(a, b), a, b) }
}

/// `a` where `a < b`, else `b`.
#[inline(always)]
unsafe fn smaller(a: float32x4_t, b: float32x4_t) -> float32x4_t {
    // SAFETY: the caller has NEON.
    unsafe { vbslq_f32(vcltq_f32(a, b), a, b) }
}

/// `2^k` of integer lanes.
#[inline(always)]
unsafe fn exp2(k: float32x4_t) -> float32x4_t {
    // SAFETY: the caller has NEON.
    unsafe {
        let biased = vaddq_s32(vcvtq_s32_f32(k), vdupq_n_s32(127));
        vreinterpretq_f32_s32(vshlq_n_s32::<23>(biased))
    }
}

impl F32x16 for Neon {
    #[inline(always)]
    unsafe fn splat(v: f32) -> Self {
        // SAFETY: the caller has NEON.
        unsafe { Self([vdupq_n_f32(v); 4]) }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller has NEON and gives sixteen readable elements.
        unsafe { Self([vld1q_f32(p), vld1q_f32(p.add(4)), vld1q_f32(p.add(8)), vld1q_f32(p.add(12))]) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller has NEON and gives sixteen writable elements.
        unsafe {
            vst1q_f32(p, self.0[0]);
            vst1q_f32(p.add(4), self.0[1]);
            vst1q_f32(p.add(8), self.0[2]);
            vst1q_f32(p.add(12), self.0[3]);
        }
    }
    lanes! {
        add = vaddq_f32;
        sub = vsubq_f32;
        mul = vmulq_f32;
        div = vdivq_f32;
        max = larger;
        min = smaller;
    }
    #[inline(always)]
    unsafe fn fma(self, b: Self, c: Self) -> Self {
        let (a, b, c) = (self.0, b.0, c.0);
        // SAFETY: the caller has NEON.
        unsafe {
            Self([
                vfmaq_f32(c[0], a[0], b[0]),
                vfmaq_f32(c[1], a[1], b[1]),
                vfmaq_f32(c[2], a[2], b[2]),
                vfmaq_f32(c[3], a[3], b[3]),
            ])
        }
    }
    #[inline(always)]
    unsafe fn exp2_int(self) -> Self {
        let k = self.0;
        // SAFETY: the caller has NEON.
        unsafe { Self([exp2(k[0]), exp2(k[1]), exp2(k[2]), exp2(k[3])]) }
    }
    #[inline(always)]
    unsafe fn round(self) -> Self {
        let v = self.0;
        // SAFETY: the caller has NEON.
        unsafe { Self([vrndnq_f32(v[0]), vrndnq_f32(v[1]), vrndnq_f32(v[2]), vrndnq_f32(v[3])]) }
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        let v = self.0;
        // SAFETY: the caller has NEON.
        unsafe {
            let v = vaddq_f32(vaddq_f32(v[0], v[2]), vaddq_f32(v[1], v[3]));
            let v = vadd_f32(vget_low_f32(v), vget_high_f32(v));
            vget_lane_f32::<0>(v) + vget_lane_f32::<1>(v)
        }
    }
    #[inline(always)]
    unsafe fn reduce_max(self) -> f32 {
        // SAFETY: the caller has NEON.
        unsafe {
            let v = self.max(Self::splat(f32::NEG_INFINITY)).0;
            let v = larger(larger(v[0], v[2]), larger(v[1], v[3]));
            let (low, high) = (vget_low_f32(v), vget_high_f32(v));
            let v = vbsl_f32(vcgt_f32(low, high), low, high);
            let (a, b) = (vget_lane_f32::<0>(v), vget_lane_f32::<1>(v));
            if a > b { a } else { b }
        }
    }
}
