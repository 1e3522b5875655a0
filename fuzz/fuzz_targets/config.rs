//! The bytes of a `config.json`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokenfare_dsv41::config::parse;

fuzz_target!(|bytes: &[u8]| {
    let _ = parse(bytes);
});
