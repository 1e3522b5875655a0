//! The gate that adds an Engram row to the streams.

use super::Reference;
use super::launch::Launch;
use super::math::{add_scaled, dot, inverse_rms, sigmoid};
use super::memory::{HostBuffer, Operation};
use crate::{Result, View};

pub(super) fn engram_gate(
    launch: Launch,
    kv: View<'_, Reference>,
    qk: &HostBuffer<f32>,
    eps: f32,
    h: View<'_, Reference>,
) -> Result<Operation> {
    let total = h.width;
    if kv.width <= total || !total.is_multiple_of(kv.width - total) {
        return Err(launch.error("kv", format!("the streams of {total} values and one more"), kv.width));
    }
    let width = kv.width - total;
    let kv = launch.input("kv", kv, total + width)?;
    let qk = launch.weight("qk", qk, total)?;
    let h = launch.output("h", h, total)?;
    Ok(Box::new(move || {
        let qk = qk.get();
        let mut rows = h.load(launch.n);
        for (row, kv) in rows.chunks_exact_mut(total).zip(kv.load(launch.n).chunks_exact(kv.width)) {
            let (keys, value) = kv.split_at(total);
            let streams =
                row.chunks_exact_mut(width).zip(keys.chunks_exact(width)).zip(qk.chunks_exact(width));
            for ((h, key), qk) in streams {
                let weighted: Vec<f32> = h.iter().zip(qk).map(|(h, qk)| h * qk).collect();
                let norm = inverse_rms(h, eps) * inverse_rms(key, eps);
                let similarity = dot(&weighted, key) * norm / (width as f32).sqrt();
                let size = similarity.abs();
                let root = if size < 1e-6 { f32::sqrt(1e-6) } else { size.sqrt() };
                let gate = sigmoid(root.copysign(similarity));
                add_scaled(h, gate, value);
            }
        }
        h.store(&rows);
        Ok(())
    }))
}
