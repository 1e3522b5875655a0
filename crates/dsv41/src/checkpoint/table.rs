//! An Engram table on disk.

use std::path::PathBuf;

use memmap2::{Mmap, MmapOptions};
use safetensors::Dtype;
use tokenfare_device::format::{decode_e4m3, decode_e8m0};

use super::inventory::BLOCK;
use super::{Checkpoint, CheckpointError};

/// One layer's Engram table: `rows` rows of `width` E4M3 values, an E8M0 byte per 32, memory-mapped and read
/// on demand.
///
/// The file must not be shortened while the table is in use: the system would end the process at the next
/// read.
pub struct EngramTable {
    rows: u64,
    width: usize,
    codes: Mmap,
    scales: Mmap,
    path: PathBuf,
    tensor: String,
}

impl EngramTable {
    /// Maps the table of `layer`, whose tensors the checkpoint has checked.
    pub(super) fn open(checkpoint: &Checkpoint, layer: usize) -> Result<Self, CheckpointError> {
        let tensor = format!("layers.{layer}.engram.embed.weight");
        let (rows, width) = {
            let info = checkpoint.require(&tensor, Dtype::F8_E4M3)?;
            (info.shape[0] as u64, info.shape[1])
        };
        let scales = map(checkpoint, &format!("layers.{layer}.engram.embed.scale"), Dtype::F8_E8M0)?;
        let codes = map(checkpoint, &tensor, Dtype::F8_E4M3)?;
        let path = checkpoint.path_of(&tensor).to_owned();
        Ok(Self { rows, width, codes, scales, path, tensor })
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Values a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Writes row `index` to `out` (`width` values), each `e4m3 * 2^(scale - 127)`, exact in f32 and in bf16.
    ///
    /// `index` is below [`Self::rows`]: it comes from a hash modulo the bucket counts, whose sum is that
    /// number.
    ///
    /// # Errors
    /// [`CheckpointError::Value`] if a stored value is NaN or overflows f32. Tables are too large to be
    /// looked through when a checkpoint is loaded, so a damaged row shows when it is used.
    pub fn row(&self, index: u64, out: &mut [f32]) -> Result<(), CheckpointError> {
        debug_assert!(index < self.rows && out.len() == self.width);
        let row = index as usize;
        let codes = &self.codes[row * self.width..][..self.width];
        let groups = self.width / BLOCK;
        let scales = &self.scales[row * groups..][..groups];
        let mut finite = true;
        for ((out, codes), scale) in out.chunks_exact_mut(BLOCK).zip(codes.chunks_exact(BLOCK)).zip(scales) {
            let scale = decode_e8m0(*scale);
            for (value, code) in out.iter_mut().zip(codes) {
                *value = decode_e4m3(*code) * scale;
                finite &= value.is_finite();
            }
        }
        if finite { Ok(()) } else { Err(self.damaged(index, out)) }
    }

    fn damaged(&self, index: u64, out: &[f32]) -> CheckpointError {
        let at = out.iter().position(|v| !v.is_finite()).unwrap_or(0);
        let row = index as usize;
        let code = self.codes[row * self.width + at];
        let scale = self.scales[(row * self.width + at) / BLOCK];
        CheckpointError::Value {
            path: self.path.clone(),
            tensor: self.tensor.clone(),
            found: format!("E4M3 code {code:#04x} with E8M0 scale {scale}"),
            position: vec![index, at as u64],
        }
    }
}

fn map(checkpoint: &Checkpoint, name: &str, dtype: Dtype) -> Result<Mmap, CheckpointError> {
    let tensor = checkpoint.require(name, dtype)?;
    let shard = checkpoint.shard(tensor);
    let io = |cause| CheckpointError::Io { path: shard.path.clone(), cause };
    let mut options = MmapOptions::new();
    options.offset(tensor.offset).len(tensor.bytes as usize);
    // SAFETY: the map is only read and inside the file, which the type's documentation asks nobody to shorten.
    let map = unsafe { options.map(&shard.file) }.map_err(io)?;
    // Rows are hashed, so reading ahead would only evict other rows.
    #[cfg(unix)]
    map.advise(memmap2::Advice::Random).map_err(io)?;
    Ok(map)
}
