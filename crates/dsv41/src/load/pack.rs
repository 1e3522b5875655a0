//! Reading and packing by a queue of tensors.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tokenfare_device::format::decode_bf16;
use tokenfare_device::{Device, DeviceError, LinearData, Matrix};

use super::budget::Budget;
use super::{Drafts, LoadError, LoadOptions};
use crate::checkpoint::inventory::visit_text;
use crate::checkpoint::{Checkpoint, Dtype, FileBytes, TensorSpec};

/// Bytes read but not yet packed, all threads together, unless a single tensor is larger.
const IN_FLIGHT: u64 = 256 << 20;

/// A buffer above this size is given back after use.
const KEPT: usize = 32 << 20;

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

/// Reads and packs every tensor but the Engram tables.
pub(super) fn pack_all<D: Device>(
    checkpoint: &Checkpoint,
    device: &D,
    options: &LoadOptions<'_>,
) -> Result<Parts<D>, LoadError> {
    let jobs = jobs(checkpoint, options.drafter);
    let total = jobs.iter().map(|job| job.bytes).sum();
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let budget = Budget::new(IN_FLIGHT);
    let outcome = Mutex::new(Ok(HashMap::with_capacity(jobs.len())));
    let work = || {
        let mut buffers = Buffers::default();
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let share = budget.take(job.bytes);
            let packed = buffers.pack(checkpoint, device, job);
            buffers.shrink();
            drop(share);
            let failed = packed.is_err();
            record(&outcome, job.key(), packed);
            if failed {
                next.store(jobs.len(), Ordering::Relaxed);
                return;
            }
            options.progress.advance(done.fetch_add(job.bytes, Ordering::Relaxed) + job.bytes, total);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.threads {
            let thread = std::thread::Builder::new().name("load".into()).spawn_scoped(scope, work);
            if let Err(cause) = thread {
                next.store(jobs.len(), Ordering::Relaxed);
                return Err(LoadError::Thread(cause));
            }
        }
        work();
        Ok(())
    })?;
    outcome.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a packed tensor, or the first error.
fn record<D: Device>(
    outcome: &Mutex<Result<Parts<D>, LoadError>>,
    key: &str,
    packed: Result<Packed<D>, LoadError>,
) {
    let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
    match (&mut *outcome, packed) {
        (Ok(parts), Ok(packed)) => {
            parts.insert(key.to_owned(), packed);
        }
        (Ok(_), Err(error)) => *outcome = Err(error),
        (Err(_), _) => {}
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

/// What one thread reads into.
#[derive(Default)]
struct Buffers {
    values: FileBytes,
    scales: FileBytes,
}

impl Buffers {
    fn pack<D: Device>(
        &mut self,
        checkpoint: &Checkpoint,
        device: &D,
        job: &Job,
    ) -> Result<Packed<D>, LoadError> {
        checkpoint.read_finite(&job.spec.name, &mut self.values)?;
        if let Some(scale) = &job.scale {
            checkpoint.read_finite(scale, &mut self.scales)?;
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
    fn shrink(&mut self) {
        for buffer in [&mut self.values, &mut self.scales] {
            if buffer.capacity() > KEPT {
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
