//! Routing and experts.

use super::Tolerance;
use super::case::{Case, Check, Io, Memory, POOL, Plane};
use super::norms::upload;
use super::random::{Kind, Random, Stored};
use super::rig::check;
use crate::{Device, Result};

struct Route {
    logits: Vec<f32>,
    bias: Vec<f32>,
    top_k: usize,
    normalize: bool,
    tolerance: f32,
}

/// Factor of the routed weights.
const SCALE: f32 = 1.5;

impl Case for Route {
    type Fixed<D: Device> = D::Buf<f32>;

    fn name(&self) -> String {
        format!("route to {} of {} experts, normalized: {}", self.top_k, self.bias.len(), self.normalize)
    }

    fn planes(&self) -> Vec<Plane> {
        vec![
            Plane::view("logits", self.bias.len(), &self.logits),
            Plane::output("experts", self.top_k, Memory::Index, Check::Verified),
            Plane::output("weights", self.top_k, Memory::Dense, Check::Verified),
        ]
    }

    fn fix<D: Device>(&self, device: &mut D) -> Result<D::Buf<f32>> {
        upload(device, &self.bias)
    }

    fn enqueue<D: Device>(&self, device: &mut D, n: usize, io: &Io<D>, bias: &D::Buf<f32>) -> Result<()> {
        let args = crate::Route {
            logits: io.view("logits"),
            bias,
            top_k: self.top_k,
            normalize: self.normalize,
            scale: SCALE,
            experts: io.index("experts"),
            weights: io.dense("weights"),
        };
        device.route(n, args)
    }

    fn verify(&self, row: usize, outputs: &[Vec<u32>]) {
        let what = format!("{}: row {row}", self.name());
        let count = self.bias.len();
        let logits = &self.logits[row * count..][..count];
        let affinity: Vec<f64> = logits.iter().map(|&x| f64::from(x).exp().ln_1p().sqrt()).collect();
        let biased: Vec<f64> = affinity.iter().zip(&self.bias).map(|(a, &b)| a + f64::from(b)).collect();
        let (experts, weights) = (&outputs[0], &outputs[1]);
        assert!(experts.is_sorted_by(|a, b| a < b), "{what}: not ascending: {experts:?}");
        assert!(experts.iter().all(|&e| (e as usize) < count), "{what}: {experts:?}");
        let tolerance = f64::from(self.tolerance);
        let worst = experts.iter().map(|&e| biased[e as usize]).fold(f64::INFINITY, f64::min);
        for other in (0..count).filter(|&e| !experts.contains(&(e as u32))) {
            let slack = 2.0 * tolerance * affinity[other].max(1.0);
            assert!(biased[other] <= worst + slack, "{what}: expert {other} left out of {experts:?}");
            for &e in experts.iter().filter(|&&e| e as usize > other) {
                let same = |v: &[f32]| v[other].to_bits() == v[e as usize].to_bits();
                assert!(
                    !(same(logits) && same(&self.bias)),
                    "{what}: expert {e} chosen before its equal {other}"
                );
            }
        }
        let sum: f64 = experts.iter().map(|&e| affinity[e as usize]).sum();
        let divisor = if self.normalize { sum + 1e-20 } else { 1.0 };
        for (&e, &w) in experts.iter().zip(weights) {
            let expected = affinity[e as usize] / divisor * f64::from(SCALE);
            let got = f64::from(f32::from_bits(w));
            let near = (got - expected).abs() <= tolerance * expected;
            assert!(near, "{what}: expert {e} has weight {got}, expected {expected}");
        }
    }
}

/// [`Device::route`]: affinities, biased choice, ties, weights with and without normalization.
pub fn route<D: Device>(make: &impl Fn(usize) -> D, tolerance: Tolerance) {
    let mut random = Random::new(20);
    for (count, top_k, normalize) in [(16, 4, true), (24, 3, false), (384, 6, true), (8, 1, true)] {
        let mut logits = random.reals(POOL * count);
        logits[5 * count..6 * count].fill(0.25);
        logits[6 * count..7 * count].iter_mut().for_each(|v| *v *= 20.0);
        // Half of the experts share a bias, so that equal logits tie.
        let bias: Vec<f32> = (0..count).map(|e| if e % 2 == 0 { 0.5 } else { random.real() * 0.2 }).collect();
        check(make, &Route { logits, bias, top_k, normalize, tolerance: tolerance.float });
    }
}

struct Moe {
    x: Vec<f32>,
    experts: Vec<u32>,
    weights: Vec<f32>,
    top_k: usize,
    routed: Vec<[Stored; 3]>,
    shared: [Stored; 3],
    width: usize,
    inner: usize,
    limit: f32,
    tolerance: f32,
}

/// Experts and scratch memory on a device.
struct Held<D: Device> {
    routed: D::Experts,
    shared: [D::Linear; 3],
    scratch: D::Buf<f32>,
}

fn pack<D: Device>(device: &D, [w1, w3, w2]: &[Stored; 3]) -> Result<[D::Linear; 3]> {
    Ok([device.linear_weight(w1.data())?, device.linear_weight(w3.data())?, device.linear_weight(w2.data())?])
}

impl Case for Moe {
    type Fixed<D: Device> = Held<D>;

    fn name(&self) -> String {
        let Self { top_k, width, inner, limit, .. } = self;
        let kinds = (self.routed[0][0].kind, self.shared[0].kind);
        format!(
            "moe of {top_k} of {} experts {kinds:?}, {width} by {inner}, limit {limit}",
            self.routed.len()
        )
    }

    fn planes(&self) -> Vec<Plane> {
        vec![
            Plane::view("x", self.width, &self.x),
            Plane::index("experts", self.top_k, &self.experts),
            Plane::dense("weights", self.top_k, &self.weights),
            Plane::output("out", self.width, Memory::View, Check::WithinTypical(self.tolerance)),
        ]
    }

    fn fix<D: Device>(&self, device: &mut D) -> Result<Held<D>> {
        let packed: Result<Vec<_>> = self.routed.iter().map(|expert| pack(device, expert)).collect();
        let scratch = device.moe_scratch(POOL, self.top_k, self.width, self.inner);
        Ok(Held {
            routed: device.experts(packed?)?,
            shared: pack(device, &self.shared)?,
            scratch: device.alloc(scratch)?,
        })
    }

    fn enqueue<D: Device>(&self, device: &mut D, n: usize, io: &Io<D>, held: &Held<D>) -> Result<()> {
        let args = crate::Moe {
            x: io.view("x"),
            experts: io.index("experts"),
            weights: io.dense("weights"),
            top_k: self.top_k,
            routed: &held.routed,
            shared: &held.shared,
            limit: self.limit,
            scratch: &held.scratch,
            out: io.view("out"),
        };
        device.moe(n, args)
    }
}

/// [`Device::moe`] with FP4 and FP8 experts, with a limit that binds and without one.
pub fn moe<D: Device>(make: &impl Fn(usize) -> D, tolerance: Tolerance) {
    let mut random = Random::new(21);
    for (count, top_k, width, inner, limit, kind) in [
        (16, 4, 128, 96, 0.5, Kind::Fp4),
        (5, 3, 96, 64, 10.0, Kind::Fp8),
        (6, 2, 128, 64, 0.0, Kind::Fp4),
        (3, 1, 64, 32, 10.0, Kind::Fp4),
    ] {
        let mut expert = |kind| {
            [(inner, width), (inner, width), (width, inner)]
                .map(|(rows, cols)| Stored::new(&mut random, kind, rows, cols, 1))
        };
        let routed = (0..count).map(|_| expert(kind)).collect();
        let shared = expert(Kind::Fp8);
        // One expert is all rows' choice in the first half, so that its group is large.
        let experts = (0..POOL)
            .flat_map(|r| {
                let mut list = random.subset(count, top_k);
                if r < POOL / 2 {
                    list[0] = 0;
                }
                list
            })
            .collect();
        let case = Moe {
            x: random.reals(POOL * width),
            experts,
            weights: random.reals(POOL * top_k).iter().map(|w| w.abs()).collect(),
            top_k,
            routed,
            shared,
            width,
            inner,
            limit,
            tolerance: tolerance.linear,
        };
        check(make, &case);
    }
}
