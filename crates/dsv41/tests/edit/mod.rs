//! A checkpoint of the repository, copied to a folder of its own and changed there.
#![allow(dead_code, clippy::unwrap_used, reason = "a test helper, of which each test file uses a part")]

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use tokenfare_dsv41::checkpoint::parse_header;

pub const INDEX: &str = "model.safetensors.index.json";
pub const SHARD: &str = "model-00001-of-00002.safetensors";
pub const ENGRAM_SHARD: &str = "model-00002-of-00002.safetensors";

/// A copy of a checkpoint.
pub struct Folder {
    dir: TempDir,
}

impl Folder {
    pub fn tiny() -> Self {
        let dir = TempDir::new().unwrap();
        copy_tiny(dir.path());
        Self { dir }
    }

    /// A copy of the mini model.
    pub fn mini() -> Self {
        let dir = TempDir::new().unwrap();
        copy("models/mini", dir.path());
        Self { dir }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Changes a JSON file.
    pub fn json(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let path = self.file(name);
        let mut value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        change(&mut value);
        fs::write(path, value.to_string()).unwrap();
    }

    /// Changes the header of a shard, its data staying as it is.
    pub fn header(&self, shard: &str, change: impl FnOnce(&mut Value)) {
        let path = self.file(shard);
        let bytes = fs::read(&path).unwrap();
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let mut header = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
        change(&mut header);
        self.raw_header(shard, header.to_string().as_bytes());
    }

    /// Replaces the header of a shard, its data staying as it is.
    pub fn raw_header(&self, shard: &str, header: &[u8]) {
        let path = self.file(shard);
        let bytes = fs::read(&path).unwrap();
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let mut out = (header.len() as u64).to_le_bytes().to_vec();
        out.extend_from_slice(header);
        out.extend_from_slice(&bytes[8 + length..]);
        fs::write(path, out).unwrap();
    }

    /// Writes bytes into a tensor's data and returns the name of its file.
    pub fn overwrite(&self, tensor: &str, at: u64, value: &[u8]) -> String {
        let (file, offset, _) = self.place(tensor);
        let shard = fs::OpenOptions::new().write(true).open(self.file(&file)).unwrap();
        shard.write_all_at(value, offset + at).unwrap();
        file
    }

    /// A tensor's data.
    pub fn data(&self, tensor: &str) -> Vec<u8> {
        let (file, offset, bytes) = self.place(tensor);
        let mut data = vec![0; bytes as usize];
        fs::File::open(self.file(&file)).unwrap().read_exact_at(&mut data, offset).unwrap();
        data
    }

    /// Name of a tensor's file, first byte and number of bytes.
    fn place(&self, tensor: &str) -> (String, u64, u64) {
        let index: Value = serde_json::from_slice(&fs::read(self.file(INDEX)).unwrap()).unwrap();
        let file = index["weight_map"][tensor].as_str().unwrap().to_owned();
        let bytes = fs::read(self.file(&file)).unwrap();
        let tensors = parse_header(&bytes, bytes.len() as u64).unwrap();
        let found = tensors.iter().find(|t| t.name == tensor).unwrap();
        (file, found.offset, found.bytes)
    }
}

/// Copies the tiny fixture into a folder.
pub fn copy_tiny(to: &Path) {
    copy("fixtures/tiny", to);
}

fn copy(from: &str, to: &Path) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(from);
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
