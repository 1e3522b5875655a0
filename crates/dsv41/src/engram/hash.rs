//! N-gram hashing: which table rows a token's Engram reads.

use super::seed::Pcg64;
use crate::config::EngramConfig;

/// The hash of one Engram layer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LayerHash {
    /// One odd multiplier a token of the n-gram, the newest first.
    multipliers: Vec<u64>,
    /// `[order][head]` bucket counts, shortest n-gram first.
    primes: Vec<Vec<u64>>,
}

/// Hashes of every Engram layer, over compressed token ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngramHash {
    layers: Vec<LayerHash>,
    token_map: Vec<u32>,
    blank: u64,
}

/// The odd hash multipliers of `layer`: `2v + 1` for `ngram` draws `v` below `(2^63 - 1) / compressed_vocab / 2` from
/// numpy's default generator, seeded by `10007 * layer`.
pub fn multipliers(layer: usize, ngram: usize, compressed_vocab: u64) -> Vec<u64> {
    let bound = (i64::MAX as u64 / compressed_vocab.max(1) / 2).max(1);
    let mut rng = Pcg64::new((10007 * layer) as u32);
    (0..ngram).map(|_| 2 * rng.below(bound) + 1).collect()
}

impl EngramHash {
    /// `primes` is `[layer][order][head]`, `token_map` the compressed id of each token id.
    ///
    /// # Errors
    /// A token map without the padding token.
    pub fn new(
        config: &EngramConfig,
        primes: Vec<Vec<Vec<u64>>>,
        token_map: Vec<u32>,
    ) -> Result<Self, MissingPad> {
        let blank = *token_map
            .get(config.pad as usize)
            .ok_or(MissingPad { pad: config.pad, tokens: token_map.len() })?;
        let layers = config
            .layers
            .iter()
            .zip(primes)
            .map(|(&layer, primes)| LayerHash {
                multipliers: multipliers(layer, config.ngram, config.compressed_vocab),
                primes,
            })
            .collect();
        Ok(Self { layers, token_map, blank: blank.into() })
    }

    /// Appends the table rows that the newest token of `history` reads in the `layer`-th Engram layer: shortest n-gram
    /// first, then head by head. Positions before the first token hash as the padding token.
    pub fn rows(&self, layer: usize, history: &[u32], out: &mut Vec<u64>) {
        let LayerHash { multipliers, primes } = &self.layers[layer];
        let mut newest_first = history.iter().rev().map(|&t| u64::from(self.token_map[t as usize]));
        let mut key = 0u64;
        let mut offset = 0;
        for (back, multiplier) in multipliers.iter().enumerate() {
            key ^= newest_first.next().unwrap_or(self.blank).wrapping_mul(*multiplier);
            if back == 0 {
                continue;
            }
            for &prime in &primes[back - 1] {
                out.push(key % prime + offset);
                offset += prime;
            }
        }
    }

    /// Number of token ids it knows.
    pub fn tokens(&self) -> usize {
        self.token_map.len()
    }
}

/// The token map is too short to hold the padding token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("token map: {tokens} tokens, expected more than engram_pad_token_id {pad}")]
pub struct MissingPad {
    /// `engram_pad_token_id`.
    pub pad: u32,
    /// Entries of the map.
    pub tokens: usize,
}
