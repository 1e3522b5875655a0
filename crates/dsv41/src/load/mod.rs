//! From a checkpoint to weights in device memory.
//!
//! Each tensor's bytes are read once, in the order of the files, into buffers that are used again, and packed by
//! the device from there, on threads of their own. What is held beside the weights is the bytes in flight
//! and buffers for a next use, both bounded. Engram tables stay on disk.

mod assemble;
mod budget;
mod pack;

use std::path::PathBuf;

use tokenfare_device::{Device, DeviceError};

use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::progress::Progress;
use crate::weights::Weights;

/// What to do with the drafter of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drafts {
    /// Load it, if there is one.
    Load,
    /// Leave it on disk.
    Skip,
}

/// How to load.
#[derive(Clone, Copy)]
pub struct LoadOptions<'a> {
    /// Whether the drafter is loaded.
    pub drafter: Drafts,
    /// Threads that pack, 0 counts as 1; for every two, one more reads.
    pub threads: usize,
    /// Told the bytes packed so far.
    pub progress: &'a dyn Progress,
}

/// Why weights cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The system gives no thread to read or to pack with.
    #[error("a thread that loads: {0}")]
    Thread(#[source] std::io::Error),
    /// The files cannot be read, or hold a value that is not finite.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The device does not take a tensor.
    #[error("{}: tensor {tensor}: {cause}", path.display())]
    Device {
        /// The file that holds the tensor.
        path: PathBuf,
        /// The tensor, or the common start of a layer's experts.
        tensor: String,
        /// The device's own words.
        cause: Box<DeviceError>,
    },
}

/// Loads the weights of a text run.
///
/// # Errors
/// Names the file and the tensor that cannot be read, holds a value that is not finite, or is not taken by
/// the device.
pub fn load<D: Device>(
    checkpoint: &Checkpoint,
    device: &mut D,
    options: &LoadOptions<'_>,
) -> Result<Weights<D>, LoadError> {
    let parts = pack::pack_all(checkpoint, device, options)?;
    assemble::Assembly::new(checkpoint, device, parts).weights(options.drafter)
}
