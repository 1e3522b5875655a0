//! Engram hashes against the constants and rows of the released tables.

#![allow(clippy::unwrap_used)]

mod release;

use std::path::Path;

use serde_json::Value;
use tokenfare_dsv41::config::EngramConfig;
use tokenfare_dsv41::engram::primes::bucket_primes;
use tokenfare_dsv41::engram::{EngramHash, MissingPad, multipliers};
use tokenfare_dsv41::tokenizer::token_map;

/// Compressed ids of the tokens in the golden prompt and of the padding token.
const KNOWN: [(usize, u32); 6] =
    [(0, 0), (2, 2), (128803, 98615), (19923, 15844), (128804, 98616), (128822, 98634)];

fn golden(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden").join(name);
    let bytes = std::fs::read(path).expect("a golden file");
    serde_json::from_slice(&bytes).expect("a JSON file")
}

fn released() -> EngramConfig {
    EngramConfig {
        layers: vec![1, 14],
        rows: vec![384_006_168, 384_016_682],
        ngram: 4,
        buckets: 16_000_000,
        heads: 8,
        width: 256,
        pad: 2,
        compressed_vocab: 99_092,
    }
}

#[test]
fn multipliers_are_those_of_the_released_tables() {
    let expected = &golden("golden.json")["real_engram"]["multipliers"];
    for (number, layer) in [1, 14].into_iter().enumerate() {
        let expected: Vec<u64> = serde_json::from_value(expected[number].clone()).unwrap();
        assert_eq!(multipliers(layer, 4, 99_092), expected);
    }
}

/// Hashes the golden prompt by `map` and compares every row.
fn check_rows(map: Vec<u32>) {
    let golden = golden("real_engram_hash.json");
    let prompt: Vec<u32> = serde_json::from_value(golden["prompt_ids"].clone()).unwrap();
    let config = released();
    let primes = bucket_primes(2, config.ngram, config.heads, config.buckets);
    let hash = EngramHash::new(&config, primes, map).unwrap();
    for position in 0..prompt.len() {
        for layer in 0..2 {
            let expected: Vec<u64> = serde_json::from_value(golden["rows"][position][layer].clone()).unwrap();
            let mut rows = Vec::new();
            hash.rows(layer, &prompt[..=position], &mut rows);
            assert_eq!(rows, expected, "position {position}, layer {layer}");
            assert!(rows.iter().all(|row| *row < config.rows[layer]));
        }
    }
}

#[test]
fn rows_are_those_of_the_released_tables() {
    let mut map = vec![u32::MAX; 129_280];
    for (token, compressed) in KNOWN {
        map[token] = compressed;
    }
    check_rows(map);
}

#[test]
fn rows_are_those_of_the_released_tables_with_the_release_tokenizer() {
    let Some(real) = release::tokenizer() else { return };
    let map = token_map(&real).unwrap();
    assert_eq!(map.size, 99_092);
    for (token, compressed) in KNOWN {
        assert_eq!(map.map[token], compressed);
    }
    check_rows(map.map);
}

#[test]
fn a_token_map_without_the_padding_token_is_refused() {
    let config = released();
    let primes = bucket_primes(2, config.ngram, config.heads, config.buckets);
    assert_eq!(EngramHash::new(&config, primes, vec![0, 1]), Err(MissingPad { pad: 2, tokens: 2 }));
}
