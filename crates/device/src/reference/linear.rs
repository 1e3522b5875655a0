//! Weights, decoded to f32 when they are packed, and the products with them.

use std::sync::Arc;

use super::Reference;
use super::launch::Launch;
use super::math::dot;
use super::memory::{HostBuffer, Operation};
use crate::format::{check_e8m0, decode_bf16, decode_e2m1, decode_e4m3, decode_e8m0};
use crate::{Buffer, LinearData, Matrix, Result, View};

/// A linear weight in f32.
#[derive(Debug, Clone)]
pub struct Linear(Arc<Dense>);

#[derive(Debug)]
struct Dense {
    rows: usize,
    cols: usize,
    groups: usize,
    values: Vec<f32>,
}

impl Linear {
    pub(super) fn new(data: LinearData<'_>) -> Result<Self> {
        let LinearData { rows, cols, groups, values } = data;
        let launch = Launch { op: "linear_weight", n: rows };
        if rows == 0 || cols == 0 || groups == 0 || !rows.is_multiple_of(groups) {
            let found = format!("{rows} x {cols} in {groups} groups");
            return Err(launch.error("size", "rows and columns, groups that divide the rows", found));
        }
        let len = rows * cols;
        let values = match values {
            Matrix::F32(bytes) => {
                launch.same("f32 bytes", bytes.len(), 4 * len)?;
                bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect()
            }
            Matrix::Bf16(bytes) => {
                launch.same("bf16 bytes", bytes.len(), 2 * len)?;
                bytes.as_chunks().0.iter().map(|&b| decode_bf16(b)).collect()
            }
            Matrix::Fp8 { codes, scales } => {
                check_blocks(launch, cols)?;
                launch.same("E4M3 codes", codes.len(), len)?;
                launch.same("E8M0 scales", scales.len(), rows.div_ceil(32) * (cols / 32))?;
                check_e8m0(scales)?;
                let scale = |row: usize, col: usize| decode_e8m0(scales[row / 32 * (cols / 32) + col / 32]);
                (0..len).map(|i| decode_e4m3(codes[i]) * scale(i / cols, i % cols)).collect()
            }
            Matrix::Fp4 { codes, scales } => {
                check_blocks(launch, cols)?;
                launch.same("E2M1 codes", codes.len(), len / 2)?;
                launch.same("E8M0 scales", scales.len(), len / 32)?;
                check_e8m0(scales)?;
                let code = |i: usize| codes[i / 2] >> (4 * (i % 2));
                (0..len).map(|i| decode_e2m1(code(i)) * decode_e8m0(scales[i / 32])).collect()
            }
        };
        Ok(Self(Arc::new(Dense { rows, cols, groups, values })))
    }

    /// Output features.
    pub(super) fn rows(&self) -> usize {
        self.0.rows
    }

    /// Input features of all groups together.
    pub(super) fn inputs(&self) -> usize {
        self.0.cols * self.0.groups
    }

    /// `W x` for each dense row of `x`.
    pub(super) fn apply(&self, x: &[f32]) -> Vec<f32> {
        let Dense { rows, cols, groups, values } = &*self.0;
        let mut y = vec![0.0; x.len() / self.inputs() * rows];
        for (o, weight) in values.chunks_exact(*cols).enumerate() {
            let group = o / (rows / groups);
            for (x, y) in x.chunks_exact(self.inputs()).zip(y.chunks_exact_mut(*rows)) {
                y[o] = dot(weight, &x[group * cols..][..*cols]);
            }
        }
        y
    }
}

fn check_blocks(launch: Launch, cols: usize) -> Result<()> {
    if cols.is_multiple_of(32) { Ok(()) } else { Err(launch.error("columns", "a multiple of 32", cols)) }
}

pub(super) fn linear(
    launch: Launch,
    x: View<'_, Reference>,
    w: &Linear,
    y: View<'_, Reference>,
) -> Result<Operation> {
    let x = launch.input("x", x, w.inputs())?;
    let y = launch.output("y", y, w.rows())?;
    let w = w.clone();
    Ok(Box::new(move || {
        y.store(&w.apply(&x.load(launch.n)));
        Ok(())
    }))
}

/// A bf16 table.
#[derive(Debug, Clone)]
pub struct Table(Arc<TableRows>);

#[derive(Debug)]
struct TableRows {
    rows: usize,
    width: usize,
    values: Vec<f32>,
}

impl Table {
    pub(super) fn new(rows: usize, width: usize, bf16: &[u8]) -> Result<Self> {
        Launch { op: "table", n: rows }.same("bf16 bytes", bf16.len(), 2 * rows * width)?;
        let values = bf16.as_chunks().0.iter().map(|&b| decode_bf16(b)).collect();
        Ok(Self(Arc::new(TableRows { rows, width, values })))
    }
}

pub(super) fn gather(
    launch: Launch,
    table: &Table,
    ids: &HostBuffer<u32>,
    copies: usize,
    out: View<'_, Reference>,
) -> Result<Operation> {
    let ids = launch.dense("ids", ids, 1)?;
    let out = launch.output("out", out, copies * table.0.width)?;
    let table = table.clone();
    Ok(Box::new(move || {
        let TableRows { rows, width, values } = &*table.0;
        let mut dense = Vec::with_capacity(launch.n * out.width);
        for &id in &ids.get()[..launch.n] {
            let id = id as usize;
            if id >= *rows {
                return Err(launch.error("ids", format!("ids below {rows}"), id));
            }
            for _ in 0..copies {
                dense.extend_from_slice(&values[id * width..][..*width]);
            }
        }
        out.store(&dense);
        Ok(())
    }))
}

/// The routed experts of one layer: w1, w3 and w2 of each.
#[derive(Debug, Clone)]
pub struct Experts(pub(super) Arc<Vec<[Linear; 3]>>);

impl Experts {
    pub(super) fn new(list: Vec<[Linear; 3]>) -> Result<Self> {
        let launch = Launch { op: "experts", n: list.len() };
        let Some(first) = list.first() else {
            return Err(launch.error("list", "at least one expert", 0));
        };
        let (width, inner) = (first[0].inputs(), first[0].rows());
        for expert in &list {
            check_expert(launch, expert, width, inner)?;
        }
        Ok(Self(Arc::new(list)))
    }

    /// Width of the rows that go in and out, and the inner width.
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.0[0][0].inputs(), self.0[0][0].rows())
    }
}

/// That w1 and w3 are `[inner, width]` and w2 `[width, inner]`, in one group.
pub(super) fn check_expert(launch: Launch, expert: &[Linear; 3], width: usize, inner: usize) -> Result<()> {
    let [w1, w3, w2] = expert;
    for (what, weight, rows, cols) in
        [("w1", w1, inner, width), ("w3", w3, inner, width), ("w2", w2, width, inner)]
    {
        if (weight.0.rows, weight.0.cols, weight.0.groups) != (rows, cols, 1) {
            let found = format!("{} x {} in {} groups", weight.0.rows, weight.0.cols, weight.0.groups);
            return Err(launch.error(what, format!("{rows} x {cols}"), found));
        }
    }
    Ok(())
}

pub(super) fn select_rows(
    launch: Launch,
    x: View<'_, Reference>,
    index: &HostBuffer<u32>,
    y: View<'_, Reference>,
) -> Result<Operation> {
    let index = launch.dense("index", index, 1)?;
    let held = x.buf.len();
    let x = Launch { n: 0, ..launch }.input("x", x, y.width)?;
    let y = launch.output("y", y, y.width)?;
    Ok(Box::new(move || {
        let mut dense = Vec::with_capacity(launch.n * y.width);
        for &row in &index.get()[..launch.n] {
            if row == crate::NONE {
                dense.resize(dense.len() + y.width, 0.0);
                continue;
            }
            match x.load_row(row as usize) {
                Some(values) => dense.extend(values),
                None => return Err(launch.error("index", format!("rows inside {held} values"), row)),
            }
        }
        y.store(&dense);
        Ok(())
    }))
}
