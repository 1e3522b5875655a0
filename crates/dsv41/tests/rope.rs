//! Rotary angles against the tables of the released sizes.

use std::path::Path;

use safetensors::SafeTensors;
use tokenfare_dsv41::config::Yarn;
use tokenfare_dsv41::model::Rope;

fn floats(file: &SafeTensors<'_>, name: &str) -> Vec<f32> {
    let view = file.tensor(name).expect("a golden tensor");
    view.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect()
}

/// Distance in representable values.
fn ulps(a: f32, b: f32) -> u32 {
    let ordered = |x: f32| {
        let bits = x.to_bits() as i32;
        if bits < 0 { i32::MIN.wrapping_sub(bits) } else { bits }
    };
    ordered(a).abs_diff(ordered(b))
}

#[test]
fn angles_are_within_an_ulp_of_the_trained_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden/golden_units.safetensors");
    let bytes = std::fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let yarn = Yarn { factor: 16.0, beta_fast: 32.0, beta_slow: 1.0, original: 65536 };
    let tables = [("plain", Rope::new(64, 10_000.0, None)), ("yarn", Rope::new(64, 160_000.0, Some(&yarn)))];
    for (name, rope) in tables {
        for position in [0usize, 1, 2, 127, 2999] {
            let row = rope.rows(std::iter::once(position));
            let mut expected = floats(&file, &format!("rope.{name}.{position}.cos"));
            expected.extend(floats(&file, &format!("rope.{name}.{position}.sin")));
            assert_eq!(row.len(), expected.len());
            for (i, (a, b)) in row.iter().zip(&expected).enumerate() {
                assert!(ulps(*a, *b) <= 1, "{name} at {position}, value {i}: {a}, expected {b}");
            }
        }
    }
}
