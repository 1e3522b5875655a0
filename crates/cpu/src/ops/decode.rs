//! Decoding of cache rows, the same values as the formats' own quantizers give.

use tokenfare_device::CacheFormat;
use tokenfare_device::format::{E4M3, decode_e8m0};

use crate::args::Packed;
use crate::simd::F32x16;

/// One place in memory for the table, which a constant would not be sure to have.
static E4M3_VALUES: [f32; 256] = E4M3;

/// Decodes one row of `width` values; the same values as [`CacheFormat::decode`].
///
/// # Safety
/// A row lies at `row`, `out` has room for `width` values, a multiple of 32. Needs `V`'s instruction set.
#[inline(always)]
unsafe fn decode_values<V: F32x16>(format: CacheFormat, row: *const u8, out: *mut f32, width: usize) {
    // SAFETY: codes and scales of all groups lie in the row.
    unsafe {
        match format {
            CacheFormat::F32 => std::ptr::copy_nonoverlapping(row, out.cast(), 4 * width),
            CacheFormat::Fp8 => {
                for group in 0..width / 32 {
                    let scale = V::splat(decode_e8m0(*row.add(width + group)));
                    let (codes, out) = (row.add(32 * group), out.add(32 * group));
                    V::e4m3(codes).mul(scale).store(out);
                    V::e4m3(codes.add(16)).mul(scale).store(out.add(16));
                }
            }
            CacheFormat::Fp4Group16 => {
                for group in 0..width / 16 {
                    let scale = V::splat(E4M3_VALUES[*row.add(width / 2 + group) as usize]);
                    V::e2m1(row.add(8 * group)).mul(scale).store(out.add(16 * group));
                }
            }
            CacheFormat::Fp4Group32 => {
                for group in 0..width / 32 {
                    let scale = V::splat(decode_e8m0(*row.add(width / 2 + group)));
                    let (codes, out) = (row.add(16 * group), out.add(32 * group));
                    V::e2m1(codes).mul(scale).store(out);
                    V::e2m1(codes.add(8)).mul(scale).store(out.add(16));
                }
            }
        }
    }
}

/// Decodes one row of `out.len()` values, a multiple of 32.
///
/// # Safety
/// Needs `V`'s instruction set.
#[inline(always)]
pub(crate) unsafe fn decode<V: F32x16>(format: CacheFormat, row: &[u8], out: &mut [f32]) {
    debug_assert!(out.len().is_multiple_of(32) && row.len() >= format.row_bytes(out.len()));
    // SAFETY: row and output have the sizes of the format.
    unsafe { decode_values::<V>(format, row.as_ptr(), out.as_mut_ptr(), out.len()) }
}

/// Decodes row `i` of a cache to `out`.
///
/// # Safety
/// `i` is below the cache's rows, and `out` has room for its width. Needs `V`'s instruction set.
#[inline(always)]
pub(crate) unsafe fn decode_row<V: F32x16>(cache: &Packed, i: usize, out: *mut f32) {
    // SAFETY: the row lies inside the cache, the output was promised.
    unsafe { decode_values::<V>(cache.format, cache.row(i), out, cache.width) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Path;
    use crate::simd::per_isa;

    per_isa! {
        /// Decodes a row on a path.
        unsafe fn decode_on(format: CacheFormat, row: &[u8], out: &mut [f32]) = decode::<V>(format, row, out);
    }

    #[test]
    fn decodes_every_code_under_every_scale_as_the_scalar_quantizers_do() {
        for format in [CacheFormat::Fp8, CacheFormat::Fp4Group16, CacheFormat::Fp4Group32, CacheFormat::F32] {
            let mut row = vec![0; format.row_bytes(256)];
            for scale in 0..=255 {
                for (i, byte) in row.iter_mut().enumerate() {
                    *byte = if i < 128 || (format == CacheFormat::Fp8 && i < 256) { i as u8 } else { scale };
                    if format == CacheFormat::Fp4Group16 || format == CacheFormat::Fp4Group32 {
                        *byte = if i < 128 { (i as u8).wrapping_mul(2) ^ scale } else { scale };
                    }
                }
                let (mut got, mut want) = ([0.0; 256], [0.0; 256]);
                format.decode(&row, &mut want);
                for path in Path::available() {
                    // SAFETY: only paths that the machine has.
                    unsafe { decode_on(path, format, &row, &mut got) };
                    for (got, want) in got.iter().zip(want) {
                        assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{path}");
                    }
                }
            }
        }
    }
}
