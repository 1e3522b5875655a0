//! Decoding of cache rows, the same values as the formats' own quantizers give.

use tokenfare_device::CacheFormat;
use tokenfare_device::format::{E4M3, decode_e8m0};

use crate::args::Packed;
use crate::simd::F32x16;

/// One place in memory for the table, which a constant would not be sure to have.
static E4M3_VALUES: [f32; 256] = E4M3;

/// Decodes values `from..from + len` of some rows of `width` values, each behind the one before; the same values as
/// [`CacheFormat::decode`].
///
/// # Safety
/// A row lies at each of `rows`, `out` has room for `len` values of each; `width`, `from` and `len` are multiples of 32.
/// Needs `V`'s instruction set.
#[inline(always)]
unsafe fn decode_values<V: F32x16>(
    format: CacheFormat,
    rows: impl Iterator<Item = *const u8>,
    width: usize,
    from: usize,
    len: usize,
    out: *mut f32,
) {
    let rows = rows.enumerate().map(|(i, row)| (row, out.wrapping_add(i * len)));
    // SAFETY: codes and scales of all groups lie in the row.
    unsafe {
        match format {
            CacheFormat::F32 => {
                for (row, out) in rows {
                    std::ptr::copy_nonoverlapping(row.add(4 * from), out.cast(), 4 * len);
                }
            }
            CacheFormat::Fp8 => {
                for (row, out) in rows {
                    let (codes, scales) = (row.add(from), row.add(width + from / 32));
                    for group in 0..len / 32 {
                        let scale = V::splat(decode_e8m0(*scales.add(group)));
                        let (codes, out) = (codes.add(32 * group), out.add(32 * group));
                        V::e4m3(codes).mul(scale).store(out);
                        V::e4m3(codes.add(16)).mul(scale).store(out.add(16));
                    }
                }
            }
            CacheFormat::Fp4Group16 => {
                for (row, out) in rows {
                    let (codes, scales) = (row.add(from / 2), row.add(width / 2 + from / 16));
                    for group in 0..len / 16 {
                        let scale = V::splat(E4M3_VALUES[*scales.add(group) as usize]);
                        V::e2m1(codes.add(8 * group)).mul(scale).store(out.add(16 * group));
                    }
                }
            }
            CacheFormat::Fp4Group32 => {
                for (row, out) in rows {
                    let (codes, scales) = (row.add(from / 2), row.add(width / 2 + from / 32));
                    for group in 0..len / 32 {
                        let scale = V::splat(decode_e8m0(*scales.add(group)));
                        let (codes, out) = (codes.add(16 * group), out.add(32 * group));
                        V::e2m1(codes).mul(scale).store(out);
                        V::e2m1(codes.add(8)).mul(scale).store(out.add(16));
                    }
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
    let one = std::iter::once(row.as_ptr());
    // SAFETY: row and output have the sizes of the format.
    unsafe { decode_values::<V>(format, one, out.len(), 0, out.len(), out.as_mut_ptr()) }
}

/// Decodes row `i` of a cache to `out`.
///
/// # Safety
/// `i` is below the cache's rows, and `out` has room for its width. Needs `V`'s instruction set.
#[inline(always)]
pub(crate) unsafe fn decode_row<V: F32x16>(cache: &Packed, i: usize, out: *mut f32) {
    // SAFETY: the row lies inside the cache, the output was promised.
    unsafe {
        let row = std::iter::once(cache.row(i).cast_const());
        decode_values::<V>(cache.format, row, cache.width, 0, cache.width, out);
    }
}

/// Decodes `len` values from `from` on of some rows of a cache to `out`, each behind the one before.
///
/// # Safety
/// All rows are below the cache's, the values lie inside its width, both bounds are multiples of 32, and `out` has room
/// for them. Needs `V`'s instruction set.
#[inline(always)]
pub(crate) unsafe fn decode_columns<V: F32x16>(
    cache: &Packed,
    rows: &[usize],
    from: usize,
    len: usize,
    out: *mut f32,
) {
    // SAFETY: the rows lie inside the cache, the output was promised.
    unsafe {
        let rows = rows.iter().map(|&i| cache.row(i).cast_const());
        decode_values::<V>(cache.format, rows, cache.width, from, len, out);
    }
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
