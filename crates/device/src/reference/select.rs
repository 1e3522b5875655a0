//! Selection of compressed rows by index keys.

use std::collections::BTreeMap;

use super::Reference;
use super::launch::Launch;
use super::math::{dot, top_k};
use super::memory::{HostBuffer, Operation};
use crate::{Cache, Candidates, IndexSelect, NONE, Result};

/// What a selection does with the candidate blocks.
enum Blocks {
    Ignore,
    Keep { block: usize, top: usize, mask: HostBuffer<u32>, words: usize },
    Inside { block: usize, mask: HostBuffer<u32>, words: usize },
}

pub(super) fn index_select(launch: Launch, args: IndexSelect<'_, Reference>) -> Result<Operation> {
    let IndexSelect { scale, top_k: k, .. } = args;
    let dim = args.keys.width;
    let heads = args.gate.width;
    let keys = launch.cache("keys", args.keys, dim)?;
    let q = launch.input("q", args.q, heads * dim)?;
    let gate = launch.input("gate", args.gate, heads)?;
    let base = launch.dense("base", args.base, 1)?;
    let count = launch.dense("count", args.count, 1)?;
    let out = launch.dense("out", args.out, k)?;
    let blocks = blocks(launch, args.candidates)?;
    Ok(Box::new(move || {
        let (q, gate, base, count) = (q.load(launch.n), gate.load(launch.n), base.get(), count.get());
        let keys = decode_keys(launch, &keys, &base[..launch.n], &count[..launch.n])?;
        let mut out = out.get_mut();
        for r in 0..launch.n {
            let list = &mut out[r * k..][..k];
            list.fill(NONE);
            let count = if base[r] == NONE { 0 } else { count[r] as usize };
            let gate = &gate[r * heads..][..heads];
            let mut scores = vec![0.0; count];
            if let Some(keys) = keys.get(&base[r]) {
                for (score, key) in scores.iter_mut().zip(keys.chunks_exact(dim)) {
                    for (q, g) in q[r * heads * dim..].chunks_exact(dim).zip(gate) {
                        *score += dot(q, key).max(0.0) * (g * scale);
                    }
                }
            }
            let chosen = match &blocks {
                Blocks::Ignore => top_k(&scores, 0..count, k),
                Blocks::Keep { block, top, mask, words } => {
                    let kept = best_blocks(&scores, *block, *top);
                    let mut mask = mask.get_mut();
                    let mask = &mut mask[r * words..][..*words];
                    mask.fill(0);
                    for b in kept {
                        match mask.get_mut(b / 32) {
                            Some(word) => *word |= 1 << (b % 32),
                            None => return Err(launch.error("mask words", b / 32 + 1, words)),
                        }
                    }
                    top_k(&scores, 0..count, k)
                }
                Blocks::Inside { block, mask, words } => {
                    let mask = mask.get();
                    let mask = &mask[r * words..][..*words];
                    let kept = |b: usize| mask.get(b / 32).is_some_and(|word| word >> (b % 32) & 1 == 1);
                    top_k(&scores, (0..count).filter(|j| kept(j / block)), k)
                }
            };
            for (place, key) in list.iter_mut().zip(chosen) {
                *place = key as u32;
            }
        }
        Ok(())
    }))
}

fn blocks(launch: Launch, candidates: Candidates<'_, Reference>) -> Result<Blocks> {
    let sized = |block: usize, mask: &HostBuffer<u32>, words: usize| {
        if block == 0 {
            return Err(launch.error("block", "at least 1 key", block));
        }
        launch.dense("mask", mask, words)
    };
    Ok(match candidates {
        Candidates::None => Blocks::Ignore,
        Candidates::Write { block, top, mask, words } => {
            Blocks::Keep { block, top, mask: sized(block, mask, words)?, words }
        }
        Candidates::Read { block, mask, words } => {
            Blocks::Inside { block, mask: sized(block, mask, words)?, words }
        }
    })
}

/// The reachable keys of each slot, by the slot's first key row.
fn decode_keys(
    launch: Launch,
    cache: &Cache<Reference>,
    base: &[u32],
    count: &[u32],
) -> Result<BTreeMap<u32, Vec<f32>>> {
    let mut reach: BTreeMap<u32, u32> = BTreeMap::new();
    for (&base, &count) in base.iter().zip(count).filter(|(base, _)| **base != NONE) {
        let longest = reach.entry(base).or_default();
        *longest = count.max(*longest);
    }
    let bytes = cache.bytes.get();
    let mut slots = BTreeMap::new();
    for (base, count) in reach {
        let mut keys = vec![0.0; count as usize * cache.width];
        for (j, key) in keys.chunks_exact_mut(cache.width).enumerate() {
            cache.format.decode(launch.cache_row("keys", cache, &bytes, base as usize + j)?, key);
        }
        slots.insert(base, keys);
    }
    Ok(slots)
}

/// The `top` blocks by best score, the newest always among them.
fn best_blocks(scores: &[f32], block: usize, top: usize) -> Vec<usize> {
    let best = |scores: &[f32]| scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut blocks: Vec<f32> = scores.chunks(block).map(best).collect();
    if let Some(newest) = blocks.last_mut() {
        *newest = f32::INFINITY;
    }
    top_k(&blocks, (0..blocks.len()).filter(|&b| blocks[b] > f32::NEG_INFINITY), top)
}
