//! Where stored tables are.

use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tokenfare_pricing::{NO_ID, TableShape};

use super::identity::hex;
use super::table_file::{ENGINE, StoredTable, Unreadable};

/// The name of this engine's table for a shape and an id: 16 hex digits of the SHA-256 of both; of the shape alone
/// where nobody named an id.
pub fn file_name(shape: TableShape, id: &str) -> String {
    let text = if id == NO_ID { shape.to_string() } else { format!("{shape} id={id}") };
    let digest = hex(&Sha256::digest(text));
    format!("calib-{ENGINE}-{}.json", &digest[..16])
}

/// What a folder of stored tables holds, by name.
pub struct Listing {
    /// Tables that can be read.
    pub tables: Vec<(PathBuf, StoredTable)>,
    /// Files that cannot, and why.
    pub skipped: Vec<(PathBuf, Unreadable)>,
}

/// Reads every `calib-*.json` of `folder`. A folder that is not there holds none.
///
/// # Errors
/// A folder that cannot be listed.
pub fn list(folder: &Path) -> io::Result<Listing> {
    let mut listing = Listing { tables: Vec::new(), skipped: Vec::new() };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(listing),
        Err(cause) => return Err(cause),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with("calib-") && name.ends_with(".json") {
            paths.push(path);
        }
    }
    paths.sort();
    for path in paths {
        match StoredTable::read(&path) {
            Ok(table) => listing.tables.push((path, table)),
            Err(cause) => listing.skipped.push((path, cause)),
        }
    }
    Ok(listing)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: TableShape = TableShape { slots: 4, world: 1, dspark: true, context: 4096 };

    #[test]
    fn names_follow_the_shape_and_the_id() {
        let of_shape = hex(&Sha256::digest("slots=4 world=1 dspark=1 context=4096"));
        assert_eq!(file_name(SHAPE, NO_ID), format!("calib-tokenfare-{}.json", &of_shape[..16]));
        let both = hex(&Sha256::digest("slots=4 world=1 dspark=1 context=4096 id=ab"));
        assert_eq!(file_name(SHAPE, "ab"), format!("calib-tokenfare-{}.json", &both[..16]));
        assert_ne!(file_name(TableShape { slots: 1, ..SHAPE }, "ab"), file_name(SHAPE, "ab"));
    }
}
