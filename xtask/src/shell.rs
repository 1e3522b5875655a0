//! Running other programs.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The repository's root: the folder above the one that cargo runs this crate from.
pub fn root() -> PathBuf {
    let built = env!("CARGO_MANIFEST_DIR");
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(built), PathBuf::from);
    folder.parent().map(Path::to_path_buf).unwrap_or_default()
}

/// `program` with `args`, to be run at the root.
pub fn command(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    command
}

/// Cargo with `args`, to be run at the root.
pub fn cargo(args: &[&str]) -> Command {
    command(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()), args)
}

/// Runs to the end; an error names the command that failed.
pub fn run(command: &mut Command) -> Result<()> {
    let words = words(command);
    eprintln!("$ {words}");
    let status = command.status().with_context(|| format!("cannot start `{words}`"))?;
    if !status.success() {
        bail!("`{words}` failed ({status})");
    }
    Ok(())
}

/// Standard output of a command that succeeds.
pub fn output(command: &mut Command) -> Result<Vec<u8>> {
    let words = words(command);
    let output = command.output().with_context(|| format!("cannot start `{words}`"))?;
    if !output.status.success() {
        bail!("`{words}` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(output.stdout)
}

/// Whether a command starts and succeeds, in silence.
pub fn succeeds(program: &str, args: &[&str]) -> bool {
    command(program, args).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// The command as it would be typed.
pub fn words(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
