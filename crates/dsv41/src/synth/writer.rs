//! Files that appear whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::SynthError;
use super::values::Generator;
use crate::checkpoint::TensorSpec;

/// Bytes that are made and written at a time.
const CHUNK: usize = 1 << 20;

/// The files of one folder.
pub(super) struct Output {
    dir: PathBuf,
    written: Vec<PathBuf>,
}

impl Output {
    pub(super) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), written: Vec::new() }
    }

    /// Writes a small file.
    pub(super) fn file(&mut self, name: &str, bytes: &[u8]) -> Result<(), SynthError> {
        self.whole(name, |file| file.write_all(bytes))
    }

    /// Writes a shard with random values; `advance` gets the bytes of each step.
    pub(super) fn shard(
        &mut self,
        name: &str,
        tensors: &[&TensorSpec],
        seed: u64,
        advance: &mut dyn FnMut(u64),
    ) -> Result<(), SynthError> {
        self.whole(name, |file| {
            let header = header(tensors);
            file.write_all(&(header.len() as u64).to_le_bytes())?;
            file.write_all(&header)?;
            tensors.iter().try_for_each(|spec| write_tensor(file, spec, seed, advance))
        })
    }

    /// Removes what was written.
    pub(super) fn remove_all(&self) {
        for path in &self.written {
            // The error that led here is the one to report.
            let _ = fs::remove_file(path);
        }
    }

    /// Runs `body` on a temporary file, syncs it and gives it its name; on an error the file does not stay.
    fn whole(
        &mut self,
        name: &str,
        body: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), SynthError> {
        let path = self.dir.join(name);
        let partial = self.dir.join(format!("{name}.partial"));
        let written = File::create_new(&partial).and_then(|file| {
            let mut file = BufWriter::with_capacity(CHUNK, file);
            body(&mut file)?;
            file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
            fs::rename(&partial, &path)?;
            File::open(&self.dir)?.sync_all()
        });
        if written.is_err() {
            // The first error is the one to report.
            let _ = fs::remove_file(&partial);
        }
        self.written.push(path.clone());
        written.map_err(|cause| SynthError::Io { path, cause })
    }
}

fn write_tensor(
    file: &mut BufWriter<File>,
    spec: &TensorSpec,
    seed: u64,
    advance: &mut dyn FnMut(u64),
) -> io::Result<()> {
    let mut generator = Generator::new(spec, seed);
    let mut buffer = vec![0; CHUNK];
    let mut left = spec.bytes();
    while left > 0 {
        let part = &mut buffer[..left.min(CHUNK as u64) as usize];
        generator.fill(part);
        file.write_all(part)?;
        left -= part.len() as u64;
        advance(part.len() as u64);
    }
    Ok(())
}

/// The JSON header of a shard, padded so that the data is aligned to 8 bytes.
fn header(tensors: &[&TensorSpec]) -> Vec<u8> {
    let mut at = 0;
    let mut items = Map::from_iter([("__metadata__".to_owned(), json!({ "format": "pt" }))]);
    for spec in tensors {
        let end = at + spec.bytes();
        let item = json!({ "dtype": spec.dtype, "shape": spec.shape, "data_offsets": [at, end] });
        items.insert(spec.name.clone(), item);
        at = end;
    }
    let mut header = Value::Object(items).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    header
}
