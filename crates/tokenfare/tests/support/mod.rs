//! What the tests of the command share.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod guided;
pub mod server;

use std::path::PathBuf;
use std::process::Command;

/// A path of the repository.
pub fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The mini checkpoint.
pub fn mini() -> String {
    repository("models/mini").display().to_string()
}

/// The tiny checkpoint.
pub fn tiny() -> String {
    repository("fixtures/tiny").display().to_string()
}

/// The command, without settings of the surroundings.
pub fn tokenfare() -> Command {
    clean(Command::new(env!("CARGO_BIN_EXE_tokenfare")))
}

/// Takes this process's settings away from a command.
pub fn clean(mut command: Command) -> Command {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TF_")) {
        command.env_remove(name);
    }
    command
}
