//! Rotation of heads.

use super::Tolerance;
use super::case::{Case, Check, Io, POOL, Plane, bits};
use super::norms::upload;
use super::random::Random;
use super::rig::{Allowed, check};
use crate::{CacheFormat, Device, Result, View};

struct Rope {
    x: Vec<f32>,
    angles: Vec<f32>,
    heads: usize,
    dim: usize,
    rope_dims: usize,
    inverse: bool,
    round_trip: CacheFormat,
    check: Check,
}

impl Case for Rope {
    type Fixed<D: Device> = ();

    fn name(&self) -> String {
        let Self { heads, dim, rope_dims, inverse, round_trip, .. } = self;
        format!("rope of {rope_dims} in {heads} heads of {dim}, inverse: {inverse}, {round_trip:?}")
    }

    fn planes(&self) -> Vec<Plane> {
        vec![
            Plane::updated("x", self.heads * self.dim, &self.x, self.check),
            Plane::dense("angles", self.rope_dims, &self.angles),
        ]
    }

    fn fix<D: Device>(&self, _device: &mut D) -> Result<()> {
        Ok(())
    }

    fn enqueue<D: Device>(&self, device: &mut D, n: usize, io: &Io<D>, (): &()) -> Result<()> {
        let (x, angles) = (io.view("x"), io.dense("angles"));
        device.rope(n, x, self.heads, angles, self.rope_dims, self.inverse, self.round_trip)
    }
}

/// [`Device::rope`], forward and inverse, with and without a round trip.
pub fn rope<D: Device>(make: &impl Fn(usize) -> D, tolerance: Tolerance) {
    let mut random = Random::new(10);
    let near = Check::Within(tolerance.float);
    for (heads, dim, rope_dims, inverse, round_trip, check_x) in [
        (8, 128, 32, false, CacheFormat::F32, near),
        (3, 64, 64, true, CacheFormat::F32, near),
        (4, 64, 32, false, CacheFormat::Fp4Group32, Check::Verified),
        (1, 128, 64, false, CacheFormat::Fp8, Check::Verified),
    ] {
        let case = Rope {
            x: random.reals(POOL * heads * dim),
            angles: random.angles(POOL, rope_dims / 2),
            heads,
            dim,
            rope_dims,
            inverse,
            round_trip,
            check: check_x,
        };
        check(make, &case);
    }
}

/// The round trip of [`Device::rope`] is the scalar one, bit for bit, of what it gives without.
pub fn rope_round_trip_is_exact<D: Device>(make: &impl Fn(usize) -> D, _tolerance: Tolerance) {
    let mut random = Random::new(11);
    let (heads, dim, rope_dims) = (4, 128, 64);
    let width = heads * dim;
    let x = spread(&mut random, POOL, width);
    let angles = random.angles(POOL, rope_dims / 2);
    let mut device = make(POOL);
    let mut run = |format| -> Result<Vec<f32>> {
        let (x, angles) = (upload(&mut device, &x)?, upload(&mut device, &angles)?);
        device.rope(POOL, View::dense(&x, width), heads, &angles, rope_dims, false, format)?;
        let mut rows = vec![0.0; POOL * width];
        device.read(&x, 0, &mut rows)?;
        Ok(rows)
    };
    let mut run = |format| run(format).unwrap_or_else(|e| panic!("rope with {format:?}: {e}"));
    let plain = run(CacheFormat::F32);
    for format in [CacheFormat::Fp8, CacheFormat::Fp4Group16, CacheFormat::Fp4Group32] {
        let mut expected = plain.clone();
        expected.chunks_exact_mut(dim).for_each(|head| format.round_trip(head));
        Allowed::Exact.compare(&format!("round trip {format:?}"), &bits(&run(format)), &bits(&expected));
    }
}

/// Rows of very different sizes, with zeros and with values on the ties of the quantizers.
pub(super) fn spread(random: &mut Random, rows: usize, width: usize) -> Vec<f32> {
    let mut values = random.reals(rows * width);
    for (r, row) in values.chunks_exact_mut(width).enumerate() {
        let factor = libm::exp2f(r as f32 - rows as f32 / 2.0);
        for value in row.iter_mut() {
            *value = match r % 4 {
                0 => *value,
                1 => *value * factor,
                2 => (*value * 16.0).round() / 4.0 * factor,
                _ => (*value * 8.0).round() / 4.0,
            };
        }
        if r % 8 == 5 {
            row[..width / 2].fill(0.0);
        }
    }
    values
}
