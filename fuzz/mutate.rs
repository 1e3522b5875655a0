//! Seeds of the fuzz targets and cheap changes of them, for tests that need no fuzzer.

use std::fs;
use std::path::Path;

/// Names and bytes of a target's seeds.
pub fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let entries = fs::read_dir(folder).unwrap().map(|e| e.unwrap());
    entries.map(|e| (e.file_name().into_string().unwrap(), fs::read(e.path()).unwrap())).collect()
}

/// A small change: bytes flipped, cut out, doubled, digits grown, or the end cut off.
pub fn change(bytes: &mut Vec<u8>, mut random: u64) {
    let mut next = move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize
    };
    for _ in 0..1 + next() % 3 {
        if bytes.is_empty() {
            return;
        }
        let at = next() % bytes.len();
        let end = (at + 1 + next() % 16).min(bytes.len());
        match next() % 6 {
            0 => bytes[at] ^= 1 << (next() % 8),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            3 => {
                let digit =
                    (0..bytes.len()).map(|i| (at + i) % bytes.len()).find(|i| bytes[*i].is_ascii_digit());
                if let Some(digit) = digit {
                    bytes.splice(digit..digit, *b"999999999");
                }
            }
            4 => {
                let token = [&b"null"[..], b"-1", b"1e400", b"[]", b"{}", b"\"\"", b"18446744073709551615"]
                    [next() % 7];
                bytes.splice(at..end, token.iter().copied());
            }
            _ => bytes.truncate(at),
        }
    }
}
