//! Every method gives the same bits on every instruction set that this machine has.

use super::{F32x16, per_isa};
use crate::{Path, math};

/// Results of all methods on one triple of vectors, as bits; every NaN is one value.
type Results = Vec<u32>;

#[inline(always)]
unsafe fn everything<V: F32x16>(a: &[f32; 16], b: &[f32; 16], c: &[f32; 16]) -> Results {
    let mut out = Vec::new();
    // SAFETY: the arrays hold sixteen elements; the entry has the instruction set.
    unsafe {
        let (va, vb, vc) = (V::load(a.as_ptr()), V::load(b.as_ptr()), V::load(c.as_ptr()));
        let k: [f32; 16] = std::array::from_fn(|i| (a[i].to_bits() >> 5) as f32 % 253.0 - 126.0);
        let k: [f32; 16] = k.map(f32::trunc);
        let small = b.map(|v| v % 1e6);
        let vectors = [
            V::splat(a[3]),
            va,
            va.add(vb),
            va.sub(vb),
            va.mul(vb),
            va.div(vb),
            va.fma(vb, vc),
            va.max(vb),
            va.min(vb),
            V::load(k.as_ptr()).exp2_int(),
            V::load(small.as_ptr()).round(),
            math::exp(va),
            math::sigmoid(vb),
            math::softplus(vc),
        ];
        for v in vectors {
            let mut lanes = [0f32; 16];
            v.store(lanes.as_mut_ptr());
            out.extend(lanes);
        }
        out.extend([va.sum(), va.reduce_max(), vb.sum(), vb.reduce_max()]);
    }
    out.into_iter().map(|v: f32| if v.is_nan() { f32::NAN.to_bits() } else { v.to_bits() }).collect()
}

per_isa! {
    /// All results on a path.
    unsafe fn results(a: &[f32; 16], b: &[f32; 16], c: &[f32; 16]) -> Results = everything::<V>(a, b, c);
}

const EDGES: [f32; 16] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    f32::MIN_POSITIVE,
    1e-45,
    -1e-40,
    f32::MAX,
    f32::MIN,
    0.5,
    2.5,
    -3.5,
    88.7,
];

/// Arithmetic makes quiet NaNs alone, and compilers do not keep signalling ones apart.
fn quiet(v: f32) -> f32 {
    if v.is_nan() { f32::NAN } else { v }
}

#[test]
fn every_method_gives_the_bits_of_the_scalar_path() {
    let mut rng = crate::random::Random(7);
    let paths = Path::available();
    assert!(paths.contains(&Path::Scalar));
    for round in 0..2000 {
        let mut draw = |i: usize| match round % 4 {
            0 => rng.unit() * 8.0,
            1 => quiet(f32::from_bits(rng.next() as u32)),
            2 => rng.unit() * 120.0,
            _ => EDGES[(i + rng.next() as usize) % 16],
        };
        let mut vector = || std::array::from_fn(&mut draw);
        let (a, b, c) = (vector(), vector(), vector());
        // SAFETY: only paths that the machine has.
        let want = unsafe { results(Path::Scalar, &a, &b, &c) };
        for &path in &paths {
            // SAFETY: only paths that the machine has.
            let got = unsafe { results(path, &a, &b, &c) };
            assert_eq!(got, want, "{} on {a:?} {b:?} {c:?}", path.name());
        }
    }
}
