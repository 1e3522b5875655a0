//! The quantizers and the hyper-connection mixes against values of the PyTorch reference, bit for bit where it stores bits.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use safetensors::SafeTensors;
use tokenfare_device::format::{
    E2M1, E4M3, check_e8m0, decode_bf16, decode_e2m1, decode_e4m3, decode_e8m0, encode_e2m1, encode_e4m3,
    encode_e8m0_ceil,
};
use tokenfare_device::{CacheFormat, Device, DeviceError, LinearData, Matrix, Reference, View};

/// Width of the rows of the golden file.
const WIDTH: usize = 64;

fn golden(name: &str) -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/golden/golden_units.safetensors");
    let bytes = std::fs::read(path).unwrap();
    SafeTensors::deserialize(&bytes).unwrap().tensor(name).unwrap().data().to_vec()
}

fn bf16(name: &str) -> Vec<f32> {
    golden(name).as_chunks().0.iter().map(|&b| decode_bf16(b)).collect()
}

fn f32s(name: &str) -> Vec<f32> {
    golden(name).as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect()
}

fn assert_golden(format: CacheFormat, prefix: &str) {
    let (codes, scales) = (golden(&format!("{prefix}.q")), golden(&format!("{prefix}.scale")));
    let (x, round_trip) = (bf16("x"), bf16(&format!("{prefix}.roundtrip")));
    let rows = x.len() / WIDTH;
    assert_eq!(rows, 4);
    for r in 0..rows {
        let part = |values: &[u8]| values[r * values.len() / rows..(r + 1) * values.len() / rows].to_vec();
        let expected = [part(&codes), part(&scales)].concat();
        let mut row = vec![0; format.row_bytes(WIDTH)];
        format.encode(&x[r * WIDTH..][..WIDTH], &mut row);
        assert_eq!(row, expected, "{prefix}, row {r}");
        let mut values = [0.0; WIDTH];
        format.decode(&row, &mut values);
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&values), bits(&round_trip[r * WIDTH..][..WIDTH]), "{prefix}, row {r}");
    }
}

#[test]
fn window_rows_match_the_golden() {
    assert_golden(CacheFormat::Fp8, "fp8_32");
}

#[test]
fn compressed_rows_match_the_golden() {
    assert_golden(CacheFormat::Fp4Group16, "fp4_16_e4m3");
}

#[test]
fn index_keys_match_the_golden() {
    assert_golden(CacheFormat::Fp4Group32, "fp4_32_e8m0");
}

#[test]
fn hyper_connection_mixes_match_the_golden() {
    let (mixes, base, scale) = (f32s("hc.mixes"), f32s("hc.base"), f32s("hc.scale"));
    let rows = mixes.len() / 24;
    // The streams are the wanted products, and one value more that makes their mean square 1.
    let mut h = vec![0.0; rows * 32];
    for (h, m) in h.chunks_exact_mut(32).zip(mixes.chunks_exact(24)) {
        h[..24].copy_from_slice(m);
        h[24] = (32.0 - m.iter().map(|v| v * v).sum::<f32>()).sqrt();
    }
    let identity: Vec<u8> =
        (0..24 * 32).flat_map(|i| if i / 32 == i % 32 { 1.0f32 } else { 0.0 }.to_le_bytes()).collect();
    let mut device = Reference::new(rows);
    let mix = device
        .linear_weight(LinearData { rows: 24, cols: 32, groups: 1, values: Matrix::F32(&identity) })
        .unwrap();
    let upload = |device: &mut Reference, values: &[f32]| {
        let buf = device.alloc(values.len()).unwrap();
        device.write(&buf, 0, values).unwrap();
        buf
    };
    let (h, base, scale) = (upload(&mut device, &h), upload(&mut device, &base), upload(&mut device, &scale));
    let out = device.alloc(rows * 24).unwrap();
    let (h, target) = (View::dense(&h, 32), View::dense(&out, 24));
    device.hc_mix(rows, h, &mix, &base, &scale, 20, 1e-6, 1e-20, target).unwrap();
    let mut got = vec![0.0; rows * 24];
    device.read(&out, 0, &mut got).unwrap();
    let (pre, post, comb) = (f32s("hc.pre"), f32s("hc.post"), f32s("hc.comb"));
    for (r, got) in got.chunks_exact(24).enumerate() {
        let expected = [&pre[r * 4..][..4], &post[r * 4..][..4], &comb[r * 16..][..16]].concat();
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            assert!((got - expected).abs() < 2e-6, "row {r}, mix {i}: {got}, expected {expected}");
        }
    }
}

#[test]
fn every_code_decodes_to_its_value() {
    for code in 0..=255u8 {
        let (sign, exponent, mantissa) =
            (if code < 128 { 1.0 } else { -1.0 }, i32::from(code >> 3 & 15), f32::from(code & 7));
        let value = decode_e4m3(code);
        if code & 127 == 127 {
            assert!(value.is_nan());
        } else if exponent == 0 {
            assert_eq!(value, sign * mantissa * 2f32.powi(-9));
        } else {
            assert_eq!(value, sign * (1.0 + mantissa / 8.0) * 2f32.powi(exponent - 7));
        }
    }
    let values: Vec<f32> = (0..16).map(decode_e2m1).collect();
    assert_eq!(values[..8], [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]);
    assert!((0..8).all(|i| values[i + 8].to_bits() == (-values[i]).to_bits()));
    assert_eq!(decode_e2m1(0xf7), 6.0);
    assert_eq!([0, 1, 127, 254].map(decode_e8m0), [-127, -126, 0, 127].map(|e| 2f64.powi(e) as f32));
    assert!(decode_e8m0(255).is_nan());
    assert_eq!(decode_bf16([0x80, 0xbf]), -1.0);
}

#[test]
fn every_finite_code_encodes_to_itself() {
    for code in (0..=255u8).filter(|code| code & 127 != 127) {
        assert_eq!(encode_e4m3(decode_e4m3(code)), code);
    }
    for code in 0..16 {
        assert_eq!(encode_e2m1(decode_e2m1(code)), code);
    }
    for byte in 1..255 {
        assert_eq!(encode_e8m0_ceil(decode_e8m0(byte)), byte);
        let above = f32::from_bits(decode_e8m0(byte).to_bits() + 1);
        assert_eq!(encode_e8m0_ceil(above), byte + 1, "just above 2^{}", i32::from(byte) - 127);
    }
}

#[test]
fn ties_go_to_the_even_code_and_large_values_saturate() {
    let ties = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0];
    assert_eq!(ties.map(encode_e2m1), [0, 2, 2, 4, 4, 6, 6]);
    assert_eq!([-0.25, -5.0, 1e30, f32::INFINITY].map(encode_e2m1), [8, 14, 7, 7]);
    // Half of the smallest value, one and a half times it, the tie below the smallest normal value.
    assert_eq!([0.5 / 512.0, 1.5 / 512.0, 7.5 / 512.0].map(encode_e4m3), [0, 2, 8]);
    // 17 and 19 lie midway between 16, 18 and 20.
    assert_eq!([17.0, 19.0].map(|v| decode_e4m3(encode_e4m3(v))), [16.0, 20.0]);
    assert_eq!([448.0, 1e9, f32::INFINITY, -1e9].map(encode_e4m3), [0x7e, 0x7e, 0x7e, 0xfe]);
    assert_eq!((encode_e4m3(f32::NAN), encode_e2m1(f32::NAN), encode_e8m0_ceil(f32::NAN)), (0x7f, 0, 255));
}

#[test]
fn groups_of_zeros_have_the_smallest_scale() {
    let mut row = [9; 64 + 2];
    CacheFormat::Fp8.encode(&[0.0; 64], &mut row);
    // 1e-4 / 448 lies between 2^-23 and 2^-22.
    assert_eq!((row[0], row[64], row[65]), (0, 127 - 22, 127 - 22));
    let mut row = [9; 32 + 4];
    CacheFormat::Fp4Group16.encode(&[0.0; 64], &mut row);
    assert_eq!((row[0], &row[32..]), (0, &[1; 4][..]));
    let mut row = [9; 32 + 2];
    CacheFormat::Fp4Group32.encode(&[0.0; 64], &mut row);
    assert_eq!((row[0], &row[32..]), (0, &[1; 2][..]));
}

#[test]
fn a_group_with_a_value_that_is_not_finite_decodes_to_nan() {
    for format in [CacheFormat::Fp8, CacheFormat::Fp4Group16, CacheFormat::Fp4Group32] {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = [1.0; 64];
            x[40] = bad;
            format.round_trip(&mut x);
            let group = if format == CacheFormat::Fp4Group16 { 32..48 } else { 32..64 };
            for (i, v) in x.iter().enumerate() {
                assert_eq!(v.is_nan(), group.contains(&i), "{format:?}, {bad}, value {i}: {v}");
            }
        }
    }
}

#[test]
fn a_nan_scale_is_named_by_its_position() {
    assert_eq!(check_e8m0(&[0, 127, 254]), Ok(()));
    let error = check_e8m0(&[0, 127, 255, 255]).unwrap_err();
    assert_eq!(error, DeviceError::Weight("E8M0 scale byte 2 is 255 (NaN), expected 0..=254".into()));
}

/// The code whose value is nearest to `x`; of two equally near ones, the even one.
fn nearest(x: f32, table: &[f32]) -> u8 {
    let distance = |code: usize| (f64::from(table[code]) - f64::from(x)).abs();
    let sign = if x.is_sign_negative() { table.len() / 2 } else { 0 };
    let codes = (sign..sign + table.len() / 2).filter(|&code| !table[code].is_nan());
    codes.min_by(|&a, &b| distance(a).total_cmp(&distance(b)).then((a % 2).cmp(&(b % 2)))).unwrap() as u8
}

proptest! {
    #[test]
    fn encoding_gives_the_nearest_code(x in -600.0f32..600.0, exponent in -20i32..1) {
        let x = x * 2f32.powi(exponent);
        prop_assert_eq!(encode_e4m3(x), nearest(x, &E4M3));
        prop_assert_eq!(encode_e2m1(x), nearest(x, &E2M1));
    }

    #[test]
    fn a_round_trip_is_exact_in_bf16_and_keeps_f32(
        x in proptest::collection::vec(-1e3f32..1e3, 64),
        exponent in -30i32..30,
    ) {
        let x: Vec<f32> = x.iter().map(|v| v * 2f32.powi(exponent)).collect();
        for format in [CacheFormat::Fp8, CacheFormat::Fp4Group16, CacheFormat::Fp4Group32] {
            let mut y = x.clone();
            format.round_trip(&mut y);
            prop_assert!(y.iter().all(|v| v.to_bits() & 0xffff == 0), "{:?}", format);
        }
        let mut row = vec![0; CacheFormat::F32.row_bytes(64)];
        CacheFormat::F32.encode(&x, &mut row);
        let mut y = vec![0.0; 64];
        CacheFormat::F32.decode(&row, &mut y);
        prop_assert_eq!(y, x);
    }
}
