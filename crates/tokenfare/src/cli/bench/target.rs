//! The running server that is measured, and where its numbers go.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use serde::Serialize;
use tokenfare_bench::load::{self, Load};
use tokenfare_bench::stop::Stop;
use tokenfare_bench::{Client, nullserver};

use crate::files::{Existing, check_flag, write_whole};
use crate::output::print;

/// Longest time that a flag may ask for, in seconds: a week.
pub const LONGEST: u64 = 604_800;

/// Flags of every measurement of a running server.
#[derive(Debug, Args)]
pub struct TargetArgs {
    /// The server's address
    #[arg(value_name = "URL")]
    url: String,
    /// Key that the server asks for
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// Longest wait for one reply, in seconds
    #[arg(long, value_name = "S", default_value = "600", value_parser = clap::value_parser!(u64).range(1..=LONGEST))]
    timeout: u64,
    /// Also write everything measured as JSON
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl TargetArgs {
    /// A client, and the user's wish to stop.
    pub fn open(&self) -> Result<(Client, Stop)> {
        check_output(self.output.as_deref())?;
        let timeout = Duration::from_secs(self.timeout);
        Ok((Client::new(&self.url, self.api_key.clone(), timeout)?, Stop::by_signals()?))
    }

    /// Prints `text` and what the client itself costs, and writes `report` where it is asked for.
    pub fn close(&self, text: &str, report: &impl Serialize) -> Result<()> {
        print(&format!("{text}{}\n", nullserver::line()?))?;
        self.output.as_deref().map_or(Ok(()), |file| write_json(file, report))
    }
}

/// Flags of every measurement of cells.
#[derive(Debug, Args)]
pub struct RepeatedArgs {
    /// Repetitions of a cell
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub reps: u16,
    /// JSON lines of {"name", "kind": "completion" or "chat", "text"} in place of the built-in loads
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
}

impl RepeatedArgs {
    /// The loads of the user's file, else those that are built in.
    pub fn loads(&self, built_in: impl FnOnce() -> Vec<Load>) -> Result<Vec<Load>> {
        Ok(self.prompts.as_deref().map_or_else(|| Ok(built_in()), load::read)?)
    }
}

/// Refuses a file that `--output` names and that could not be written after the measurement.
pub fn check_output(file: Option<&Path>) -> Result<()> {
    check_flag("--output", file)
}

/// Writes `report` as JSON to the file that `--output` names.
pub fn write_json(file: &Path, report: &impl Serialize) -> Result<()> {
    let json = serde_json::to_string_pretty(report)? + "\n";
    write_whole(file, json.as_bytes(), Existing::Replace)
        .map_err(|e| anyhow!("--output {}: {e}", file.display()))
}

/// Refuses temperatures that no server takes.
pub fn check_temperatures(temperatures: &[f64]) -> Result<()> {
    match temperatures.iter().find(|t| !(0.0..=100.0).contains(*t)) {
        Some(t) => bail!("--temperatures {t}: expected numbers from 0 to 100"),
        None => Ok(()),
    }
}
