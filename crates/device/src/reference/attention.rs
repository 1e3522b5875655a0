//! Attention over the window and the selected compressed rows.

use super::Reference;
use super::launch::Launch;
use super::math::{add_scaled, dot, exp};
use super::memory::{HostBuffer, Operation};
use crate::{Attention, Cache, NONE, Result};

/// [`crate::Selected`] with its own handles.
struct Compressed {
    cache: Cache<Reference>,
    base: HostBuffer<u32>,
    list: HostBuffer<u32>,
    top_k: usize,
}

pub(super) fn attention(launch: Launch, args: Attention<'_, Reference>) -> Result<Operation> {
    let Attention { heads, scale, ring, .. } = args;
    let dim = args.window.width;
    let window = launch.cache("window", args.window, dim)?;
    if heads == 0 || ring == 0 {
        return Err(launch.error("heads, ring", "at least 1 of each", format!("{heads}, {ring}")));
    }
    let q = launch.input("q", args.q, heads * dim)?;
    let sink = launch.weight("sink", args.sink, heads)?;
    let base = launch.dense("base", args.base, 1)?;
    let lo = launch.dense("lo", args.lo, 1)?;
    let hi = launch.dense("hi", args.hi, 1)?;
    let selected = match args.selected {
        None => None,
        Some(selected) => Some(Compressed {
            cache: launch.cache("selected", selected.cache, dim)?,
            base: launch.dense("selected base", selected.base, 1)?,
            list: launch.dense("selected list", selected.list, selected.top_k)?,
            top_k: selected.top_k,
        }),
    };
    let out = launch.output("out", args.out, heads * dim)?;
    Ok(Box::new(move || {
        let q = q.load(launch.n);
        let (sink, base, lo, hi) = (sink.get(), base.get(), lo.get(), hi.get());
        let mut rows = vec![0.0; launch.n * heads * dim];
        for r in (0..launch.n).filter(|&r| base[r] != NONE) {
            let mut keys = Vec::new();
            let places = (lo[r]..hi[r]).map(|p| base[r] as usize + p as usize % ring);
            push_rows(launch, &window, places, &mut keys)?;
            if let Some(selected) = &selected {
                let (base, list) = (selected.base.get()[r], selected.list.get());
                let list = &list[r * selected.top_k..][..selected.top_k];
                let places = list.iter().filter(|&&j| j != NONE).map(|&j| base as usize + j as usize);
                push_rows(launch, &selected.cache, places, &mut keys)?;
            }
            let q = q[r * heads * dim..].chunks_exact(dim);
            let o = rows[r * heads * dim..].chunks_exact_mut(dim);
            for ((q, o), &sink) in q.zip(o).zip(sink.iter()) {
                attend(q, &keys, scale, sink, o);
            }
        }
        out.store(&rows);
        Ok(())
    }))
}

/// Appends the decoded cache rows.
fn push_rows(
    launch: Launch,
    cache: &Cache<Reference>,
    places: impl Iterator<Item = usize>,
    keys: &mut Vec<f32>,
) -> Result<()> {
    let bytes = cache.bytes.get();
    for place in places {
        let start = keys.len();
        keys.resize(start + cache.width, 0.0);
        let row = launch.cache_row("cache row", cache, &bytes, place)?;
        cache.format.decode(row, &mut keys[start..]);
    }
    Ok(())
}

/// Softmax attention of one head; the sink takes part in the denominator only.
fn attend(q: &[f32], keys: &[f32], scale: f32, sink: f32, out: &mut [f32]) {
    let scores: Vec<f32> = keys.chunks_exact(q.len()).map(|key| dot(q, key) * scale).collect();
    if scores.is_empty() {
        return;
    }
    let max = scores.iter().copied().fold(sink, f32::max);
    let mut total = 0.0;
    for (score, key) in scores.iter().zip(keys.chunks_exact(q.len())) {
        let weight = exp(score - max);
        total += weight;
        add_scaled(out, weight, key);
    }
    total += exp(sink - max);
    out.iter_mut().for_each(|v| *v /= total);
}
