//! The device: a list of checked operations, which the pool walks when a result is read.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tokenfare_device::{
    Attention, Buffer, CacheFormat, CacheStore, Device, DeviceError, Element, IndexSelect, LinearData, Moe,
    PairPool, Result, Route, View,
};

use crate::Buf;
use crate::affinity;
use crate::args::Check;
use crate::linear::{Packed, rows_per_pass};
use crate::moe::{self, PackedExperts};
use crate::ops::attention::Attention as AttentionStep;
use crate::ops::cache::Store;
use crate::ops::hyper::{Collapse, Expand, Mean, SQUARES};
use crate::ops::index::Select;
use crate::ops::linear::{Linear as LinearStep, Mix, MixArgs};
use crate::ops::norm::RmsNorm;
use crate::ops::pace::Pace;
use crate::ops::rope::{Rope, Turn};
use crate::ops::route::Route as RouteStep;
use crate::ops::rows::{Add, Gather, SelectRows, Table};
use crate::ops::stream::Stream;
use crate::ops::{copy::Write, engram::Gate, experts::Mixture, pair::Pool as PairStep};
use crate::path::{Path, PathChoice, PathError};
use crate::pool::Pool;
use crate::step::{Fault, Part, Step, Work};

/// How a [`Cpu`] is made.
#[derive(Debug, Clone, Copy)]
pub struct CpuOptions {
    /// The instruction set.
    pub path: PathChoice,
    /// Threads that share each operation, the calling one included; 0: one for each CPU the process may use.
    pub threads: usize,
    /// Most rows of one operation.
    pub max_rows: usize,
}

/// Why a [`Cpu`] could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CpuError {
    /// The machine lacks the path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// Threads or memory were refused.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// A packed linear weight.
#[derive(Debug)]
pub struct Linear(pub(crate) Packed);

/// A recorded sequence of operations.
#[derive(Clone)]
pub struct Program(Arc<Vec<Box<dyn Step>>>);

enum Entry {
    Step(Box<dyn Step>),
    Program(Program),
}

impl Entry {
    fn steps(&self) -> &[Box<dyn Step>] {
        match self {
            Self::Step(step) => std::slice::from_ref(step),
            Self::Program(program) => &program.0,
        }
    }
}

/// A stage of a step of an entry of the list.
#[derive(Debug, Clone, Copy)]
struct Stage {
    entry: usize,
    step: usize,
    stage: usize,
}

/// The CPU device.
pub struct Cpu {
    path: Path,
    pool: Pool,
    max_rows: usize,
    list: Vec<Entry>,
    /// Stages of the list while it runs; kept for its room.
    stages: Vec<Stage>,
    recording: Option<Vec<Box<dyn Step>>>,
    fault: Fault,
    /// Partial sums of squares of the mixes, `[max_rows, SQUARES]`.
    squares: Buf<f32>,
    /// What threads prepare for each other within an operation, grown on demand.
    shared: Buf<f32>,
}

impl Cpu {
    /// Starts the device's threads.
    ///
    /// # Errors
    /// [`CpuError::Path`] when the machine lacks the path, [`CpuError::Device`] when threads or memory are refused.
    pub fn new(options: CpuOptions) -> Result<Self, CpuError> {
        let path = options.path.resolve()?;
        let threads = match options.threads {
            0 => affinity::allowed().len().max(1),
            threads => threads,
        };
        let pool = Pool::new(threads)
            .map_err(|error| failed(path, threads, format!("a thread could not be started: {error}")))?;
        let squares = Buf::new(options.max_rows.saturating_mul(SQUARES))?;
        Ok(Self {
            path,
            pool,
            max_rows: options.max_rows,
            list: Vec::new(),
            stages: Vec::new(),
            recording: None,
            fault: Fault::default(),
            squares,
            shared: Buf::new(0)?,
        })
    }

    /// The instruction set of this device.
    pub fn path(&self) -> Path {
        self.path
    }

    /// Threads that share each operation.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// Operations and replays that are enqueued and wait for the next read.
    pub fn pending(&self) -> usize {
        self.list.len()
    }

    /// Reads `memory` once with the first `threads` threads and gives the bytes a second: what no operation over as many
    /// bytes can beat.
    ///
    /// # Errors
    /// As [`Device::read`].
    pub fn read_ceiling(&mut self, memory: &Buf<f32>, threads: usize) -> Result<f64> {
        self.not_recording("read_ceiling")?;
        self.flush()?;
        let threads = threads.clamp(1, self.threads());
        let began = Instant::now();
        self.enqueue(Stream { memory: memory.clone(), threads });
        self.flush()?;
        Ok(size_of::<f32>() as f64 * memory.len() as f64 / began.elapsed().as_secs_f64())
    }

    /// Seconds that one addition of sixteen values in registers takes on the slowest thread now: more than at other
    /// times where other work shares a core or slows its clock.
    ///
    /// # Errors
    /// As [`Device::read`].
    pub fn pace(&mut self) -> Result<f64> {
        self.not_recording("pace")?;
        self.flush()?;
        let slowest = Arc::default();
        self.enqueue(Pace { slowest: Arc::clone(&slowest) });
        self.flush()?;
        Ok(f64::from_bits(slowest.load(Ordering::Relaxed)))
    }

    fn check(&self, op: &'static str, n: usize) -> Result<Check> {
        Check::new(op, n, self.max_rows)
    }

    fn enqueue(&mut self, step: impl Step + 'static) {
        match &mut self.recording {
            Some(recording) => recording.push(Box::new(step)),
            None => self.list.push(Entry::Step(Box::new(step))),
        }
    }

    fn not_recording(&self, call: &str) -> Result<()> {
        match self.recording {
            None => Ok(()),
            Some(_) => Err(failed(self.path, self.threads(), format!("{call} while recording"))),
        }
    }

    /// Runs everything enqueued, with one wake-up of the pool.
    fn flush(&mut self) -> Result<()> {
        if self.list.is_empty() {
            return Ok(());
        }
        let mut stages = std::mem::take(&mut self.stages);
        for (entry, steps) in self.list.iter().map(Entry::steps).enumerate() {
            for (step, stage_count) in steps.iter().map(|step| step.stages()).enumerate() {
                stages.extend((0..stage_count).map(|stage| Stage { entry, step, stage }));
            }
        }
        let (path, fault, list, threads) = (self.path, &self.fault, &self.list, self.pool.threads());
        let outcome = self.pool.run(stages.len(), &|number, thread, scratch| {
            let Stage { entry, step, stage } = stages[number];
            let mut part = Part { thread, threads, scratch, fault };
            // SAFETY: path and arguments were checked, and a stage begins when the one before is done.
            unsafe { list[entry].steps()[step].run(path, stage, &mut part) };
        });
        self.list.clear();
        stages.clear();
        self.stages = stages;
        let fault = self.fault.take();
        outcome.map_err(|cause| failed(self.path, self.threads(), cause))?;
        fault.map_or(Ok(()), Err)
    }

    /// How threads share `n` rows that each have `values` to prepare.
    fn work(&mut self, n: usize, values: usize) -> Result<Work> {
        if n >= self.threads() {
            return Ok(Work::PerThread);
        }
        Ok(Work::Shared(self.shared_room(n.saturating_mul(values))?))
    }

    /// A buffer of at least `values` values that all threads share within an operation.
    fn shared_room(&mut self, values: usize) -> Result<Buf<f32>> {
        if self.shared.len() < values {
            self.shared = Buf::new(values)?;
        }
        Ok(self.shared.clone())
    }
}

fn describe(path: Path, threads: usize) -> String {
    format!("cpu ({path}, {threads} thread{})", if threads == 1 { "" } else { "s" })
}

fn failed(path: Path, threads: usize, cause: String) -> DeviceError {
    DeviceError::Failed { device: describe(path, threads), cause }
}

/// Checks that `len` elements from `at` lie inside a buffer.
fn range<T: Element>(op: &'static str, buf: &Buf<T>, at: usize, len: usize) -> Result<()> {
    let inside = at.checked_add(len).is_some_and(|end| end <= buf.len());
    let (expected, found) =
        (format_args!("a range inside {} elements", buf.len()), format_args!("{len} from {at}"));
    Check { op, n: 0 }.that("range", inside, expected, found)
}

impl Device for Cpu {
    type Buf<T: Element> = Buf<T>;
    type Linear = Linear;
    type Table = Table;
    type Experts = PackedExperts;
    type Program = Program;

    fn name(&self) -> String {
        describe(self.path, self.threads())
    }

    fn launch_bound(&self) -> usize {
        rows_per_pass(self.path)
    }

    fn alloc<T: Element>(&self, len: usize) -> Result<Buf<T>> {
        Buf::new(len)
    }

    fn write<T: Element>(&mut self, dst: &Buf<T>, at: usize, src: &[T]) -> Result<()> {
        self.not_recording("write")?;
        range("write", dst, at, src.len())?;
        let write = Write { dst: dst.clone(), at, src };
        if self.list.is_empty() {
            // SAFETY: nothing is enqueued, so no thread uses the buffer, and the range was checked.
            unsafe { write.copy() };
        } else {
            self.enqueue(Write { dst: write.dst, at, src: src.to_vec() });
        }
        Ok(())
    }

    fn read<T: Element>(&mut self, src: &Buf<T>, at: usize, out: &mut [T]) -> Result<()> {
        self.not_recording("read")?;
        range("read", src, at, out.len())?;
        self.flush()?;
        // SAFETY: the list is empty, so no thread uses the buffer, and the range was checked.
        unsafe { std::ptr::copy_nonoverlapping(src.ptr().add(at), out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    fn linear_weight(&self, data: LinearData<'_>) -> Result<Linear> {
        Ok(Linear(Packed::pack(data, self.path)?))
    }

    fn table(&self, rows: usize, width: usize, bf16: &[u8]) -> Result<Table> {
        Table::new(rows, width, bf16)
    }

    fn experts(&self, list: Vec<[Linear; 3]>) -> Result<PackedExperts> {
        PackedExperts::new(list.into_iter().map(|expert| expert.map(|weight| weight.0)).collect())
    }

    fn record(&mut self, body: impl FnOnce(&mut Self) -> Result<()>) -> Result<Program> {
        self.not_recording("record")?;
        self.recording = Some(Vec::new());
        let outcome = body(self);
        let steps = self.recording.take().unwrap_or_default();
        outcome.map(|()| Program(Arc::new(steps)))
    }

    fn replay(&mut self, program: &Program) -> Result<()> {
        self.not_recording("replay")?;
        self.list.push(Entry::Program(program.clone()));
        Ok(())
    }

    fn gather(
        &mut self,
        n: usize,
        table: &Table,
        ids: &Buf<u32>,
        copies: usize,
        out: View<'_, Self>,
    ) -> Result<()> {
        self.enqueue(Gather::new(self.check("gather", n)?, table, ids, copies, out)?);
        Ok(())
    }

    fn linear(&mut self, n: usize, x: View<'_, Self>, w: &Linear, y: View<'_, Self>) -> Result<()> {
        self.enqueue(LinearStep::new(self.check("linear", n)?, x, &w.0, y)?);
        Ok(())
    }

    fn rms_norm(
        &mut self,
        n: usize,
        x: View<'_, Self>,
        weight: &Buf<f32>,
        eps: f32,
        y: View<'_, Self>,
    ) -> Result<()> {
        self.enqueue(RmsNorm::new(self.check("rms_norm", n)?, x, weight, eps, y)?);
        Ok(())
    }

    fn select_rows(
        &mut self,
        n: usize,
        x: View<'_, Self>,
        index: &Buf<u32>,
        y: View<'_, Self>,
    ) -> Result<()> {
        self.enqueue(SelectRows::new(self.check("select_rows", n)?, x, index, y)?);
        Ok(())
    }

    fn add(&mut self, n: usize, x: View<'_, Self>, y: View<'_, Self>) -> Result<()> {
        self.enqueue(Add::new(self.check("add", n)?, x, y)?);
        Ok(())
    }

    fn hc_mix(
        &mut self,
        n: usize,
        h: View<'_, Self>,
        mix: &Linear,
        base: &Buf<f32>,
        scale: &Buf<f32>,
        iters: usize,
        eps: f32,
        norm_eps: f32,
        out: View<'_, Self>,
    ) -> Result<()> {
        let args = MixArgs { base, scale, iters, eps, norm_eps, squares: &self.squares };
        self.enqueue(Mix::new(self.check("hc_mix", n)?, h, &mix.0, args, out)?);
        Ok(())
    }

    fn hc_collapse(
        &mut self,
        n: usize,
        h: View<'_, Self>,
        pre: View<'_, Self>,
        norm: Option<(&Buf<f32>, f32)>,
        x: View<'_, Self>,
    ) -> Result<()> {
        self.enqueue(Collapse::new(self.check("hc_collapse", n)?, h, pre, norm, x)?);
        Ok(())
    }

    fn hc_expand(
        &mut self,
        n: usize,
        b: View<'_, Self>,
        post: View<'_, Self>,
        comb: View<'_, Self>,
        h: View<'_, Self>,
    ) -> Result<()> {
        self.enqueue(Expand::new(self.check("hc_expand", n)?, b, post, comb, h)?);
        Ok(())
    }

    fn hc_mean(&mut self, n: usize, h: View<'_, Self>, x: View<'_, Self>) -> Result<()> {
        self.enqueue(Mean::new(self.check("hc_mean", n)?, h, x)?);
        Ok(())
    }

    fn rope(
        &mut self,
        n: usize,
        x: View<'_, Self>,
        heads: usize,
        angles: &Buf<f32>,
        rope_dims: usize,
        inverse: bool,
        round_trip: CacheFormat,
    ) -> Result<()> {
        let turn = if inverse { Turn::Inverse } else { Turn::Forward };
        self.enqueue(Rope::new(self.check("rope", n)?, x, heads, (angles, rope_dims, turn), round_trip)?);
        Ok(())
    }

    fn cache_store(&mut self, n: usize, args: CacheStore<'_, Self>) -> Result<()> {
        self.enqueue(Store::new(self.check("cache_store", n)?, args)?);
        Ok(())
    }

    fn pair_pool(&mut self, n: usize, args: PairPool<'_, Self>) -> Result<()> {
        self.enqueue(PairStep::new(self.check("pair_pool", n)?, args)?);
        Ok(())
    }

    fn index_select(&mut self, n: usize, args: IndexSelect<'_, Self>) -> Result<()> {
        let check = self.check("index_select", n)?;
        let scores = self.work(n, args.keys.rows())?;
        self.enqueue(Select::new(check, args, scores)?);
        Ok(())
    }

    fn attention(&mut self, n: usize, args: Attention<'_, Self>) -> Result<()> {
        let (check, threads) = (self.check("attention", n)?, self.threads());
        let step = AttentionStep::new(check, args, threads, |values| self.shared_room(values))?;
        self.enqueue(step);
        Ok(())
    }

    fn route(&mut self, n: usize, args: Route<'_, Self>) -> Result<()> {
        self.enqueue(RouteStep::new(self.check("route", n)?, args)?);
        Ok(())
    }

    fn moe_scratch(&self, n: usize, top_k: usize, width: usize, inner: usize) -> usize {
        moe::scratch_len(n, top_k, width, inner)
    }

    fn moe(&mut self, n: usize, args: Moe<'_, Self>) -> Result<()> {
        self.enqueue(Mixture::new(self.check("moe", n)?, args, self.path)?);
        Ok(())
    }

    fn engram_gate(
        &mut self,
        n: usize,
        kv: View<'_, Self>,
        qk: &Buf<f32>,
        eps: f32,
        h: View<'_, Self>,
    ) -> Result<()> {
        self.enqueue(Gate::new(self.check("engram_gate", n)?, kv, qk, eps, h)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::F32x16;
    use crate::step::Kernel;

    /// Fails in one part of its second stage.
    struct Broken(usize);

    impl Kernel for Broken {
        fn stages(&self) -> usize {
            3
        }

        unsafe fn run<V: F32x16>(&self, stage: usize, part: &mut Part<'_>) {
            assert!(stage != 1 || part.thread != self.0, "broken kernel");
        }
    }

    #[test]
    fn a_panic_in_a_kernel_is_an_error_and_the_device_lives_on() {
        for threads in 1..=3 {
            let mut cpu = Cpu::new(CpuOptions { path: PathChoice::Auto, threads, max_rows: 1 }).unwrap();
            let x = cpu.alloc::<f32>(1).unwrap();
            for bad in 0..threads {
                cpu.enqueue(Broken(bad));
                let cause = format!("part {bad}: broken kernel");
                assert_eq!(cpu.read(&x, 0, &mut [0.0]), Err(failed(cpu.path(), threads, cause)));
                assert_eq!(cpu.read(&x, 0, &mut [0.0]), Ok(()));
            }
        }
    }
}
