//! The first bytes of a safetensors file, of their own length and of the greatest.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokenfare_dsv41::checkpoint::parse_header;

fuzz_target!(|bytes: &[u8]| {
    let _ = parse_header(bytes, bytes.len() as u64);
    let _ = parse_header(bytes, u64::MAX);
});
