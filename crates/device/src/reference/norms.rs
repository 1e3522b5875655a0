//! RMSNorm, sums of rows and the hyper-connections.

use super::Reference;
use super::launch::Launch;
use super::linear::Linear;
use super::math::{add_scaled, exp, inverse_rms, rms_norm as norm_row, sigmoid};
use super::memory::{HostBuffer, Operation};
use crate::{Result, View};

pub(super) fn rms_norm(
    launch: Launch,
    x: View<'_, Reference>,
    weight: &HostBuffer<f32>,
    eps: f32,
    y: View<'_, Reference>,
) -> Result<Operation> {
    let x = launch.input("x", x, y.width)?;
    let weight = launch.weight("weight", weight, y.width)?;
    let y = launch.output("y", y, y.width)?;
    Ok(Box::new(move || {
        let mut rows = x.load(launch.n);
        let weight = weight.get();
        for row in rows.chunks_exact_mut(y.width) {
            norm_row(row, &weight, eps);
        }
        y.store(&rows);
        Ok(())
    }))
}

pub(super) fn add(launch: Launch, x: View<'_, Reference>, y: View<'_, Reference>) -> Result<Operation> {
    let x = launch.input("x", x, y.width)?;
    let y = launch.output("y", y, y.width)?;
    Ok(Box::new(move || {
        let mut sum = y.load(launch.n);
        for (y, x) in sum.iter_mut().zip(x.load(launch.n)) {
            *y += x;
        }
        y.store(&sum);
        Ok(())
    }))
}

/// Arguments of [`crate::Device::hc_mix`].
pub(super) struct HcMix<'a> {
    pub(super) h: View<'a, Reference>,
    pub(super) mix: &'a Linear,
    pub(super) base: &'a HostBuffer<f32>,
    pub(super) scale: &'a HostBuffer<f32>,
    pub(super) iters: usize,
    pub(super) eps: f32,
    pub(super) norm_eps: f32,
    pub(super) out: View<'a, Reference>,
}

pub(super) fn hc_mix(launch: Launch, args: HcMix<'_>) -> Result<Operation> {
    let HcMix { iters, eps, norm_eps, .. } = args;
    let mixes = args.mix.rows();
    let Some(streams) = (1..=mixes).find(|s| 2 * s + s * s == mixes) else {
        return Err(launch.error("mix", "2s + s*s rows of s streams", mixes));
    };
    let h = launch.input("h", args.h, args.mix.inputs())?;
    launch.per_head("h", h.width, streams)?;
    let base = launch.weight("base", args.base, mixes)?;
    let scale = launch.weight("scale", args.scale, 3)?;
    let out = launch.output("out", args.out, mixes)?;
    let mix = args.mix.clone();
    Ok(Box::new(move || {
        let rows = h.load(launch.n);
        let mut mixed = mix.apply(&rows);
        let (base, scale) = (base.get(), scale.get());
        for (m, h) in mixed.chunks_exact_mut(mixes).zip(rows.chunks_exact(h.width)) {
            let inverse = inverse_rms(h, norm_eps);
            for (i, (m, base)) in m.iter_mut().zip(base.iter()).enumerate() {
                *m = *m * inverse * scale[(i / streams).min(2)] + base;
            }
            let (pre, rest) = m.split_at_mut(streams);
            let (post, comb) = rest.split_at_mut(streams);
            pre.iter_mut().for_each(|v| *v = sigmoid(*v) + eps);
            post.iter_mut().for_each(|v| *v = 2.0 * sigmoid(*v));
            sinkhorn(comb, streams, iters, eps);
        }
        out.store(&mixed);
        Ok(())
    }))
}

/// Softmax of each row plus `eps`, a pass over the columns, then `iters - 1` passes over rows and columns.
fn sinkhorn(c: &mut [f32], s: usize, iters: usize, eps: f32) {
    for row in c.chunks_exact_mut(s) {
        let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        row.iter_mut().for_each(|v| *v = exp(*v - max));
        let sum: f32 = row.iter().sum();
        row.iter_mut().for_each(|v| *v = *v / sum + eps);
    }
    divide_columns(c, s, eps);
    for _ in 1..iters {
        for row in c.chunks_exact_mut(s) {
            let sum = row.iter().sum::<f32>() + eps;
            row.iter_mut().for_each(|v| *v /= sum);
        }
        divide_columns(c, s, eps);
    }
}

fn divide_columns(c: &mut [f32], s: usize, eps: f32) {
    for j in 0..s {
        let sum = c.iter().skip(j).step_by(s).sum::<f32>() + eps;
        c.iter_mut().skip(j).step_by(s).for_each(|v| *v /= sum);
    }
}

pub(super) fn hc_collapse(
    launch: Launch,
    h: View<'_, Reference>,
    pre: View<'_, Reference>,
    norm: Option<(&HostBuffer<f32>, f32)>,
    x: View<'_, Reference>,
) -> Result<Operation> {
    let width = x.width;
    let h = launch.input("h", h, pre.width * width)?;
    let pre = launch.input("pre", pre, pre.width)?;
    let norm = match norm {
        Some((weight, eps)) => Some((launch.weight("norm", weight, width)?, eps)),
        None => None,
    };
    let x = launch.output("x", x, width)?;
    Ok(Box::new(move || {
        let mut rows = vec![0.0; launch.n * width];
        let (h_rows, pre_rows) = (h.load(launch.n), pre.load(launch.n));
        for (r, row) in rows.chunks_exact_mut(width).enumerate() {
            let h = &h_rows[r * h.width..][..h.width];
            let pre = &pre_rows[r * pre.width..][..pre.width];
            for (stream, &p) in h.chunks_exact(width).zip(pre) {
                add_scaled(row, p, stream);
            }
            if let Some((weight, eps)) = &norm {
                norm_row(row, &weight.get(), *eps);
            }
        }
        x.store(&rows);
        Ok(())
    }))
}

pub(super) fn hc_expand(
    launch: Launch,
    b: View<'_, Reference>,
    post: View<'_, Reference>,
    comb: View<'_, Reference>,
    h: View<'_, Reference>,
) -> Result<Operation> {
    let (width, streams) = (b.width, post.width);
    let b = launch.input("b", b, width)?;
    let post = launch.input("post", post, streams)?;
    let comb = launch.input("comb", comb, streams * streams)?;
    let h = launch.output("h", h, streams * width)?;
    Ok(Box::new(move || {
        let (b, post, comb, old) =
            (b.load(launch.n), post.load(launch.n), comb.load(launch.n), h.load(launch.n));
        let mut new = vec![0.0; old.len()];
        for r in 0..launch.n {
            let old = &old[r * h.width..][..h.width];
            for (j, stream) in new[r * h.width..][..h.width].chunks_exact_mut(width).enumerate() {
                add_scaled(stream, post[r * streams + j], &b[r * width..][..width]);
                for (i, old) in old.chunks_exact(width).enumerate() {
                    add_scaled(stream, comb[(r * streams + i) * streams + j], old);
                }
            }
        }
        h.store(&new);
        Ok(())
    }))
}

pub(super) fn hc_mean(launch: Launch, h: View<'_, Reference>, x: View<'_, Reference>) -> Result<Operation> {
    let width = x.width;
    let streams = launch.per_head("h", h.width, width)?;
    let h = launch.input("h", h, h.width)?;
    let x = launch.output("x", x, width)?;
    Ok(Box::new(move || {
        let mut rows = vec![0.0; launch.n * width];
        for (row, h) in rows.chunks_exact_mut(width).zip(h.load(launch.n).chunks_exact(h.width)) {
            for stream in h.chunks_exact(width) {
                add_scaled(row, 1.0, stream);
            }
            row.iter_mut().for_each(|v| *v /= streams as f32);
        }
        x.store(&rows);
        Ok(())
    }))
}
