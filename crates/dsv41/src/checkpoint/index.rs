//! Which shard holds which tensor, and which files a checkpoint may name.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use tokenfare_device::refusable;

use super::CheckpointError;
use super::header::Pairs;

/// Beyond this a JSON file of a checkpoint is not read: the released index takes about 10 MB.
const LONGEST_JSON: u64 = 256 << 20;

#[derive(Deserialize)]
struct IndexFile {
    weight_map: Pairs<String>,
}

/// A shard by its name in the folder, with the tensors that the index puts there.
pub(super) struct ShardEntry {
    pub(super) file: String,
    pub(super) path: PathBuf,
    pub(super) tensors: Vec<String>,
}

/// Reads a small JSON file whole.
pub(crate) fn read_json_file(path: &Path) -> Result<Vec<u8>, CheckpointError> {
    let io = |cause| CheckpointError::Io { path: path.to_owned(), cause };
    let metadata = fs::metadata(path).map_err(io)?;
    if !metadata.is_file() || metadata.len() > LONGEST_JSON {
        let found =
            if metadata.is_file() { format!("{} bytes", metadata.len()) } else { "something else".into() };
        let expected = format!("a file of at most {LONGEST_JSON} bytes");
        return Err(CheckpointError::File { path: path.to_owned(), expected, found });
    }
    let mut bytes = Vec::new();
    refusable(|| bytes.try_reserve_exact(metadata.len() as usize)).map_err(|cause| io(cause.into()))?;
    File::open(path).and_then(|f| f.take(LONGEST_JSON).read_to_end(&mut bytes)).map_err(io)?;
    Ok(bytes)
}

/// The shards of an index, in order of their names.
pub(super) fn read_index(dir: &Path, path: &Path) -> Result<Vec<ShardEntry>, CheckpointError> {
    let index: IndexFile = serde_json::from_slice(&read_json_file(path)?)
        .map_err(|e| CheckpointError::Index { path: path.to_owned(), cause: e.to_string() })?;
    let mut pairs = index.weight_map.0;
    pairs.sort_by(|a, b| a.1.cmp(&b.1));
    let mut shards: Vec<ShardEntry> = Vec::new();
    for (tensor, file) in pairs {
        match shards.last_mut() {
            Some(last) if last.file == file => last.tensors.push(tensor),
            _ => {
                let shard = inside(dir, path, &tensor, &file)?;
                shards.push(ShardEntry { file, path: shard, tensors: vec![tensor] });
            }
        }
    }
    Ok(shards)
}

/// The only shard of a folder without an index.
pub(super) fn single_shard(dir: &Path, path: &Path) -> Result<ShardEntry, CheckpointError> {
    let file = "model.safetensors";
    let path = inside(dir, path, "of any name", file)?;
    Ok(ShardEntry { file: file.to_owned(), path, tensors: Vec::new() })
}

/// The path of a shard, which must lie in the folder: by its name, and after links are followed.
///
/// Links may also lead into the `blobs` folder of a hub cache (`models--*/snapshots/<revision>` ->
/// `models--*/blobs`).
fn inside(dir: &Path, index: &Path, tensor: &str, file: &str) -> Result<PathBuf, CheckpointError> {
    let outside =
        |file: String| CheckpointError::Outside { path: index.to_owned(), tensor: tensor.into(), file };
    let name = Path::new(file);
    let plain = name.components().all(|part| matches!(part, Component::Normal(_)));
    if file.is_empty() || file.contains('\\') || !plain {
        return Err(outside(file.to_owned()));
    }
    let path = dir.join(name);
    let unreadable =
        |cause: io::Error| CheckpointError::Shard { path: path.clone(), tensor: tensor.into(), cause };
    let root = dir.canonicalize().map_err(unreadable)?;
    let target = path.canonicalize().map_err(unreadable)?;
    if target.starts_with(&root) || hub_blobs(&root).is_some_and(|blobs| target.starts_with(blobs)) {
        return Ok(path);
    }
    Err(outside(format!("{file} -> {}", target.display())))
}

/// The blob folder of the hub cache that `snapshot` belongs to, if it is a snapshot.
fn hub_blobs(snapshot: &Path) -> Option<PathBuf> {
    let snapshots = snapshot.parent()?;
    let repository = snapshots.parent()?;
    (snapshots.file_name()? == "snapshots").then(|| repository.join("blobs"))
}
