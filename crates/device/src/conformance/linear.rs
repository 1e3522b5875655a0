//! Linear layers, gathered tables and selected rows.

use super::Tolerance;
use super::case::{Case, Check, Io, Memory, POOL, Plane};
use super::random::{Kind, Random, Stored};
use super::rig::check;
use crate::{Device, NONE, Result, View};

struct Linear {
    weight: Stored,
    x: Vec<f32>,
    tolerance: f32,
}

impl Case for Linear {
    type Fixed<D: Device> = D::Linear;

    fn name(&self) -> String {
        let Stored { rows, cols, groups, kind, .. } = self.weight;
        format!("linear {kind:?} {rows} x {cols} in {groups} groups")
    }

    fn planes(&self) -> Vec<Plane> {
        vec![
            Plane::view("x", self.weight.cols * self.weight.groups, &self.x),
            Plane::output("y", self.weight.rows, Memory::View, Check::WithinTypical(self.tolerance)),
        ]
    }

    fn fix<D: Device>(&self, device: &mut D) -> Result<D::Linear> {
        device.linear_weight(self.weight.data())
    }

    fn enqueue<D: Device>(&self, device: &mut D, n: usize, io: &Io<D>, w: &D::Linear) -> Result<()> {
        device.linear(n, io.view("x"), w, io.view("y"))
    }
}

/// [`Device::linear`] with every kind of weight, among them few rows, ragged scale blocks and groups.
pub fn linear<D: Device>(make: &impl Fn(usize) -> D, tolerance: Tolerance) {
    let mut random = Random::new(1);
    let blocks =
        [(384, 128, 1), (24, 256, 1), (40, 96, 1), (8, 384, 1), (1, 128, 1), (64, 64, 4), (96, 128, 2)];
    let plain = [(72, 200, 1), (1, 640, 1), (8, 20, 1), (64, 48, 4)];
    let mut cases = Vec::new();
    for kind in [Kind::Fp4, Kind::Fp8, Kind::Bf16, Kind::F32] {
        cases.extend(blocks.map(|size| (kind, size)));
    }
    for kind in [Kind::Bf16, Kind::F32] {
        cases.extend(plain.map(|size| (kind, size)));
    }
    for (kind, (rows, cols, groups)) in cases {
        let weight = Stored::new(&mut random, kind, rows, cols, groups);
        let x = random.reals(POOL * cols * groups);
        let tolerance = if kind == Kind::F32 { tolerance.float } else { tolerance.linear };
        check(make, &Linear { weight, x, tolerance });
    }
}

struct Gather {
    table: Vec<u8>,
    rows: usize,
    width: usize,
    copies: usize,
    ids: Vec<u32>,
}

impl Case for Gather {
    type Fixed<D: Device> = D::Table;

    fn name(&self) -> String {
        format!("gather {} x {} copied {} times", self.rows, self.width, self.copies)
    }

    fn planes(&self) -> Vec<Plane> {
        vec![
            Plane::index("ids", 1, &self.ids),
            Plane::output("out", self.copies * self.width, Memory::View, Check::Exact),
        ]
    }

    fn fix<D: Device>(&self, device: &mut D) -> Result<D::Table> {
        device.table(self.rows, self.width, &self.table)
    }

    fn enqueue<D: Device>(&self, device: &mut D, n: usize, io: &Io<D>, table: &D::Table) -> Result<()> {
        device.gather(n, table, io.index("ids"), self.copies, io.view("out"))
    }
}

/// [`Device::gather`], exact bit for bit.
pub fn gather<D: Device>(make: &impl Fn(usize) -> D, _tolerance: Tolerance) {
    let mut random = Random::new(2);
    for (rows, width, copies) in [(37, 128, 4), (200, 96, 1)] {
        let values = random.reals(rows * width);
        let table = values.iter().flat_map(|&v| half::bf16::from_f32(v).to_le_bytes()).collect();
        let ids = (0..POOL).map(|r| if r == 0 { rows - 1 } else { random.below(rows) } as u32).collect();
        check(make, &Gather { table, rows, width, copies, ids });
    }
}

/// Rows of the memory that [`SelectRows`] reads.
const HELD: usize = 50;

struct SelectRows {
    values: Vec<f32>,
    index: Vec<u32>,
    width: usize,
    at: usize,
    stride: usize,
}

impl Case for SelectRows {
    type Fixed<D: Device> = D::Buf<f32>;

    fn name(&self) -> String {
        format!("select_rows of {} from {} by {}", self.width, self.at, self.stride)
    }

    fn planes(&self) -> Vec<Plane> {
        vec![
            Plane::index("index", 1, &self.index),
            Plane::output("y", self.width, Memory::View, Check::Exact),
        ]
    }

    fn fix<D: Device>(&self, device: &mut D) -> Result<D::Buf<f32>> {
        let buf = device.alloc(self.values.len())?;
        device.write(&buf, 0, &self.values)?;
        Ok(buf)
    }

    fn enqueue<D: Device>(&self, device: &mut D, n: usize, io: &Io<D>, x: &D::Buf<f32>) -> Result<()> {
        let x = View { buf: x, at: self.at, stride: self.stride, width: self.width };
        device.select_rows(n, x, io.index("index"), io.view("y"))
    }
}

/// [`Device::select_rows`], exact bit for bit, with absent rows.
pub fn select_rows<D: Device>(make: &impl Fn(usize) -> D, _tolerance: Tolerance) {
    let mut random = Random::new(3);
    for (width, at, stride) in [(128, 0, 128), (96, 11, 131)] {
        let values = random.reals(at + (HELD - 1) * stride + width);
        let index = (0..POOL)
            .map(|r| match r {
                0 => HELD as u32 - 1,
                r if r % 7 == 3 => NONE,
                _ => random.below(HELD) as u32,
            })
            .collect();
        check(make, &SelectRows { values, index, width, at, stride });
    }
}
