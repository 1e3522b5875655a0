//! Decoding of cache rows, the same values as the formats' own quantizers give.

use tokenfare_device::CacheFormat;

use crate::args::Packed;

/// Value of an E4M3 code, in operations that a compiler can spread over lanes.
#[inline(always)]
fn e4m3(code: u8) -> f32 {
    let (magnitude, sign) = (u32::from(code & 0x7f), u32::from(code & 0x80) << 24);
    let normal = f32::from_bits((magnitude << 20) + (120 << 23));
    let value = if magnitude < 8 { magnitude as f32 * (1.0 / 512.0) } else { normal };
    let value = if magnitude == 0x7f { f32::NAN } else { value };
    f32::from_bits(value.to_bits() | sign)
}

/// Value of an E2M1 code in the low four bits.
#[inline(always)]
fn e2m1(code: u8) -> f32 {
    let (magnitude, sign) = (u32::from(code & 7), u32::from(code & 8) << 28);
    let normal = f32::from_bits((magnitude << 22) + (126 << 23));
    let value = if magnitude < 2 { magnitude as f32 * 0.5 } else { normal };
    f32::from_bits(value.to_bits() | sign)
}

/// Value of an E8M0 scale.
#[inline(always)]
fn e8m0(byte: u8) -> f32 {
    match byte {
        0 => f32::from_bits(1 << 22),
        255 => f32::NAN,
        byte => f32::from_bits(u32::from(byte) << 23),
    }
}

/// Decodes groups of `2 * HALF` E2M1 values; low and high nibbles apart, which a compiler can spread over lanes.
#[inline(always)]
fn decode_fp4<const HALF: usize>(codes: &[u8], scales: &[u8], scale: fn(u8) -> f32, out: &mut [f32]) {
    let out = out.as_chunks_mut::<2>().0;
    for ((out, codes), &byte) in
        out.as_chunks_mut::<HALF>().0.iter_mut().zip(codes.as_chunks::<HALF>().0).zip(scales)
    {
        let s = scale(byte);
        let (mut low, mut high) = ([0.0; HALF], [0.0; HALF]);
        for i in 0..HALF {
            low[i] = e2m1(codes[i]) * s;
            high[i] = e2m1(codes[i] >> 4) * s;
        }
        for i in 0..HALF {
            out[i] = [low[i], high[i]];
        }
    }
}

/// Decodes one row; the same values as [`CacheFormat::decode`].
#[inline(always)]
pub(crate) fn decode(format: CacheFormat, row: &[u8], out: &mut [f32]) {
    let width = out.len();
    match format {
        CacheFormat::F32 => {
            for (value, bytes) in out.iter_mut().zip(row.as_chunks::<4>().0) {
                *value = f32::from_le_bytes(*bytes);
            }
        }
        CacheFormat::Fp8 => {
            let (codes, scales) = row.split_at(width);
            for ((group, codes), &byte) in
                out.as_chunks_mut::<32>().0.iter_mut().zip(codes.as_chunks::<32>().0).zip(scales)
            {
                let s = e8m0(byte);
                for (value, &code) in group.iter_mut().zip(codes) {
                    *value = e4m3(code) * s;
                }
            }
        }
        CacheFormat::Fp4Group16 => {
            let (codes, scales) = row.split_at(width / 2);
            decode_fp4::<8>(codes, scales, e4m3, out);
        }
        CacheFormat::Fp4Group32 => {
            let (codes, scales) = row.split_at(width / 2);
            decode_fp4::<16>(codes, scales, e8m0, out);
        }
    }
}

/// Decodes row `i` of a cache to `out`.
///
/// # Safety
/// `i` is below the cache's rows, and `out` has room for its width.
#[inline(always)]
pub(crate) unsafe fn decode_row(cache: &Packed, i: usize, out: *mut f32) {
    // SAFETY: the row lies inside the cache, the output was promised.
    unsafe {
        let row = std::slice::from_raw_parts(cache.row(i), cache.stride());
        decode(cache.format, row, std::slice::from_raw_parts_mut(out, cache.width));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                decode(format, &row, &mut got);
                format.decode(&row, &mut want);
                for (got, want) in got.iter().zip(want) {
                    assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan());
                }
            }
        }
    }
}
