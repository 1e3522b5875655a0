//! Routing and the experts.

use super::Reference;
use super::launch::Launch;
use super::linear::{Linear, check_expert};
use super::math::{silu, softplus, top_k};
use super::memory::Operation;
use crate::{Moe, Result, Route};

pub(super) fn route(launch: Launch, args: Route<'_, Reference>) -> Result<Operation> {
    let Route { top_k: k, normalize, scale, .. } = args;
    let count = args.logits.width;
    if k > count {
        return Err(launch.error("top_k", format!("at most {count}"), k));
    }
    let logits = launch.input("logits", args.logits, count)?;
    let bias = launch.weight("bias", args.bias, count)?;
    let experts = launch.dense("experts", args.experts, k)?;
    let weights = launch.dense("weights", args.weights, k)?;
    Ok(Box::new(move || {
        let bias = bias.get();
        let (mut experts, mut weights) = (experts.get_mut(), weights.get_mut());
        for (r, logits) in logits.load(launch.n).chunks_exact(count).enumerate() {
            let affinity: Vec<f32> = logits.iter().map(|&x| softplus(x).sqrt()).collect();
            let biased: Vec<f32> = affinity.iter().zip(bias.iter()).map(|(a, b)| a + b).collect();
            let chosen = top_k(&biased, 0..count, k);
            let sum: f32 = chosen.iter().map(|&e| affinity[e]).sum();
            let divisor = if normalize { sum + 1e-20 } else { 1.0 };
            for (i, &e) in chosen.iter().enumerate() {
                experts[r * k + i] = e as u32;
                weights[r * k + i] = affinity[e] / divisor * scale;
            }
        }
        Ok(())
    }))
}

pub(super) fn moe(launch: Launch, args: Moe<'_, Reference>) -> Result<Operation> {
    let Moe { top_k: k, limit, .. } = args;
    let (width, inner) = args.routed.sizes();
    check_expert(launch, args.shared, width, args.shared[0].rows())?;
    let x = launch.input("x", args.x, width)?;
    let experts = launch.dense("experts", args.experts, k)?;
    let weights = launch.dense("weights", args.weights, k)?;
    let out = launch.output("out", args.out, width)?;
    let routed = args.routed.clone();
    let shared = args.shared.clone();
    Ok(Box::new(move || {
        let x = x.load(launch.n);
        let (experts, weights) = (experts.get(), weights.get());
        let chosen = &experts[..launch.n * k];
        let count = routed.0.len();
        if let Some(e) = chosen.iter().find(|&&e| e as usize >= count) {
            return Err(launch.error("experts", format!("experts below {count}"), e));
        }
        let mut sum = vec![0.0; x.len()];
        for (e, expert) in routed.0.iter().enumerate() {
            let places: Vec<usize> = (0..chosen.len()).filter(|&i| chosen[i] as usize == e).collect();
            let gathered: Vec<f32> =
                places.iter().flat_map(|&i| &x[i / k * width..][..width]).copied().collect();
            let factors: Vec<f32> = places.iter().map(|&i| weights[i]).collect();
            let y = forward(expert, &gathered, inner, limit, &factors);
            for (&i, y) in places.iter().zip(y.chunks_exact(width)) {
                add(&mut sum[i / k * width..][..width], y);
            }
        }
        let ones = vec![1.0; launch.n];
        add(&mut sum, &forward(&shared, &x, shared[0].rows(), limit, &ones));
        out.store(&sum);
        Ok(())
    }))
}

/// `w2(factor * silu(g) * u)` for each dense row of `x`.
fn forward(expert: &[Linear; 3], x: &[f32], inner: usize, limit: f32, factors: &[f32]) -> Vec<f32> {
    let [w1, w3, w2] = expert;
    let mut hidden = w1.apply(x);
    let up = w3.apply(x);
    for (r, &factor) in factors.iter().enumerate() {
        for (g, &u) in hidden[r * inner..][..inner].iter_mut().zip(&up[r * inner..]) {
            // Comparisons, not `min`, so that a NaN stays one.
            let gate = if limit > 0.0 && *g > limit { limit } else { *g };
            let up = if limit > 0.0 { u.clamp(-limit, limit) } else { u };
            *g = silu(gate) * up * factor;
        }
    }
    w2.apply(&hidden)
}

fn add(y: &mut [f32], x: &[f32]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += x;
    }
}
