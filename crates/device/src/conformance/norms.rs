//! RMSNorm, sums of rows and the hyper-connections.

use super::Tolerance;
use super::case::{Case, Check, Io, Memory, POOL, Plane};
use super::random::{Kind, Random, Stored};
use super::rig::check;
use crate::{Device, Result};

/// Streams of the hyper-connections.
const STREAMS: usize = 4;

/// A device buffer that holds `values`.
pub(super) fn upload<D: Device>(device: &mut D, values: &[f32]) -> Result<D::Buf<f32>> {
    let buf = device.alloc(values.len())?;
    device.write(&buf, 0, values)?;
    Ok(buf)
}

/// Whether an operation writes over its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Apart,
    InPlace,
}

struct RmsNorm {
    x: Vec<f32>,
    weight: Vec<f32>,
    eps: f32,
    target: Target,
    check: Check,
}

impl Case for RmsNorm {
    type Fixed<D: Device> = D::Buf<f32>;

    fn name(&self) -> String {
        format!("rms_norm of {}, {:?}", self.weight.len(), self.target)
    }

    fn planes(&self) -> Vec<Plane> {
        let width = self.weight.len();
        match self.target {
            Target::InPlace => vec![Plane::updated("x", width, &self.x, self.check)],
            Target::Apart => {
                vec![Plane::view("x", width, &self.x), Plane::output("y", width, Memory::View, self.check)]
            }
        }
    }

    fn fix<D: Device>(&self, device: &mut D) -> Result<D::Buf<f32>> {
        upload(device, &self.weight)
    }

    fn enqueue<D: Device>(&self, device: &mut D, n: usize, io: &Io<D>, weight: &D::Buf<f32>) -> Result<()> {
        let y = if self.target == Target::InPlace { "x" } else { "y" };
        device.rms_norm(n, io.view("x"), weight, self.eps, io.view(y))
    }
}

/// [`Device::rms_norm`], apart and in place, with a row of zeros.
pub fn rms_norm<D: Device>(make: &impl Fn(usize) -> D, tolerance: Tolerance) {
    let mut random = Random::new(4);
    let check_y = Check::Within(tolerance.float);
    for (width, eps, target) in
        [(384, 1e-20, Target::Apart), (100, 0.25, Target::Apart), (128, 1e-20, Target::InPlace)]
    {
        let mut x = random.reals(POOL * width);
        x[5 * width..6 * width].fill(0.0);
        let weight = random.reals(width);
        check(make, &RmsNorm { x, weight, eps, target, check: check_y });
    }
}

struct Add {
    x: Vec<f32>,
    y: Vec<f32>,
    width: usize,
}

impl Case for Add {
    type Fixed<D: Device> = ();

    fn name(&self) -> String {
        format!("add of {}", self.width)
    }

    fn planes(&self) -> Vec<Plane> {
        vec![Plane::view("x", self.width, &self.x), Plane::updated("y", self.width, &self.y, Check::Exact)]
    }

    fn fix<D: Device>(&self, _device: &mut D) -> Result<()> {
        Ok(())
    }

    fn enqueue<D: Device>(&self, device: &mut D, n: usize, io: &Io<D>, (): &()) -> Result<()> {
        device.add(n, io.view("x"), io.view("y"))
    }
}

/// [`Device::add`], exact bit for bit.
pub fn add<D: Device>(make: &impl Fn(usize) -> D, _tolerance: Tolerance) {
    let mut random = Random::new(5);
    for width in [384, 33] {
        check(make, &Add { x: random.reals(POOL * width), y: random.reals(POOL * width), width });
    }
}

struct HcMix {
    h: Vec<f32>,
    mix: Stored,
    base: Vec<f32>,
    scale: Vec<f32>,
    iters: usize,
    eps: f32,
    norm_eps: f32,
    tolerance: f32,
}

impl Case for HcMix {
    type Fixed<D: Device> = (D::Linear, D::Buf<f32>, D::Buf<f32>);

    fn name(&self) -> String {
        format!("hc_mix of {} values, {} passes", self.mix.cols, self.iters)
    }

    fn planes(&self) -> Vec<Plane> {
        vec![
            Plane::view("h", self.mix.cols, &self.h),
            Plane::output("out", self.mix.rows, Memory::View, Check::Within(self.tolerance)),
        ]
    }

    fn fix<D: Device>(&self, device: &mut D) -> Result<Self::Fixed<D>> {
        Ok((
            device.linear_weight(self.mix.data())?,
            upload(device, &self.base)?,
            upload(device, &self.scale)?,
        ))
    }

    fn enqueue<D: Device>(
        &self,
        device: &mut D,
        n: usize,
        io: &Io<D>,
        (mix, base, scale): &Self::Fixed<D>,
    ) -> Result<()> {
        let (h, out) = (io.view("h"), io.view("out"));
        device.hc_mix(n, h, mix, base, scale, self.iters, self.eps, self.norm_eps, out)
    }
}

/// [`Device::hc_mix`]: the model's 20 passes, and few with epsilons that tell.
pub fn hc_mix<D: Device>(make: &impl Fn(usize) -> D, tolerance: Tolerance) {
    let mut random = Random::new(6);
    let mixes = 2 * STREAMS + STREAMS * STREAMS;
    for (width, iters, eps, norm_eps) in [(96, 20, 1e-6, 1e-20), (128, 1, 0.01, 0.25), (96, 2, 0.01, 1e-6)] {
        let mix = Stored::new(&mut random, Kind::F32, mixes, STREAMS * width, 1);
        let (base, scale) = (random.reals(mixes), vec![0.7, 1.1, 0.4]);
        let h = random.reals(POOL * STREAMS * width);
        check(make, &HcMix { h, mix, base, scale, iters, eps, norm_eps, tolerance: tolerance.float });
    }
}

struct HcCollapse {
    h: Vec<f32>,
    pre: Vec<f32>,
    width: usize,
    norm: Option<(Vec<f32>, f32)>,
    tolerance: f32,
}

impl Case for HcCollapse {
    type Fixed<D: Device> = Option<D::Buf<f32>>;

    fn name(&self) -> String {
        format!("hc_collapse to {}, norm: {:?}", self.width, self.norm.as_ref().map(|(_, eps)| eps))
    }

    fn planes(&self) -> Vec<Plane> {
        vec![
            Plane::view("h", STREAMS * self.width, &self.h),
            Plane::view("pre", STREAMS, &self.pre),
            Plane::output("x", self.width, Memory::View, Check::Within(self.tolerance)),
        ]
    }

    fn fix<D: Device>(&self, device: &mut D) -> Result<Self::Fixed<D>> {
        self.norm.as_ref().map(|(weight, _)| upload(device, weight)).transpose()
    }

    fn enqueue<D: Device>(&self, device: &mut D, n: usize, io: &Io<D>, norm: &Self::Fixed<D>) -> Result<()> {
        let norm = norm.as_ref().zip(self.norm.as_ref()).map(|(weight, (_, eps))| (weight, *eps));
        device.hc_collapse(n, io.view("h"), io.view("pre"), norm, io.view("x"))
    }
}

/// [`Device::hc_collapse`], with and without the norm.
pub fn hc_collapse<D: Device>(make: &impl Fn(usize) -> D, tolerance: Tolerance) {
    let mut random = Random::new(7);
    for (width, eps) in [(384, Some(1e-20)), (96, Some(0.25)), (96, None)] {
        let norm = eps.map(|eps| (random.reals(width), eps));
        let (h, pre) = (random.reals(POOL * STREAMS * width), random.reals(POOL * STREAMS));
        check(make, &HcCollapse { h, pre, width, norm, tolerance: tolerance.float });
    }
}

struct HcExpand {
    b: Vec<f32>,
    post: Vec<f32>,
    comb: Vec<f32>,
    h: Vec<f32>,
    width: usize,
    tolerance: f32,
}

impl Case for HcExpand {
    type Fixed<D: Device> = ();

    fn name(&self) -> String {
        format!("hc_expand of {}", self.width)
    }

    fn planes(&self) -> Vec<Plane> {
        vec![
            Plane::view("b", self.width, &self.b),
            Plane::view("post", STREAMS, &self.post),
            Plane::view("comb", STREAMS * STREAMS, &self.comb),
            Plane::updated("h", STREAMS * self.width, &self.h, Check::Within(self.tolerance)),
        ]
    }

    fn fix<D: Device>(&self, _device: &mut D) -> Result<()> {
        Ok(())
    }

    fn enqueue<D: Device>(&self, device: &mut D, n: usize, io: &Io<D>, (): &()) -> Result<()> {
        device.hc_expand(n, io.view("b"), io.view("post"), io.view("comb"), io.view("h"))
    }
}

/// [`Device::hc_expand`].
pub fn hc_expand<D: Device>(make: &impl Fn(usize) -> D, tolerance: Tolerance) {
    let mut random = Random::new(8);
    for width in [384, 100] {
        let case = HcExpand {
            b: random.reals(POOL * width),
            post: random.reals(POOL * STREAMS),
            comb: random.reals(POOL * STREAMS * STREAMS),
            h: random.reals(POOL * STREAMS * width),
            width,
            tolerance: tolerance.float,
        };
        check(make, &case);
    }
}

struct HcMean {
    h: Vec<f32>,
    width: usize,
    tolerance: f32,
}

impl Case for HcMean {
    type Fixed<D: Device> = ();

    fn name(&self) -> String {
        format!("hc_mean to {}", self.width)
    }

    fn planes(&self) -> Vec<Plane> {
        vec![
            Plane::view("h", STREAMS * self.width, &self.h),
            Plane::output("x", self.width, Memory::View, Check::Within(self.tolerance)),
        ]
    }

    fn fix<D: Device>(&self, _device: &mut D) -> Result<()> {
        Ok(())
    }

    fn enqueue<D: Device>(&self, device: &mut D, n: usize, io: &Io<D>, (): &()) -> Result<()> {
        device.hc_mean(n, io.view("h"), io.view("x"))
    }
}

/// [`Device::hc_mean`].
pub fn hc_mean<D: Device>(make: &impl Fn(usize) -> D, tolerance: Tolerance) {
    let mut random = Random::new(9);
    for width in [384, 100] {
        check(make, &HcMean { h: random.reals(POOL * STREAMS * width), width, tolerance: tolerance.float });
    }
}
