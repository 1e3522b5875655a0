//! The search for stored values that are not finite.

use safetensors::Dtype;

/// Values that are looked at together: a pass without branches first, the position only on a hit.
const CHUNK: usize = 4096;

/// Number of the first value that is NaN or infinite, with its bits as an error shows them.
///
/// FP4 (`I8`) has no such value; types that no weight uses are not looked at.
pub(crate) fn first_not_finite(dtype: Dtype, bytes: &[u8]) -> Option<(u64, String)> {
    match dtype {
        Dtype::F8_E4M3 => find::<1>(bytes, |[b]| b & 0x7f == 0x7f),
        Dtype::F8_E8M0 => find::<1>(bytes, |[b]| b == 0xff),
        Dtype::BF16 => find::<2>(bytes, |b| u16::from_le_bytes(b) & 0x7f80 == 0x7f80),
        Dtype::F32 => find::<4>(bytes, |b| u32::from_le_bytes(b) & 0x7f80_0000 == 0x7f80_0000),
        _ => None,
    }
}

fn find<const N: usize>(bytes: &[u8], bad: impl Fn([u8; N]) -> bool) -> Option<(u64, String)> {
    let (values, _) = bytes.as_chunks::<N>();
    let hit = values.chunks(CHUNK).position(|c| c.iter().fold(false, |any, v| any | bad(*v)))?;
    let at = hit * CHUNK + values[hit * CHUNK..].iter().position(|v| bad(*v))?;
    let bits: String = values[at].iter().rev().map(|b| format!("{b:02x}")).collect();
    Some((at as u64, format!("0x{bits}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bad_value_is_found_with_its_position() {
        let mut bytes = vec![0x11; 3 * CHUNK];
        assert_eq!(first_not_finite(Dtype::F8_E8M0, &bytes), None);
        bytes[2 * CHUNK + 5] = 0xff;
        bytes[2 * CHUNK + 9] = 0xff;
        let at = 2 * CHUNK as u64 + 5;
        assert_eq!(first_not_finite(Dtype::F8_E8M0, &bytes), Some((at, "0xff".into())));
        assert_eq!(first_not_finite(Dtype::I8, &bytes), None);
        assert_eq!(first_not_finite(Dtype::BF16, &[0x80, 0x7f, 0, 0]), Some((0, "0x7f80".into())));
        assert_eq!(first_not_finite(Dtype::F32, &f32::NAN.to_le_bytes()), Some((0, "0x7fc00000".into())));
    }
}
