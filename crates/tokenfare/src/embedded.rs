//! The mini model inside the binary (feature `embed-mini`).
//!
//! A checkpoint is a folder: tables are memory-mapped from it. So the files are written once to the user's data
//! folder, each under a temporary name that is renamed when it is on disk, and compared with the binary's own at
//! each start.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

macro_rules! files {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_bytes!(concat!("../../../models/mini/", $name)).as_slice())),+]
    };
}

/// Names and contents: what the program reads, and the sources that the weights' licences ask to name.
const FILES: [(&str, &[u8]); 10] = files![
    "ATTRIBUTION.md",
    "config.json",
    "generation_config.json",
    "model-00001-of-00004.safetensors",
    "model-00002-of-00004.safetensors",
    "model-00003-of-00004.safetensors",
    "model-00004-of-00004.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
];

/// What names this version of the model.
const SUMS: &[u8] = include_bytes!("../../../models/mini/SHA256SUMS");

/// The model's folder below `data`, with every file as it is in the binary.
///
/// # Errors
/// The folder cannot be written.
pub fn unpacked(data: &Path) -> Result<PathBuf> {
    let version: String = Sha256::digest(SUMS).iter().take(6).map(|b| format!("{b:02x}")).collect();
    let dir = data.join("tokenfare/embedded").join(version).join("mini");
    unpack(&dir).with_context(|| {
        format!("cannot write the built-in model to {} (its place follows XDG_DATA_HOME)", dir.display())
    })?;
    Ok(dir)
}

fn unpack(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    for (name, content) in FILES {
        let path = dir.join(name);
        if fs::read(&path).is_ok_and(|found| found == content) {
            continue;
        }
        let part = dir.join(format!(".{name}.{}", std::process::id()));
        let mut file = File::create(&part)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&part, &path)?;
    }
    File::open(dir)?.sync_all()
}
