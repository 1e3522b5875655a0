//! A pipeline of tensors: readers keep the disk busy, packers the processors. What the system's cache holds is copied
//! from there by who packs it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, Scope};

use tokenfare_device::format::decode_bf16;
use tokenfare_device::{Device, DeviceError, LinearData, Matrix};

use super::budget::{Budget, Share};
use super::{Drafts, LoadError, LoadOptions};
use crate::checkpoint::inventory::visit_text;
use crate::checkpoint::{Checkpoint, Dtype, FileBytes, TensorSpec};

/// Bytes read but not yet packed, all threads together, unless a single tensor is larger.
const IN_FLIGHT: u64 = 256 << 20;

/// Bytes that all buffers together keep for a next use, and bounds of the share of one.
const KEPT: usize = 1 << 30;
const LEAST_KEPT: usize = 8 << 20;
const MOST_KEPT: usize = 64 << 20;

/// Threads that pack for each that reads.
const PACKERS: usize = 2;

/// A tensor on its way into [`crate::weights::Weights`].
pub(super) enum Packed<D: Device> {
    Linear(D::Linear),
    Table(D::Table),
    /// Small values that become a buffer when the weights are put together.
    Vector(Vec<f32>),
}

/// Packed tensors by their release name without `.weight`.
pub(super) type Parts<D> = HashMap<String, Packed<D>>;

/// What a tensor becomes.
#[derive(Clone, Copy)]
enum Form {
    Linear { groups: usize },
    Table,
    Vector,
}

struct Job {
    spec: TensorSpec,
    /// `name.scale` of quantized matrices.
    scale: Option<String>,
    form: Form,
    bytes: u64,
}

impl Job {
    /// The name without `.weight`.
    fn key(&self) -> &str {
        self.spec.name.strip_suffix(".weight").unwrap_or(&self.spec.name)
    }
}

/// A tensor as read, on its way to a packer; the share of the budget goes with it.
struct Loaded<'a> {
    job: &'a Job,
    buffers: Buffers,
    share: Share<'a>,
}

/// What all threads of a load share.
struct Line<'a, D: Device> {
    checkpoint: &'a Checkpoint,
    device: &'a D,
    jobs: &'a [Job],
    next: AtomicUsize,
    budget: &'a Budget,
    /// Buffers to read into, and their way back from the packers.
    free: Mutex<Receiver<Buffers>>,
    back: Sender<Buffers>,
    /// A buffer above this size is given back to the system after use.
    kept: usize,
    outcome: Mutex<Result<Parts<D>, LoadError>>,
}

/// Reads and packs every tensor but the Engram tables.
pub(super) fn pack_all<D: Device>(
    checkpoint: &Checkpoint,
    device: &D,
    options: &LoadOptions<'_>,
) -> Result<Parts<D>, LoadError> {
    let jobs = jobs(checkpoint, options.drafter);
    let total = jobs.iter().map(|job| job.bytes).sum();
    let done = AtomicU64::new(0);
    let budget = Budget::new(IN_FLIGHT);
    let packers = options.threads.max(1);
    let readers = packers.div_ceil(PACKERS);
    let (back, free) = channel();
    let buffers = packers + readers + 1;
    for _ in 0..buffers {
        // The other end is at hand.
        let _ = back.send(Buffers::default());
    }
    let line = Line {
        checkpoint,
        device,
        jobs: &jobs,
        next: AtomicUsize::new(0),
        budget: &budget,
        free: Mutex::new(free),
        back,
        kept: (KEPT / buffers).clamp(LEAST_KEPT, MOST_KEPT),
        outcome: Mutex::new(Ok(HashMap::with_capacity(jobs.len()))),
    };
    let (sender, receiver) = channel();
    let receiver = Mutex::new(receiver);
    let advance = |bytes| options.progress.advance(done.fetch_add(bytes, Ordering::Relaxed) + bytes, total);
    std::thread::scope(|scope| {
        for _ in 0..readers {
            let (line, sender) = (&line, sender.clone());
            line.start(scope, move || line.read(&sender));
        }
        // Packers end when the last reader's sender is gone.
        drop(sender);
        for _ in 1..packers {
            line.start(scope, || line.pack(&receiver, &advance));
        }
        line.pack(&receiver, &advance);
    });
    line.outcome.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl<'a, D: Device> Line<'a, D> {
    /// Starts a thread, or fails the load.
    fn start<'s>(&self, scope: &'s Scope<'s, '_>, work: impl FnOnce() + Send + 's) {
        if let Err(cause) = Builder::new().name("load".into()).spawn_scoped(scope, work) {
            self.fail(LoadError::Thread(cause));
        }
    }

    /// Reads tensor after tensor.
    fn read(&self, sender: &Sender<Loaded<'a>>) {
        while let Some(job) = self.jobs.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            let share = self.budget.take(job.bytes);
            let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).recv();
            // The line holds the other end.
            let Ok(mut buffers) = free else { return };
            match buffers.read_ahead(self.checkpoint, job) {
                // Without a packer there is nobody to read for.
                Ok(()) if sender.send(Loaded { job, buffers, share }).is_err() => return,
                Ok(()) => {}
                Err(error) => return self.fail(error),
            }
        }
    }

    /// Packs what was read until no reader is left; after an error, only empties the line.
    fn pack(&self, receiver: &Mutex<Receiver<Loaded<'a>>>, advance: &(impl Fn(u64) + Sync)) {
        let empty = Emptied { line: self, receiver };
        while let Some(Loaded { job, mut buffers, share }) = empty.next() {
            let packed = (!self.failed()).then(|| buffers.pack(self.checkpoint, self.device, job));
            self.free(buffers);
            drop(share);
            match packed {
                Some(Ok(packed)) => {
                    self.keep(job, packed);
                    advance(job.bytes);
                }
                Some(Err(error)) => self.fail(error),
                None => {}
            }
        }
    }

    /// Gives buffers back to the readers.
    fn free(&self, mut buffers: Buffers) {
        buffers.shrink(self.kept);
        // The line holds the other end.
        let _ = self.back.send(buffers);
    }

    fn failed(&self) -> bool {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).is_err()
    }

    fn keep(&self, job: &Job, packed: Packed<D>) {
        if let Ok(parts) = &mut *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) {
            parts.insert(job.key().to_owned(), packed);
        }
    }

    /// Keeps the first error, and lets readers begin no further tensor.
    fn fail(&self, error: LoadError) {
        self.next.store(self.jobs.len(), Ordering::Relaxed);
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        if outcome.is_ok() {
            *outcome = Err(error);
        }
    }
}

/// The end of a line, which a packer's panic must not leave full: readers would wait for their budget for ever.
struct Emptied<'l, 'a, D: Device> {
    line: &'l Line<'a, D>,
    receiver: &'l Mutex<Receiver<Loaded<'a>>>,
}

impl<'a, D: Device> Emptied<'_, 'a, D> {
    fn next(&self) -> Option<Loaded<'a>> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
    }
}

impl<D: Device> Drop for Emptied<'_, '_, D> {
    fn drop(&mut self) {
        self.line.next.store(self.line.jobs.len(), Ordering::Relaxed);
        while let Some(loaded) = self.next() {
            self.line.free(loaded.buffers);
        }
    }
}

/// The tensors to pack, in the order of the files.
fn jobs(checkpoint: &Checkpoint, drafter: Drafts) -> Vec<Job> {
    let config = checkpoint.config();
    let mut jobs = Vec::new();
    let Ok(()) = visit_text(config, &mut |spec: TensorSpec| {
        let name = spec.name.as_str();
        let skipped = (drafter == Drafts::Skip && name.starts_with("mtp."))
            || name.contains(".engram.embed.")
            || name.ends_with(".bias_vl")
            || spec.dtype == Dtype::F8_E8M0;
        if !skipped {
            let quantized = matches!(spec.dtype, Dtype::I8 | Dtype::F8_E4M3);
            let scale = quantized.then(|| name.replace(".weight", ".scale"));
            let form = if name == "embed.weight" || name.ends_with("markov_head.embed.weight") {
                Form::Table
            } else if spec.shape.len() == 1 || name.ends_with("q_weight") || name.ends_with("k_weight") {
                Form::Vector
            } else {
                Form::Linear { groups: if name.ends_with(".wo_a.weight") { config.o_groups } else { 1 } }
            };
            let scales = scale.as_deref().and_then(|s| checkpoint.tensor(s)).map_or(0, |t| t.bytes);
            jobs.push(Job { bytes: spec.bytes() + scales, spec, scale, form });
        }
        Ok::<(), Infallible>(())
    });
    jobs.sort_by_cached_key(|job| checkpoint.place_of(&job.spec.name));
    jobs
}

/// What one tensor is read into.
#[derive(Default)]
struct Buffers {
    values: FileBytes,
    scales: FileBytes,
    /// Whether each of them is read already.
    ahead: [bool; 2],
}

impl Buffers {
    /// The tensors of a job with their places.
    fn tensors<'a>(
        &'a mut self,
        job: &'a Job,
    ) -> impl Iterator<Item = (&'a str, &'a mut FileBytes, &'a mut bool)> {
        let names = std::iter::once(job.spec.name.as_str()).chain(job.scale.as_deref());
        let places = [&mut self.values, &mut self.scales].into_iter().zip(&mut self.ahead);
        names.zip(places).map(|(name, (bytes, ahead))| (name, bytes, ahead))
    }

    /// Reads what the system's cache does not hold.
    fn read_ahead(&mut self, checkpoint: &Checkpoint, job: &Job) -> Result<(), LoadError> {
        for (name, bytes, ahead) in self.tensors(job) {
            *ahead = checkpoint.read_past_cache(name, bytes)?;
        }
        Ok(())
    }

    fn pack<D: Device>(
        &mut self,
        checkpoint: &Checkpoint,
        device: &D,
        job: &Job,
    ) -> Result<Packed<D>, LoadError> {
        for (name, bytes, ahead) in self.tensors(job) {
            if !*ahead {
                checkpoint.read(name, bytes)?;
            }
            checkpoint.check_finite(name, bytes)?;
        }
        let packed = match job.form {
            Form::Vector => Ok(Packed::Vector(floats(job.spec.dtype, &self.values))),
            Form::Table => {
                device.table(job.spec.shape[0], job.spec.shape[1], &self.values).map(Packed::Table)
            }
            Form::Linear { groups } => self.linear(device, job, groups).map(Packed::Linear),
        };
        packed.map_err(|cause| LoadError::Device {
            path: checkpoint.path_of(&job.spec.name).to_owned(),
            tensor: job.spec.name.clone(),
            cause: Box::new(cause),
        })
    }

    fn linear<D: Device>(&self, device: &D, job: &Job, groups: usize) -> Result<D::Linear, DeviceError> {
        let (rows, stored) = (job.spec.shape[0], job.spec.shape[1]);
        let (codes, scales): (&[u8], &[u8]) = (&self.values, &self.scales);
        let (cols, values) = match job.spec.dtype {
            Dtype::I8 => (2 * stored, Matrix::Fp4 { codes, scales }),
            Dtype::F8_E4M3 => (stored, Matrix::Fp8 { codes, scales }),
            Dtype::BF16 => (stored, Matrix::Bf16(codes)),
            _ => (stored, Matrix::F32(codes)),
        };
        device.linear_weight(LinearData { rows, cols, groups, values })
    }

    /// Gives back memory that only a large tensor needed.
    fn shrink(&mut self, kept: usize) {
        for buffer in [&mut self.values, &mut self.scales] {
            if buffer.capacity() > kept {
                *buffer = FileBytes::default();
            }
        }
    }
}

/// Stored bf16 or f32 values.
fn floats(dtype: Dtype, bytes: &[u8]) -> Vec<f32> {
    match dtype {
        Dtype::BF16 => bytes.as_chunks().0.iter().map(|b| decode_bf16(*b)).collect(),
        _ => bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
    }
}
