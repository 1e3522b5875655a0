//! Which checkpoint a folder holds, by its configuration and the list of its weights.
#![allow(clippy::unwrap_used, reason = "a failed test says enough")]

use std::fs;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView, serialize_to_file};
use tokenfare_dsv41::checkpoint::Checkpoint;

fn tiny() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny")
}

fn copy() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(tiny()).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    folder
}

fn fingerprint(folder: &Path) -> [u8; 32] {
    Checkpoint::open(folder).unwrap().fingerprint().unwrap()
}

fn append(path: &Path, bytes: &str) {
    fs::write(path, fs::read_to_string(path).unwrap() + bytes).unwrap();
}

#[test]
fn configuration_and_index_make_the_fingerprint() {
    let folder = copy();
    let first = fingerprint(folder.path());
    assert_eq!(first, fingerprint(&tiny()));
    append(&folder.path().join("config.json"), "\n");
    let second = fingerprint(folder.path());
    append(&folder.path().join("model.safetensors.index.json"), "\n");
    let third = fingerprint(folder.path());
    assert!(first != second && second != third && first != third);
}

/// Writes every tensor of the tiny checkpoint to one shard without an index, under this free text.
fn in_one_shard(folder: &Path, text: &str) {
    let shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    let bytes = shards.map(|shard| fs::read(tiny().join(shard)).unwrap());
    let files = bytes.each_ref().map(|bytes| SafeTensors::deserialize(bytes).unwrap());
    let tensors: Vec<(String, TensorView<'_>)> = files.iter().flat_map(|file| file.tensors()).collect();
    assert!(tensors.iter().any(|(_, tensor)| tensor.dtype() == Dtype::F32));
    let metadata = [("note".to_owned(), text.to_owned())].into_iter().collect();
    serialize_to_file(tensors, Some(metadata), &folder.join("model.safetensors")).unwrap();
}

#[test]
fn without_an_index_the_headers_make_the_fingerprint() {
    let folder = copy();
    for name in fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().path()) {
        if name.to_str().unwrap().contains("model") {
            fs::remove_file(name).unwrap();
        }
    }
    let found = ["one", "one", "two"].map(|text| {
        in_one_shard(folder.path(), text);
        fingerprint(folder.path())
    });
    assert_eq!(found[0], found[1]);
    assert!(found[1] != found[2] && found[0] != fingerprint(&tiny()));
}
