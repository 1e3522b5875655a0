//! Values of stored codes, in operations that a compiler can spread over lanes.

/// Value of an E4M3 code.
#[inline(always)]
pub(crate) fn e4m3(code: u8) -> f32 {
    let (magnitude, sign) = (u32::from(code & 0x7f), u32::from(code & 0x80) << 24);
    let normal = f32::from_bits((magnitude << 20) + (120 << 23));
    let value = if magnitude < 8 { magnitude as f32 * (1.0 / 512.0) } else { normal };
    let value = if magnitude == 0x7f { f32::NAN } else { value };
    f32::from_bits(value.to_bits() | sign)
}

/// Value of an E2M1 code in the low four bits.
#[inline(always)]
pub(crate) fn e2m1(code: u8) -> f32 {
    let (magnitude, sign) = (u32::from(code & 7), u32::from(code & 8) << 28);
    let normal = f32::from_bits((magnitude << 22) + (126 << 23));
    let value = if magnitude < 2 { magnitude as f32 * 0.5 } else { normal };
    f32::from_bits(value.to_bits() | sign)
}
