//! Dot products of queries and keys.

use crate::simd::F32x16;

/// Queries that share the loads of a key.
pub(crate) const HEADS: usize = 4;

/// Keys that the loads of those queries are shared by, where there are registers for all products.
const KEYS: usize = 4;

/// `out[h * stride + k] = q_h . k_k` for `H` queries and `K` keys of `width` values, one chain of lanes each.
#[inline(always)]
unsafe fn block<V: F32x16, const H: usize, const K: usize>(
    q: *const f32,
    keys: *const f32,
    width: usize,
    out: *mut f32,
    stride: usize,
) {
    // SAFETY: the caller gives `H` queries, `K` keys of a width that is a multiple of sixteen, and room for the results.
    unsafe {
        let mut sums = [[V::splat(0.0); K]; H];
        let mut i = 0;
        while i < width {
            let mut key = [V::splat(0.0); K];
            for (k, key) in key.iter_mut().enumerate() {
                *key = V::load(keys.add(k * width + i));
            }
            for (h, sums) in sums.iter_mut().enumerate() {
                let q = V::load(q.add(h * width + i));
                for (sum, key) in sums.iter_mut().zip(key) {
                    *sum = q.fma(key, *sum);
                }
            }
            i += 16;
        }
        if H == HEADS && K == KEYS {
            let all = std::array::from_fn(|i| sums[i / KEYS][i % KEYS]);
            let mut lanes = [0.0; 16];
            V::sums(all).store(lanes.as_mut_ptr());
            for (h, lanes) in lanes.as_chunks::<KEYS>().0.iter().enumerate() {
                std::ptr::copy_nonoverlapping(lanes.as_ptr(), out.add(h * stride), KEYS);
            }
            return;
        }
        for (h, sums) in sums.iter().enumerate() {
            for (k, sum) in sums.iter().enumerate() {
                *out.add(h * stride + k) = sum.sum();
            }
        }
    }
}

/// `out[h * stride + k] = q_h . k_k` for dense queries and keys of `width` values.
///
/// # Safety
/// `heads` queries and `count` keys are readable, the results writable; `width` is a multiple of sixteen. Needs `V`'s
/// instruction set.
#[inline(always)]
pub(crate) unsafe fn dots<V: F32x16>(
    q: *const f32,
    heads: usize,
    keys: *const f32,
    count: usize,
    width: usize,
    out: *mut f32,
    stride: usize,
) {
    // SAFETY: blocks stay inside `heads` and `count`.
    unsafe {
        let mut h = 0;
        while h < heads {
            let whole = heads - h >= HEADS;
            let (q, out) = (q.add(h * width), out.add(h * stride));
            let mut k = 0;
            while k < count {
                let (keys, out) = (keys.add(k * width), out.add(k));
                k += match (whole, count - k) {
                    (true, KEYS..) if V::REGISTERS > HEADS * KEYS => {
                        block::<V, HEADS, KEYS>(q, keys, width, out, stride);
                        KEYS
                    }
                    (true, 2..) => {
                        block::<V, HEADS, 2>(q, keys, width, out, stride);
                        2
                    }
                    (true, _) => {
                        block::<V, HEADS, 1>(q, keys, width, out, stride);
                        1
                    }
                    (false, _) => {
                        block::<V, 1, 1>(q, keys, width, out, stride);
                        1
                    }
                };
            }
            h += if whole { HEADS } else { 1 };
        }
    }
}
