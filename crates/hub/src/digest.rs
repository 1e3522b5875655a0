//! Hashes by which a hub knows its files.

use std::fmt::{self, Write};

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

/// The hash of a file: large files by their bytes, small ones as Git stores them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Digest {
    /// SHA-256 of the bytes, lower-case hex.
    Sha256(String),
    /// SHA-1 of `blob SIZE\0` and the bytes, lower-case hex.
    GitBlob(String),
}

impl Digest {
    /// The hex digits.
    pub fn hex(&self) -> &str {
        match self {
            Self::Sha256(hex) | Self::GitBlob(hex) => hex,
        }
    }

    /// A hash of this kind for `size` bytes to come.
    pub(crate) fn hasher(&self, size: u64) -> Hasher {
        match self {
            Self::Sha256(_) => Hasher::Sha256(Sha256::new()),
            Self::GitBlob(_) => Hasher::GitBlob(Sha1::new_with_prefix(format!("blob {size}\0"))),
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.hex())
    }
}

/// A hash in the making.
#[derive(Clone)]
pub(crate) enum Hasher {
    Sha256(Sha256),
    GitBlob(Sha1),
}

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hash) => hash.update(bytes),
            Self::GitBlob(hash) => hash.update(bytes),
        }
    }

    /// Lower-case hex.
    pub(crate) fn finish(self) -> String {
        match self {
            Self::Sha256(hash) => hex(&hash.finalize()),
            Self::GitBlob(hash) => hex(&hash.finalize()),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("writing to a string cannot fail");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_hashes() {
        let of = |digest: Digest, bytes: &[u8]| {
            let mut hasher = digest.hasher(bytes.len() as u64);
            hasher.update(bytes);
            hasher.finish()
        };
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of(Digest::Sha256(String::new()), b"abc"), sha256);
        // As `git hash-object` says of an empty file and of "hello\n".
        assert_eq!(of(Digest::GitBlob(String::new()), b""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(
            of(Digest::GitBlob(String::new()), b"hello\n"),
            "ce013625030ba8dba906f756967f9e9ca394464a"
        );
    }
}
