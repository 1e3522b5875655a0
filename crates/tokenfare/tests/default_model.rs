//! A binary away from its workspace looks for the default model, and says where.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{clean, repository};

/// `<root>/opt/bin/tokenfare`: a copy of the binary, as if it were installed.
fn installed(root: &Path) -> Command {
    let binary = root.join("opt/bin/tokenfare");
    std::fs::create_dir_all(root.join("opt/bin")).unwrap();
    std::fs::create_dir_all(root.join("empty")).unwrap();
    if !binary.exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_tokenfare"), &binary).unwrap();
    }
    let mut command = clean(Command::new(binary));
    command.current_dir(root.join("empty")).env("HOME", root.join("home")).env_remove("XDG_DATA_HOME");
    command
}

fn temporary() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    (folder, root)
}

#[cfg(not(feature = "embed-mini"))]
#[test]
fn a_binary_without_a_model_says_where_it_looked() {
    let (_folder, root) = temporary();
    let said = installed(&root).arg("info").output().unwrap();
    assert_eq!(said.status.code(), Some(1));
    let stderr = String::from_utf8(said.stderr).unwrap();
    assert!(
        stderr.starts_with("tokenfare: no MODEL given and no default model found; looked in models/mini, ")
    );
    for place in ["opt/bin/models/mini", "opt/share/tokenfare/models/mini"] {
        assert!(stderr.contains(&root.join(place).display().to_string()), "{stderr}");
    }
    let data = root.join("home/.local/share/tokenfare/models/mini");
    assert!(stderr.trim_end().ends_with(&data.display().to_string()), "{stderr}");
}

#[test]
fn a_model_beside_the_installed_binary_is_found() {
    let (_folder, root) = temporary();
    let mut command = installed(&root);
    let share = root.join("opt/share/tokenfare/models");
    std::fs::create_dir_all(&share).unwrap();
    std::os::unix::fs::symlink(repository("fixtures/tiny").canonicalize().unwrap(), share.join("mini"))
        .unwrap();
    let said = command.arg("info").output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    assert!(String::from_utf8(said.stdout).unwrap().contains("vocabulary    512"));
}

#[cfg(feature = "embed-mini")]
#[test]
fn the_model_in_the_binary_runs_and_is_mended() {
    let (_folder, root) = temporary();
    let answer = || {
        let said = installed(&root).args(["run", "What is the capital of France?"]).output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        assert_eq!(String::from_utf8(said.stdout).unwrap(), "The capital of France is Paris.\n");
    };
    let names = |folder: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    answer();
    let embedded = root.join("home/.local/share/tokenfare/embedded");
    let [version] = &names(&embedded)[..] else { panic!("one version in {}", embedded.display()) };
    let unpacked = embedded.join(version).join("mini");
    let intact = || {
        let names = names(&unpacked);
        assert_eq!(names.len(), 10, "{names:?}");
        let original = repository("models/mini");
        names
            .iter()
            .all(|n| std::fs::read(unpacked.join(n)).unwrap() == std::fs::read(original.join(n)).unwrap())
    };
    assert!(intact());

    let shard = unpacked.join("model-00002-of-00004.safetensors");
    let mut bytes = std::fs::read(&shard).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&shard, bytes).unwrap();
    std::fs::remove_file(unpacked.join("tokenizer.json")).unwrap();
    answer();
    assert!(intact());
}
