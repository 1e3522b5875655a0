//! What a stored table belongs to.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// Hashes that a stored table is known by, in lower-case hex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Of the device's name, the drafts flag and the checkpoint.
    pub base: String,
    /// Of those and the running executable's bytes.
    pub id: String,
}

/// The hash of `parts`, each with its length.
fn hash(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}

/// Bytes in lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Identity {
    /// The identity of a device, a drafts flag, a checkpoint's fingerprint and an executable's hash.
    pub fn new(device: &str, drafts: bool, checkpoint: &[u8], executable: &[u8]) -> Self {
        let base = hash(&[device.as_bytes(), &[u8::from(drafts)], checkpoint]);
        let id = hash(&[base.as_bytes(), executable]);
        Self { base, id }
    }
}

/// SHA-256 of the running executable's bytes.
///
/// # Errors
/// An executable that cannot be found or read.
pub fn executable() -> Result<[u8; 32]> {
    // On Linux this name is the running file, even after another one took its place.
    let own = PathBuf::from("/proc/self/exe");
    let path = if own.exists() { own } else { std::env::current_exe().context("the running executable")? };
    let reading = || format!("reading {}", path.display());
    let mut file = BufReader::with_capacity(1 << 20, File::open(&path).with_context(reading)?);
    let mut hash = Sha256::new();
    loop {
        let bytes = file.fill_buf().with_context(reading)?;
        if bytes.is_empty() {
            return Ok(hash.finalize().into());
        }
        hash.update(bytes);
        let read = bytes.len();
        file.consume(read);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_changes_the_identity_and_the_executable_the_id_alone() {
        let of =
            |device, drafts, checkpoint: &[u8], exe: &[u8]| Identity::new(device, drafts, checkpoint, exe);
        let one = of("cpu (scalar, 1 thread)", true, b"c", b"e");
        assert_eq!(one, of("cpu (scalar, 1 thread)", true, b"c", b"e"));
        assert_eq!((one.base.len(), one.id.len()), (64, 64));
        for other in [
            of("cpu (avx2, 1 thread)", true, b"c", b"e"),
            of("cpu (scalar, 1 thread)", false, b"c", b"e"),
            of("cpu (scalar, 1 thread)", true, b"d", b"e"),
        ] {
            assert!(other.base != one.base && other.id != one.id);
        }
        let built_anew = of("cpu (scalar, 1 thread)", true, b"c", b"f");
        assert!(built_anew.base == one.base && built_anew.id != one.id);
    }

    #[test]
    fn the_running_executable_is_hashed() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(executable().unwrap(), <[u8; 32]>::from(Sha256::digest(bytes)));
    }
}
