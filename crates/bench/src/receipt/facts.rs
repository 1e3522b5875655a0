//! What a receipt names of the arms.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokenfare_settings::registry;

use crate::compare::ArmCommand;

/// Files that identify a checkpoint, where it has them.
const IDENTITY: [&str; 2] = ["config.json", "model.safetensors.index.json"];

/// One arm; absent parts are not recorded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ArmFacts {
    /// The command.
    pub command: String,
    /// Settings in force.
    pub settings: BTreeMap<String, String>,
    /// SHA-256 of the binary.
    pub binary_sha256: Option<String>,
    /// Commit that it was built from.
    pub commit: Option<String>,
    /// Name of the checkpoint's folder, and SHA-256 of its config and weight index.
    pub checkpoint: Option<String>,
}

/// What is known of tool, arms and arguments.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// The tool's version.
    pub tool: String,
    /// Its arguments.
    pub arguments: String,
    /// Base.
    pub base: ArmFacts,
    /// This.
    pub this: ArmFacts,
    /// Device of the servers, in words.
    pub device: Option<String>,
    /// Seconds between a run's end and the next server's start.
    pub settle_seconds: f64,
    /// When the comparison began, in seconds since 1970.
    pub began: Option<u64>,
}

fn sha256(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut bytes = io::BufReader::new(File::open(path)?);
    let mut piece = vec![0; 1 << 20];
    loop {
        let read = io::Read::read(&mut bytes, &mut piece)?;
        if read == 0 {
            break;
        }
        hasher.update(&piece[..read]);
    }
    Ok(hex(&hasher.finalize()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The file that a program's name stands for.
fn program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name));
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The checkpoint among a command's words: the folder that has a config.
fn checkpoint(command: &ArmCommand) -> Option<String> {
    let folder = command.words().iter().map(Path::new).find(|path| path.join(IDENTITY[0]).is_file())?;
    let mut hasher = Sha256::new();
    for bytes in IDENTITY.iter().filter_map(|name| std::fs::read(folder.join(name)).ok()) {
        hasher.update(&bytes);
    }
    let name = folder.canonicalize().ok()?.file_name()?.to_string_lossy().into_owned();
    Some(format!("{name}, config and index {}", hex(&hasher.finalize())))
}

/// The commit of the working folder, with a mark where tracked files differ from it.
pub fn commit() -> Option<String> {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok().filter(|o| o.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let head = git(&["rev-parse", "HEAD"]).filter(|head| !head.is_empty())?;
    let clean = git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Some(if clean { head } else { format!("{head}-dirty") })
}

impl ArmFacts {
    /// Of a command; `commit` is what its binary was built from, if somebody knows.
    pub fn of(command: &ArmCommand, commit: Option<String>) -> Self {
        let ours = |name: &str| registry().iter().any(|setting| setting.name == name);
        let own = std::env::vars().filter(|(name, _)| ours(name));
        let set = command.env.clone().into_iter();
        Self {
            command: command.text(),
            // The last of two settings is in force. Keys are secrets.
            settings: own.chain(set).filter(|(name, _)| !name.contains("KEY")).collect(),
            binary_sha256: program(command.program()).and_then(|path| sha256(&path).ok()),
            commit,
            checkpoint: checkpoint(command),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arm_is_named_by_its_binary_and_its_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("small");
        std::fs::create_dir(&model).unwrap();
        std::fs::write(model.join("config.json"), "abc").unwrap();
        let binary = folder.path().join("server");
        std::fs::write(&binary, "abc").unwrap();
        let text = format!("{} serve {}", binary.display(), model.display());
        let env = ["TF_X=1".to_owned(), "TF_API_KEY=secret".to_owned()];
        let facts = ArmFacts::of(&ArmCommand::new(["--base", "--env-base"], &text, &env).unwrap(), None);
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(facts.binary_sha256.as_deref(), Some(abc));
        assert_eq!(facts.checkpoint, Some(format!("small, config and index {abc}")));
        assert_eq!((facts.settings.get("TF_X").map(String::as_str), facts.commit), (Some("1"), None));
        assert!(!facts.settings.contains_key("TF_API_KEY"));
    }
}
