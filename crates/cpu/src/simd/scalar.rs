//! Sixteen lanes in plain Rust: the path of every machine, and the pattern for the others.

use super::F32x16;

/// Sixteen f32 in an array.
#[derive(Debug, Clone, Copy)]
pub struct Scalar(pub(crate) [f32; 16]);

impl Scalar {
    #[inline(always)]
    fn zip(self, b: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Self(std::array::from_fn(|i| f(self.0[i], b.0[i])))
    }
}

impl F32x16 for Scalar {
    #[inline(always)]
    unsafe fn splat(v: f32) -> Self {
        Self([v; 16])
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller gives sixteen readable elements.
        Self(std::array::from_fn(|i| unsafe { p.add(i).read_unaligned() }))
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        for (i, v) in self.0.into_iter().enumerate() {
            // SAFETY: the caller gives sixteen writable elements.
            unsafe { p.add(i).write_unaligned(v) };
        }
    }
    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        self.zip(b, |x, y| x + y)
    }
    #[inline(always)]
    unsafe fn sub(self, b: Self) -> Self {
        self.zip(b, |x, y| x - y)
    }
    #[inline(always)]
    unsafe fn mul(self, b: Self) -> Self {
        self.zip(b, |x, y| x * y)
    }
    #[inline(always)]
    unsafe fn div(self, b: Self) -> Self {
        self.zip(b, |x, y| x / y)
    }
    #[inline(always)]
    unsafe fn fma(self, b: Self, c: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].mul_add(b.0[i], c.0[i])))
    }
    #[inline(always)]
    unsafe fn max(self, b: Self) -> Self {
        self.zip(b, |x, y| if x > y { x } else { y })
    }
    #[inline(always)]
    unsafe fn min(self, b: Self) -> Self {
        self.zip(b, |x, y| if x < y { x } else { y })
    }
    #[inline(always)]
    unsafe fn exp2_int(self) -> Self {
        Self(self.0.map(|k| f32::from_bits(((k as i32 + 127) as u32) << 23)))
    }
    #[inline(always)]
    unsafe fn round(self) -> Self {
        Self(self.0.map(f32::round_ties_even))
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        let mut v = self.0;
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                v[i] += v[i + half];
            }
        }
        v[0]
    }
    #[inline(always)]
    unsafe fn reduce_max(self) -> f32 {
        let mut v = self.0.map(|x| if x > f32::NEG_INFINITY { x } else { f32::NEG_INFINITY });
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                v[i] = if v[i] > v[i + half] { v[i] } else { v[i + half] };
            }
        }
        v[0]
    }
}
