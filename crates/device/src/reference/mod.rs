//! The plain f32 device: each operation as its definition reads, run when it is enqueued.
//!
//! A row is computed from its own inputs by sums in one fixed order, so row independence holds by construction.
//! Dot products are summed in f64 and rounded once, so that its own error stays far below any tolerance.

mod attention;
mod engram;
mod launch;
mod linear;
mod math;
mod memory;
mod moe;
mod norms;
mod rope;
mod select;

pub use linear::{Experts, Linear, Table};
pub use memory::{HostBuffer, Program};

use self::launch::Launch;
use self::memory::Operation;
use self::norms::HcMix;
use self::rope::{Rope, Turn};
use crate::{
    Attention, Buffer, CacheFormat, CacheStore, Device, DeviceError, Element, IndexSelect, LinearData, Moe,
    PairPool, Result, Route, View,
};

const NAME: &str = "reference (f32, 1 thread)";

/// The plain implementation of every operation: f32 values, dot products summed in f64.
pub struct Reference {
    max_rows: usize,
    recording: Option<Vec<Operation>>,
}

impl Reference {
    /// A device whose operations take at most `max_rows` rows.
    pub fn new(max_rows: usize) -> Self {
        Self { max_rows, recording: None }
    }

    fn launch(&self, op: &'static str, n: usize) -> Result<Launch> {
        let launch = Launch { op, n };
        if n > self.max_rows {
            return Err(launch.error("n", format!("at most {} rows", self.max_rows), n));
        }
        Ok(launch)
    }

    fn enqueue(&mut self, operation: Operation) -> Result<()> {
        match &mut self.recording {
            Some(list) => list.push(operation),
            None => operation()?,
        }
        Ok(())
    }

    fn not_recording(&self, call: &str) -> Result<()> {
        if self.recording.is_none() {
            return Ok(());
        }
        Err(DeviceError::Failed { device: NAME.into(), cause: format!("{call} while recording") })
    }
}

fn range<T: Element>(op: &'static str, buf: &HostBuffer<T>, at: usize, len: usize) -> Result<()> {
    match at.checked_add(len) {
        Some(end) if end <= buf.len() => Ok(()),
        _ => {
            let found = format!("{len} elements from {at}");
            Err(Launch { op, n: 0 }.error("range", format!("a range inside {} elements", buf.len()), found))
        }
    }
}

impl Device for Reference {
    type Buf<T: Element> = HostBuffer<T>;
    type Linear = Linear;
    type Table = Table;
    type Experts = Experts;
    type Program = Program;

    fn name(&self) -> String {
        NAME.into()
    }

    fn launch_bound(&self) -> usize {
        self.max_rows
    }

    fn alloc<T: Element>(&self, len: usize) -> Result<HostBuffer<T>> {
        HostBuffer::zeroed(len)
    }

    fn write<T: Element>(&mut self, dst: &HostBuffer<T>, at: usize, src: &[T]) -> Result<()> {
        self.not_recording("write")?;
        range("write", dst, at, src.len())?;
        dst.get_mut()[at..at + src.len()].copy_from_slice(src);
        Ok(())
    }

    fn read<T: Element>(&mut self, src: &HostBuffer<T>, at: usize, out: &mut [T]) -> Result<()> {
        self.not_recording("read")?;
        range("read", src, at, out.len())?;
        out.copy_from_slice(&src.get()[at..at + out.len()]);
        Ok(())
    }

    fn linear_weight(&self, data: LinearData<'_>) -> Result<Linear> {
        Linear::new(data)
    }

    fn table(&self, rows: usize, width: usize, bf16: &[u8]) -> Result<Table> {
        Table::new(rows, width, bf16)
    }

    fn experts(&self, list: Vec<[Linear; 3]>) -> Result<Experts> {
        Experts::new(list)
    }

    fn record(&mut self, body: impl FnOnce(&mut Self) -> Result<()>) -> Result<Program> {
        self.not_recording("record")?;
        self.recording = Some(Vec::new());
        let result = body(self);
        let operations = self.recording.take().unwrap_or_default();
        result.map(|()| Program(operations))
    }

    fn replay(&mut self, program: &Program) -> Result<()> {
        self.not_recording("replay")?;
        program.0.iter().try_for_each(|operation| operation())
    }

    fn gather(
        &mut self,
        n: usize,
        table: &Table,
        ids: &HostBuffer<u32>,
        copies: usize,
        out: View<'_, Self>,
    ) -> Result<()> {
        self.enqueue(linear::gather(self.launch("gather", n)?, table, ids, copies, out)?)
    }

    fn linear(&mut self, n: usize, x: View<'_, Self>, w: &Linear, y: View<'_, Self>) -> Result<()> {
        self.enqueue(linear::linear(self.launch("linear", n)?, x, w, y)?)
    }

    fn rms_norm(
        &mut self,
        n: usize,
        x: View<'_, Self>,
        weight: &HostBuffer<f32>,
        eps: f32,
        y: View<'_, Self>,
    ) -> Result<()> {
        self.enqueue(norms::rms_norm(self.launch("rms_norm", n)?, x, weight, eps, y)?)
    }

    fn select_rows(
        &mut self,
        n: usize,
        x: View<'_, Self>,
        index: &HostBuffer<u32>,
        y: View<'_, Self>,
    ) -> Result<()> {
        self.enqueue(linear::select_rows(self.launch("select_rows", n)?, x, index, y)?)
    }

    fn add(&mut self, n: usize, x: View<'_, Self>, y: View<'_, Self>) -> Result<()> {
        self.enqueue(norms::add(self.launch("add", n)?, x, y)?)
    }

    fn hc_mix(
        &mut self,
        n: usize,
        h: View<'_, Self>,
        mix: &Linear,
        base: &HostBuffer<f32>,
        scale: &HostBuffer<f32>,
        iters: usize,
        eps: f32,
        norm_eps: f32,
        out: View<'_, Self>,
    ) -> Result<()> {
        let args = HcMix { h, mix, base, scale, iters, eps, norm_eps, out };
        self.enqueue(norms::hc_mix(self.launch("hc_mix", n)?, args)?)
    }

    fn hc_collapse(
        &mut self,
        n: usize,
        h: View<'_, Self>,
        pre: View<'_, Self>,
        norm: Option<(&HostBuffer<f32>, f32)>,
        x: View<'_, Self>,
    ) -> Result<()> {
        self.enqueue(norms::hc_collapse(self.launch("hc_collapse", n)?, h, pre, norm, x)?)
    }

    fn hc_expand(
        &mut self,
        n: usize,
        b: View<'_, Self>,
        post: View<'_, Self>,
        comb: View<'_, Self>,
        h: View<'_, Self>,
    ) -> Result<()> {
        self.enqueue(norms::hc_expand(self.launch("hc_expand", n)?, b, post, comb, h)?)
    }

    fn hc_mean(&mut self, n: usize, h: View<'_, Self>, x: View<'_, Self>) -> Result<()> {
        self.enqueue(norms::hc_mean(self.launch("hc_mean", n)?, h, x)?)
    }

    fn rope(
        &mut self,
        n: usize,
        x: View<'_, Self>,
        heads: usize,
        angles: &HostBuffer<f32>,
        rope_dims: usize,
        inverse: bool,
        round_trip: CacheFormat,
    ) -> Result<()> {
        let turn = if inverse { Turn::Inverse } else { Turn::Forward };
        let args = Rope { x, heads, angles, rope_dims, turn, round_trip };
        self.enqueue(rope::rope(self.launch("rope", n)?, args)?)
    }

    fn cache_store(&mut self, n: usize, args: CacheStore<'_, Self>) -> Result<()> {
        self.enqueue(rope::cache_store(self.launch("cache_store", n)?, args)?)
    }

    fn pair_pool(&mut self, n: usize, args: PairPool<'_, Self>) -> Result<()> {
        self.enqueue(rope::pair_pool(self.launch("pair_pool", n)?, args)?)
    }

    fn index_select(&mut self, n: usize, args: IndexSelect<'_, Self>) -> Result<()> {
        self.enqueue(select::index_select(self.launch("index_select", n)?, args)?)
    }

    fn attention(&mut self, n: usize, args: Attention<'_, Self>) -> Result<()> {
        self.enqueue(attention::attention(self.launch("attention", n)?, args)?)
    }

    fn route(&mut self, n: usize, args: Route<'_, Self>) -> Result<()> {
        self.enqueue(moe::route(self.launch("route", n)?, args)?)
    }

    fn moe_scratch(&self, _n: usize, _top_k: usize, _width: usize, _inner: usize) -> usize {
        0
    }

    fn moe(&mut self, n: usize, args: Moe<'_, Self>) -> Result<()> {
        self.enqueue(moe::moe(self.launch("moe", n)?, args)?)
    }

    fn engram_gate(
        &mut self,
        n: usize,
        kv: View<'_, Self>,
        qk: &HostBuffer<f32>,
        eps: f32,
        h: View<'_, Self>,
    ) -> Result<()> {
        self.enqueue(engram::engram_gate(self.launch("engram_gate", n)?, kv, qk, eps, h)?)
    }
}
