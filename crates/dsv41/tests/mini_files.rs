//! The files of the mini model are the released ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Files about the model, which may be edited.
const PROSE: [&str; 3] = ["ATTRIBUTION.md", "README.md", "SHA256SUMS"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/mini")
}

fn digest(path: &Path) -> String {
    let bytes = std::fs::read(path).expect("a file of the model");
    Sha256::digest(&bytes).iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn every_file_has_the_recorded_digest() {
    let list = std::fs::read_to_string(folder().join("SHA256SUMS")).expect("SHA256SUMS");
    let recorded: BTreeMap<String, String> = list
        .lines()
        .filter_map(|l| l.split_once("  "))
        .map(|(sum, name)| (name.into(), sum.into()))
        .collect();
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder()).expect("the model's folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        if !PROSE.contains(&name.as_str()) {
            found.insert(name, digest(&entry.path()));
        }
    }
    assert_eq!(recorded.len(), 11);
    assert_eq!(found, recorded);
}
