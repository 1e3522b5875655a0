//! The Engram gate.

use super::Tolerance;
use super::case::{Case, Check, Io, POOL, Plane};
use super::norms::upload;
use super::random::Random;
use super::rig::check;
use crate::{Device, Result};

struct EngramGate {
    kv: Vec<f32>,
    qk: Vec<f32>,
    h: Vec<f32>,
    streams: usize,
    width: usize,
    eps: f32,
    tolerance: f32,
}

impl Case for EngramGate {
    type Fixed<D: Device> = D::Buf<f32>;

    fn name(&self) -> String {
        format!("engram_gate of {} streams of {}", self.streams, self.width)
    }

    fn planes(&self) -> Vec<Plane> {
        let total = self.streams * self.width;
        vec![
            Plane::view("kv", total + self.width, &self.kv),
            Plane::updated("h", total, &self.h, Check::Within(self.tolerance)),
        ]
    }

    fn fix<D: Device>(&self, device: &mut D) -> Result<D::Buf<f32>> {
        upload(device, &self.qk)
    }

    fn enqueue<D: Device>(&self, device: &mut D, n: usize, io: &Io<D>, qk: &D::Buf<f32>) -> Result<()> {
        device.engram_gate(n, io.view("kv"), qk, self.eps, io.view("h"))
    }
}

/// [`Device::engram_gate`], with a row whose keys are zero.
pub fn engram_gate<D: Device>(make: &impl Fn(usize) -> D, tolerance: Tolerance) {
    let mut random = Random::new(16);
    for (streams, width, eps) in [(4, 128, 1e-20), (4, 96, 0.25)] {
        let mut kv = random.reals(POOL * (streams + 1) * width);
        kv[5 * (streams + 1) * width..][..streams * width].fill(0.0);
        let case = EngramGate {
            kv,
            qk: random.reals(streams * width),
            h: random.reals(POOL * streams * width),
            streams,
            width,
            eps,
            tolerance: tolerance.float,
        };
        check(make, &case);
    }
}
