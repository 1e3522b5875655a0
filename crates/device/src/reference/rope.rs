//! Rotation, cache rows and the pairing of compressed tokens.

use super::Reference;
use super::launch::Launch;
use super::math::{exp, rms_norm};
use super::memory::{HostBuffer, Operation};
use crate::{Buffer, CacheFormat, CacheStore, NONE, PairPool, Result, View};

/// Direction of a rotation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Forward,
    Inverse,
}

/// Rotates adjacent pairs of the last `angles.len()` values: `e' = e cos - o sin`, `o' = e sin + o cos`.
fn rotate(x: &mut [f32], angles: &[f32], turn: Turn) {
    let (cos, sin) = angles.split_at(angles.len() / 2);
    let start = x.len() - angles.len();
    for (pair, (&c, &s)) in x[start..].chunks_exact_mut(2).zip(cos.iter().zip(sin)) {
        let s = if turn == Turn::Inverse { -s } else { s };
        let (e, o) = (pair[0], pair[1]);
        pair[0] = e * c - o * s;
        pair[1] = e * s + o * c;
    }
}

/// Arguments of [`crate::Device::rope`].
pub(super) struct Rope<'a> {
    pub(super) x: View<'a, Reference>,
    pub(super) heads: usize,
    pub(super) angles: &'a HostBuffer<f32>,
    pub(super) rope_dims: usize,
    pub(super) turn: Turn,
    pub(super) round_trip: CacheFormat,
}

pub(super) fn rope(launch: Launch, args: Rope<'_>) -> Result<Operation> {
    let Rope { rope_dims, turn, round_trip, .. } = args;
    let dim = launch.per_head("x", args.x.width, args.heads)?;
    launch.rope_dims(rope_dims, dim)?;
    if round_trip != CacheFormat::F32 && !dim.is_multiple_of(32) {
        return Err(launch.error("x", "heads of a multiple of 32 values", dim));
    }
    let x = launch.output("x", args.x, args.x.width)?;
    let angles = launch.dense("angles", args.angles, rope_dims)?;
    Ok(Box::new(move || {
        let mut rows = x.load(launch.n);
        let angles = angles.get();
        for (r, row) in rows.chunks_exact_mut(x.width).enumerate() {
            for head in row.chunks_exact_mut(dim) {
                rotate(head, &angles[r * rope_dims..][..rope_dims], turn);
                round_trip.round_trip(head);
            }
        }
        x.store(&rows);
        Ok(())
    }))
}

pub(super) fn cache_store(launch: Launch, args: CacheStore<'_, Reference>) -> Result<Operation> {
    let rope_dims = args.rope_dims;
    let cache = launch.cache("cache", args.cache, args.x.width)?;
    launch.rope_dims(rope_dims, cache.width)?;
    let x = launch.input("x", args.x, cache.width)?;
    let norm = match args.norm {
        Some((weight, eps)) => Some((launch.weight("norm", weight, cache.width)?, eps)),
        None => None,
    };
    let angles = launch.dense("angles", args.angles, rope_dims)?;
    let index = launch.dense("index", args.index, 1)?;
    Ok(Box::new(move || {
        let size = cache.format.row_bytes(cache.width);
        let (angles, index) = (angles.get(), index.get());
        let mut bytes = cache.bytes.get_mut();
        for (r, row) in x.load(launch.n).chunks_exact_mut(cache.width).enumerate() {
            if index[r] == NONE {
                continue;
            }
            if let Some((weight, eps)) = &norm {
                rms_norm(row, &weight.get(), *eps);
            }
            rotate(row, &angles[r * rope_dims..][..rope_dims], Turn::Forward);
            let start = index[r] as usize * size;
            let Some(place) = bytes.get_mut(start..start + size) else {
                return Err(launch.error("index", format!("rows below {}", cache.rows()), index[r]));
            };
            cache.format.encode(row, place);
        }
        Ok(())
    }))
}

pub(super) fn pair_pool(launch: Launch, args: PairPool<'_, Reference>) -> Result<Operation> {
    let width = args.out.width;
    let kv = launch.input("kv", args.kv, width)?;
    let gate = launch.input("gate", args.gate, width)?;
    let carry = args.carry.clone();
    if !carry.len().is_multiple_of(2 * width) {
        return Err(launch.error("carry", format!("rows of {}", 2 * width), carry.len()));
    }
    let store = launch.dense("store", args.store, 1)?;
    let first = launch.dense("first", args.first, 1)?;
    let out = launch.output("out", args.out, width)?;
    Ok(Box::new(move || {
        let (kv, gate) = (kv.load(launch.n), gate.load(launch.n));
        let rows = || kv.chunks_exact(width).zip(gate.chunks_exact(width));
        let mut carry = carry.get_mut();
        let held = carry.len() / (2 * width);
        for ((kv, gate), &to) in rows().zip(store.get().iter()).filter(|(_, to)| **to != NONE) {
            let Some(place) = carry.chunks_exact_mut(2 * width).nth(to as usize) else {
                return Err(launch.error("store", format!("rows below {held}"), to));
            };
            place[..width].copy_from_slice(kv);
            place[width..].copy_from_slice(gate);
        }
        let mut pooled = vec![0.0; launch.n * width];
        for ((out, (kv, gate)), &from) in pooled.chunks_exact_mut(width).zip(rows()).zip(first.get().iter()) {
            if from == NONE {
                continue;
            }
            let Some(first) = carry.chunks_exact(2 * width).nth(from as usize) else {
                return Err(launch.error("first", format!("rows below {held}"), from));
            };
            for d in 0..width {
                let max = first[width + d].max(gate[d]);
                let (a, b) = (exp(first[width + d] - max), exp(gate[d] - max));
                out[d] = first[d] * (a / (a + b)) + kv[d] * (b / (a + b));
            }
        }
        out.store(&pooled);
        Ok(())
    }))
}
