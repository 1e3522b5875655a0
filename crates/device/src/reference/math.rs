//! Sums in one fixed order and elementary functions that do not depend on the platform.

/// Partial sums of a dot product, folded in halves at the end.
const LANES: usize = 8;

/// `sum_i a_i b_i`, element `i` in partial sum `i % 8`.
///
/// The products are exact in f64, so the result does not depend on the order of the sum but for its last bit.
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    let (a_blocks, a_rest) = a.as_chunks::<LANES>();
    let (b_blocks, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_blocks.iter().zip(b_blocks) {
        for i in 0..LANES {
            sums[i] += f64::from(a[i]) * f64::from(b[i]);
        }
    }
    for (i, (&a, &b)) in a_rest.iter().zip(b_rest).enumerate() {
        sums[i] += f64::from(a) * f64::from(b);
    }
    for half in [4, 2, 1] {
        for i in 0..half {
            sums[i] += sums[i + half];
        }
    }
    sums[0] as f32
}

/// `y += a * x`.
pub(super) fn add_scaled(y: &mut [f32], a: f32, x: &[f32]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += a * x;
    }
}

/// `(mean(x^2) + eps)^-0.5`.
pub(super) fn inverse_rms(x: &[f32], eps: f32) -> f32 {
    1.0 / (dot(x, x) / x.len() as f32 + eps).sqrt()
}

/// RMSNorm of one row in place.
pub(super) fn rms_norm(x: &mut [f32], weight: &[f32], eps: f32) {
    let inverse = inverse_rms(x, eps);
    for (x, w) in x.iter_mut().zip(weight) {
        *x = *x * inverse * w;
    }
}

pub(super) fn exp(x: f32) -> f32 {
    libm::expf(x)
}

pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

pub(super) fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

/// `ln(1 + e^x)` without overflow.
pub(super) fn softplus(x: f32) -> f32 {
    x.max(0.0) + libm::log1pf(exp(-x.abs()))
}

/// The positions of the `k` largest scores among `candidates`, ascending; ties to the lower position, NaN last.
pub(super) fn top_k(scores: &[f32], candidates: impl Iterator<Item = usize>, k: usize) -> Vec<usize> {
    // Adding zero makes -0 equal to 0.
    let rank = |i: usize| if scores[i].is_nan() { f32::NEG_INFINITY } else { scores[i] + 0.0 };
    let mut best: Vec<usize> = candidates.collect();
    let order = |a: &usize, b: &usize| rank(*b).total_cmp(&rank(*a)).then(a.cmp(b));
    if k < best.len() {
        if k > 0 {
            best.select_nth_unstable_by(k - 1, order);
        }
        best.truncate(k);
    }
    best.sort_unstable();
    best
}
