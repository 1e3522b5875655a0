//! What the tests of the command share.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses a part, and a test fails by panicking"
)]

pub mod guided;
pub mod server;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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

/// The one line of a command that must end with status 1 and an empty standard output.
pub fn refusal(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!((status.code(), stdout.len()), (Some(1), 0), "{stderr}");
    last_line(&stderr)
}

/// The one line of what a failed command wrote to standard error.
pub fn last_line(stderr: &str) -> String {
    let [line] = stderr.lines().collect::<Vec<_>>()[..] else { panic!("expected one line:\n{stderr}") };
    line.strip_prefix("tokenfare: ").unwrap_or_else(|| panic!("{line}")).to_owned()
}

/// Copies the tiny checkpoint into a folder.
pub fn copy_tiny(to: &Path) {
    for entry in std::fs::read_dir(tiny()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// The command in a shell that first runs `setup`, such as a limit.
pub fn after(setup: &str) -> Command {
    let mut shell = clean(Command::new("sh"));
    shell.args(["-c", &format!("{setup}; exec \"$@\""), "sh", env!("CARGO_BIN_EXE_tokenfare")]);
    shell
}
