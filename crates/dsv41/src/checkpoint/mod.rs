//! A checkpoint folder: configuration, shards, headers and the bytes behind them.
//!
//! Opening reads headers alone and refuses a folder whose files do not hold what the configuration needs.

mod error;
mod file;
mod fingerprint;
mod header;
mod index;
pub mod inventory;
mod names;
mod table;
pub(crate) mod values;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

pub use error::CheckpointError;
pub use file::FileBytes;
pub use header::{HeaderError, HeaderTensor, parse_header};
pub use inventory::{Dtype, TensorSpec};
pub use table::EngramTable;

pub(crate) use index::read_json_file;

use tokenfare_device::refusable;

use crate::config::Config;
use index::ShardEntry;

/// One safetensors file.
#[derive(Debug)]
pub struct Shard {
    /// The file.
    pub path: PathBuf,
    /// Its length in bytes.
    pub bytes: u64,
    file: File,
}

/// Where a tensor lies.
#[derive(Debug, Clone)]
pub struct Tensor {
    /// Element type.
    pub dtype: Dtype,
    /// Shape in elements.
    pub shape: Vec<usize>,
    /// Length in bytes.
    pub bytes: u64,
    shard: usize,
    offset: u64,
    stored: String,
}

/// An opened checkpoint folder whose tensors fit its configuration.
#[derive(Debug)]
pub struct Checkpoint {
    dir: PathBuf,
    config: Config,
    shards: Vec<Shard>,
    tensors: HashMap<String, Tensor>,
    /// What errors name when a tensor is in no shard: the index, or the only shard.
    list: PathBuf,
}

impl Checkpoint {
    /// Opens `dir`: `config.json`, then the headers of all shards, which must hold every tensor of a text run
    /// in the type and shape of the configuration. Tensors beyond those are fine.
    ///
    /// # Errors
    /// Names the file, the tensor or field, what was expected and what was found.
    pub fn open(dir: &Path) -> Result<Self, CheckpointError> {
        let config = Config::read(dir)?;
        let index = dir.join("model.safetensors.index.json");
        let single = dir.join("model.safetensors");
        let (list, entries) = if index.exists() {
            let entries = index::read_index(dir, &index)?;
            (index, entries)
        } else if single.exists() {
            let entry = index::single_shard(dir, &single)?;
            (single, vec![entry])
        } else {
            return Err(CheckpointError::NoWeights { dir: dir.to_owned() });
        };
        let mut checkpoint =
            Self { dir: dir.to_owned(), config, shards: Vec::new(), tensors: HashMap::new(), list };
        checkpoint.read_headers(&entries)?;
        checkpoint.check_places(&entries)?;
        checkpoint.check_inventory()?;
        Ok(checkpoint)
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The files.
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// All tensors by the release's names, in no order.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// A tensor by the release's name.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// Replaces the contents of `buffer` by the bytes of a tensor.
    ///
    /// # Errors
    /// [`CheckpointError::Missing`] if there is no such tensor, [`CheckpointError::Io`] if it cannot be read.
    pub fn read(&self, name: &str, buffer: &mut FileBytes) -> Result<(), CheckpointError> {
        self.read_by(name, |shard, offset, len| buffer.read(&shard.file, offset, len))
    }

    /// As [`Self::read`] for a large tensor that the system's cache does not hold; `false` for any other, which is not
    /// read.
    pub(crate) fn read_past_cache(
        &self,
        name: &str,
        buffer: &mut FileBytes,
    ) -> Result<bool, CheckpointError> {
        self.read_by(name, |shard, offset, len| buffer.read_past_cache(&shard.file, offset, len))
    }

    fn read_by<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Shard, u64, usize) -> std::io::Result<T>,
    ) -> Result<T, CheckpointError> {
        let tensor = self.tensor(name).ok_or_else(|| self.missing(name, "a tensor".to_owned()))?;
        let shard = self.shard(tensor);
        read(shard, tensor.offset, tensor.bytes as usize)
            .map_err(|cause| CheckpointError::Io { path: shard.path.clone(), cause })
    }

    /// Maps the Engram table of `layer`.
    ///
    /// # Errors
    /// [`CheckpointError::Missing`] if the layer has none, [`CheckpointError::Io`] if it cannot be mapped.
    pub fn engram_table(&self, layer: usize) -> Result<EngramTable, CheckpointError> {
        EngramTable::open(self, layer)
    }

    /// Refuses values of a tensor that are NaN or infinite.
    pub(crate) fn check_finite(&self, name: &str, bytes: &[u8]) -> Result<(), CheckpointError> {
        let Some(tensor) = self.tensor(name) else { return Ok(()) };
        let Some((mut at, found)) = values::first_not_finite(tensor.dtype, bytes) else { return Ok(()) };
        let mut position = vec![0; tensor.shape.len()];
        for (index, size) in position.iter_mut().zip(&tensor.shape).rev() {
            (*index, at) = (at % *size as u64, at / *size as u64);
        }
        let path = self.shard(tensor).path.clone();
        Err(CheckpointError::Value { path, tensor: tensor.stored.clone(), found, position })
    }

    /// The file that holds a tensor; the index if none does.
    pub(crate) fn path_of(&self, name: &str) -> &Path {
        self.tensor(name).map_or(&self.list, |t| &self.shard(t).path)
    }

    /// Sorts by place on disk: shard, then position.
    pub(crate) fn place_of(&self, name: &str) -> (usize, u64) {
        self.tensor(name).map_or((usize::MAX, 0), |t| (t.shard, t.offset))
    }

    fn shard(&self, tensor: &Tensor) -> &Shard {
        &self.shards[tensor.shard]
    }

    /// A tensor of the given type.
    fn require(&self, name: &str, dtype: Dtype) -> Result<&Tensor, CheckpointError> {
        let tensor = self.tensor(name).filter(|t| t.dtype == dtype);
        tensor.ok_or_else(|| self.missing(name, format!("{dtype:?}")))
    }

    fn missing(&self, name: &str, expected: String) -> CheckpointError {
        CheckpointError::Missing { path: self.list.clone(), tensor: name.to_owned(), expected }
    }

    fn read_headers(&mut self, entries: &[ShardEntry]) -> Result<(), CheckpointError> {
        for entry in entries {
            let (shard, tensors) = open_shard(entry)?;
            let number = self.shards.len();
            self.shards.push(shard);
            for tensor in tensors {
                self.add(number, tensor)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, shard: usize, found: HeaderTensor) -> Result<(), CheckpointError> {
        let HeaderTensor { name, dtype, shape, offset, bytes } = found;
        match self.tensors.entry(names::canonical(&name).into_owned()) {
            Entry::Vacant(entry) => {
                entry.insert(Tensor { dtype, shape, bytes, shard, offset, stored: name });
                Ok(())
            }
            Entry::Occupied(entry) => {
                let first = entry.get();
                let place =
                    |shard: usize, name: &str| format!("{name} in {}", self.shards[shard].path.display());
                Err(CheckpointError::Duplicate {
                    path: self.shards[shard].path.clone(),
                    tensor: entry.key().clone(),
                    first: place(first.shard, &first.stored),
                    second: place(shard, &name),
                })
            }
        }
    }

    /// Each tensor of the index must be in the shard that the index names.
    fn check_places(&self, entries: &[ShardEntry]) -> Result<(), CheckpointError> {
        for (number, entry) in entries.iter().enumerate() {
            for stored in &entry.tensors {
                let found = self.tensors.get(names::canonical(stored).as_ref());
                match found {
                    Some(tensor) if tensor.shard == number => {}
                    Some(tensor) => {
                        return Err(CheckpointError::Elsewhere {
                            path: self.list.clone(),
                            tensor: stored.clone(),
                            expected: entry.file.clone(),
                            found: entries[tensor.shard].file.clone(),
                        });
                    }
                    None => {
                        return Err(CheckpointError::Missing {
                            path: entry.path.clone(),
                            tensor: stored.clone(),
                            expected: format!("in {} as the index says", entry.file),
                        });
                    }
                }
            }
        }
        Ok(())
    }

    fn check_inventory(&self) -> Result<(), CheckpointError> {
        inventory::visit_text(&self.config, &mut |spec| {
            let expected = format!("{:?} {:?}", spec.dtype, spec.shape);
            let Some(tensor) = self.tensor(&spec.name) else {
                return Err(self.missing(&spec.name, expected));
            };
            if tensor.dtype == spec.dtype && tensor.shape == spec.shape {
                return Ok(());
            }
            Err(CheckpointError::Tensor {
                path: self.shard(tensor).path.clone(),
                tensor: tensor.stored.clone(),
                expected,
                found: format!("{:?} {:?}", tensor.dtype, tensor.shape),
            })
        })
    }
}

/// Opens a shard and parses its header.
fn open_shard(entry: &ShardEntry) -> Result<(Shard, Vec<HeaderTensor>), CheckpointError> {
    let path = &entry.path;
    let tensor = entry.tensors.first().map_or("of any name", String::as_str);
    let unreadable = |cause| CheckpointError::Shard { path: path.clone(), tensor: tensor.to_owned(), cause };
    let damaged = |cause| CheckpointError::Header { path: path.clone(), cause };
    // A pipe would block the open, so the kind is looked at first.
    if !path.metadata().map_err(unreadable)?.is_file() {
        let (expected, found) = ("a regular file".to_owned(), "something else".to_owned());
        return Err(CheckpointError::File { path: path.clone(), expected, found });
    }
    let mut file = File::open(path).map_err(unreadable)?;
    let bytes = file.metadata().map_err(unreadable)?.len();
    if bytes < header::PREFIX {
        return Err(damaged(HeaderError::Short { header: header::PREFIX, file: bytes }));
    }
    let mut prefix = [0; header::PREFIX as usize];
    file.read_exact(&mut prefix).map_err(unreadable)?;
    let length = header::header_len(prefix, bytes).map_err(damaged)?;
    let mut head = Vec::new();
    refusable(|| head.try_reserve_exact(length as usize)).map_err(|cause| unreadable(cause.into()))?;
    head.resize(length as usize, 0);
    file.read_exact_at(&mut head, 0).map_err(unreadable)?;
    let tensors = parse_header(&head, bytes).map_err(damaged)?;
    Ok((Shard { path: path.clone(), bytes, file }, tensors))
}
