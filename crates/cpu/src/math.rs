//! Elementary functions over sixteen lanes, with the same bits on every instruction set.

use crate::simd::F32x16;

/// `e^x` to about 1 ulp for `x` in -87.3..=88.3; arguments outside are clamped to that range, NaN stays NaN.
///
/// Cephes' single-precision scheme: `x = k ln 2 + r` with `ln 2` in two parts, a polynomial for `e^r`, then `2^k`.
///
/// # Safety
/// Needs `V`'s instruction set.
#[inline(always)]
pub(crate) unsafe fn exp<V: F32x16>(x: V) -> V {
    const LN2_HI: f32 = 0.693_359_4;
    const LN2_LO: f32 = -2.121_944_4e-4;
    const POLY: [f32; 6] =
        [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];
    // SAFETY: the caller has V's instruction set.
    unsafe {
        // The bound comes first so that a NaN, which makes `max` and `min` give their second operand, is kept.
        let x = V::splat(88.3).min(V::splat(-87.3).max(x));
        let k = x.mul(V::splat(std::f32::consts::LOG2_E)).round();
        let r = k.fma(V::splat(-LN2_LO), k.fma(V::splat(-LN2_HI), x));
        let mut p = V::splat(POLY[0]);
        for c in &POLY[1..] {
            p = p.fma(r, V::splat(*c));
        }
        let p = p.fma(r.mul(r), r).add(V::splat(1.0));
        p.mul(k.exp2_int())
    }
}

/// `1 / (1 + e^-x)`.
///
/// # Safety
/// Needs `V`'s instruction set.
#[inline(always)]
pub(crate) unsafe fn sigmoid<V: F32x16>(x: V) -> V {
    // SAFETY: the caller has V's instruction set.
    unsafe {
        let one = V::splat(1.0);
        one.div(one.add(exp(V::splat(0.0).sub(x))))
    }
}

/// `ln(1 + e^x)`, as `max(x, 0) + ln(1 + t)` with `t = e^-|x|` and `ln(1 + t) = 2 atanh(t / (2 + t))`.
///
/// # Safety
/// Needs `V`'s instruction set.
#[inline(always)]
pub(crate) unsafe fn softplus<V: F32x16>(x: V) -> V {
    // SAFETY: the caller has V's instruction set.
    unsafe {
        let zero = V::splat(0.0);
        let t = exp(zero.sub(x).min(x));
        let u = t.div(t.add(V::splat(2.0)));
        let u2 = u.mul(u);
        // atanh(u) = u + u^3/3 + u^5/5 + ...; u is at most 1/3, so the term in u^19 is below one rounding.
        let mut p = V::splat(1.0 / 17.0);
        for odd in [15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0] {
            p = p.fma(u2, V::splat(1.0 / odd));
        }
        let atanh = p.mul(u2).fma(u, u);
        zero.max(x).add(atanh.add(atanh))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Scalar;

    fn each(f: unsafe fn(Scalar) -> Scalar, x: f32) -> f32 {
        let (input, mut out) = ([x; 16], [0.0; 16]);
        // SAFETY: plain Rust lanes and arrays of sixteen.
        unsafe { f(Scalar::load(input.as_ptr())).store(out.as_mut_ptr()) };
        out[0]
    }

    fn worst(f: unsafe fn(Scalar) -> Scalar, exact: fn(f64) -> f64, from: f32, to: f32) -> f64 {
        (0..=20_000)
            .map(|i| {
                let x = from + (to - from) * i as f32 / 20_000.0;
                let want = exact(f64::from(x));
                (f64::from(each(f, x)) - want).abs() / want / f64::from(f32::EPSILON)
            })
            .fold(0.0, f64::max)
    }

    #[test]
    fn exp_is_within_two_ulp() {
        let error = worst(exp, f64::exp, -87.0, 88.0);
        assert!(error < 1.5, "{error} epsilon");
        assert_eq!(each(exp, 0.0), 1.0);
        assert!(each(exp, f32::NAN).is_nan());
        assert!(each(exp, -1000.0) < 1.3e-38);
    }

    #[test]
    fn sigmoid_and_softplus_are_within_three_epsilon() {
        let error = worst(sigmoid, |x| 1.0 / (1.0 + (-x).exp()), -80.0, 80.0);
        assert!(error < 3.0, "{error} epsilon");
        let error = worst(softplus, |x| x.exp().ln_1p(), -80.0, 80.0);
        assert!(error < 3.0, "{error} epsilon");
    }
}
