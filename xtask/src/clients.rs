//! The tests of `clients/`: the built server through client packages of Python.

use crate::shell;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;

/// Packages by exact version: those that tests use, and those that they bring along.
const PACKAGES: [&str; 2] = ["clients/requirements.txt", "clients/constraints.txt"];

/// A virtual environment that is being made while something else runs.
pub struct Installing(JoinHandle<Result<PathBuf>>);

/// Begins to make the environment, or to bring it up to date.
pub fn install() -> Installing {
    Installing(std::thread::spawn(environment))
}

impl Installing {
    /// Builds the server and runs the tests against it; without an environment they are skipped, or fail if required.
    pub fn test(self) -> Result<()> {
        let made = self.0.join().unwrap_or_else(|_| bail!("the installation ended in a panic"));
        let python = match made {
            Ok(python) => python,
            Err(error) if std::env::var("TOKENFARE_CLIENTS").is_ok_and(|v| v == "required") => {
                return Err(error.context("the tests of clients are required"));
            }
            Err(error) => {
                println!("clients: skipped, nothing was tested: {error:#}");
                return Ok(());
            }
        };
        shell::run(&mut shell::cargo(&["test", "--workspace", "--no-run", "--quiet"]))?;
        let mut pytest = Command::new(python);
        pytest.args(["-m", "pytest", "-p", "no:cacheprovider", "clients"]).current_dir(shell::root());
        pytest.env("TOKENFARE_BIN", target().join("debug").join("tokenfare"));
        shell::run(&mut pytest)
    }
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| shell::root().join("target"), PathBuf::from)
}

/// The interpreter of an environment with the packages.
fn environment() -> Result<PathBuf> {
    let folder = target().join("clients");
    let python = folder.join("bin").join("python3");
    let wanted = PACKAGES
        .iter()
        .map(|file| {
            std::fs::read_to_string(shell::root().join(file)).with_context(|| format!("cannot read {file}"))
        })
        .collect::<Result<String>>()?;
    let receipt = folder.join("installed.txt");
    if python.exists() && std::fs::read_to_string(&receipt).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    shell::output(shell::command("python3", &["-m", "venv"]).arg(&folder))?;
    pip(&python)?;
    std::fs::write(&receipt, wanted).with_context(|| format!("cannot write {}", receipt.display()))?;
    Ok(python)
}

fn pip(python: &Path) -> Result<()> {
    let [requirements, constraints] = PACKAGES;
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]);
    pip.args(["-r", requirements, "-c", constraints]).current_dir(shell::root());
    shell::output(&mut pip).map(drop)
}
