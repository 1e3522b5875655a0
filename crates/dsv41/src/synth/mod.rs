//! Random checkpoints in the release layout, for tests and for measurements without a download.
//!
//! Values have the statistics that keep every mechanism of the model alive: neighbouring scales differ,
//! routers choose, gates open and close, and sublayers are small beside the residual.

mod error;
mod preset;
mod tokenizer;
mod values;
mod writer;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

pub use error::SynthError;
pub use preset::Preset;

use writer::Output;

use crate::checkpoint::inventory::inventory;
use crate::checkpoint::{Checkpoint, TensorSpec};
use crate::config;
use crate::progress::Progress;
use crate::tokenizer::{Tokenizer, token_map};

/// Writes a checkpoint with its tokenizer to `dir`, which is made if it is missing and must be empty, and
/// opens it.
///
/// The same preset and seed give the same bytes. Each file is written under a temporary name, synced and
/// renamed, the index last, so that a folder that was cut short does not open. After an error the files
/// written so far are removed.
///
/// # Errors
/// Names the path and the cause: a folder that holds something, a full disk, a path that cannot be written.
pub fn write(
    dir: &Path,
    preset: Preset,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Checkpoint, SynthError> {
    prepare(dir)?;
    let mut output = Output::new(dir);
    let written = write_all(&mut output, dir, preset, seed, progress);
    if written.is_err() {
        output.remove_all();
    }
    written
}

/// Makes the folder, or checks that it is empty.
fn prepare(dir: &Path) -> Result<(), SynthError> {
    let io = |cause| SynthError::Io { path: dir.to_owned(), cause };
    fs::create_dir_all(dir).map_err(io)?;
    match fs::read_dir(dir).map_err(io)?.next() {
        None => Ok(()),
        Some(entry) => {
            let found = entry.map_err(io)?.file_name().to_string_lossy().into_owned();
            Err(SynthError::NotEmpty { dir: dir.to_owned(), found })
        }
    }
}

fn write_all(
    output: &mut Output,
    dir: &Path,
    preset: Preset,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Checkpoint, SynthError> {
    output.file("tokenizer.json", tokenizer::tokenizer_json().as_bytes())?;
    output.file("tokenizer_config.json", tokenizer::tokenizer_config_json().as_bytes())?;
    let compressed_vocab = token_map(&Tokenizer::open(dir, tokenizer::VOCAB)?)?.size;
    let json = preset.config(compressed_vocab);
    let config = config::parse(json.as_bytes()).map_err(SynthError::Preset)?;
    output.file("config.json", json.as_bytes())?;
    write_shards(output, &inventory(&config), seed, progress)?;
    Ok(Checkpoint::open(dir)?)
}

/// Writes the tensors, a shard for each group of the release, then the index.
fn write_shards(
    output: &mut Output,
    specs: &[TensorSpec],
    seed: u64,
    progress: &dyn Progress,
) -> Result<(), SynthError> {
    let mut shards: Vec<(&str, Vec<&TensorSpec>)> = Vec::new();
    for spec in specs {
        let name = group(&spec.name);
        match shards.iter_mut().find(|(other, _)| *other == name) {
            Some((_, tensors)) => tensors.push(spec),
            None => shards.push((name, vec![spec])),
        }
    }
    let total = specs.iter().map(TensorSpec::bytes).sum();
    let mut done = 0;
    let mut map = BTreeMap::new();
    for (number, (_, tensors)) in shards.iter().enumerate() {
        let file = format!("model-{:05}-of-{:05}.safetensors", number + 1, shards.len());
        output.shard(&file, tensors, seed, &mut |bytes| {
            done += bytes;
            progress.advance(done, total);
        })?;
        map.extend(tensors.iter().map(|spec| (spec.name.as_str(), file.clone())));
    }
    let index = serde_json::json!({ "metadata": { "total_size": total }, "weight_map": map });
    output.file("model.safetensors.index.json", format!("{index:#}\n").as_bytes())
}

/// What shares a file, as in the release: a layer, a drafter block, a layer's Engram, the embedding, the
/// rest.
fn group(name: &str) -> &str {
    let parts: Vec<&str> = name.splitn(4, '.').collect();
    match parts.as_slice() {
        ["layers", layer, "engram", _] => &name[..7 + layer.len() + ".engram".len()],
        ["layers" | "mtp", layer, ..] => &name[..parts[0].len() + 1 + layer.len()],
        ["embed", ..] => "embed",
        _ => "head",
    }
}
