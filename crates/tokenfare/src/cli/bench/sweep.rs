//! `tokenfare bench sweep`: fixed draft depths against the depth rule.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use tokenfare_bench::compare::ArmCommand;
use tokenfare_bench::stop::Stop;
use tokenfare_bench::sweep::Options;

use super::compare::{bar, seconds};
use super::concurrent::CellArgs;
use super::target::{LONGEST, check_output, write_json};
use crate::files::{Existing, check_flag, write_whole};
use crate::output::print;

/// Arguments of `tokenfare bench sweep`.
#[derive(Debug, Args)]
pub struct SweepArgs {
    /// Command of the server; {port} stands for its port, else --port N is added
    #[arg(long, value_name = "CMD")]
    server: String,
    /// Setting of the server; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    env: Vec<String>,
    /// The greatest depth, and the rule's cap
    #[arg(long, value_name = "K", default_value = "5", value_parser = clap::value_parser!(u8).range(1..=15))]
    cap: u8,
    #[command(flatten)]
    cells: CellArgs,
    /// Seconds of rest before each server's start
    #[arg(long, value_name = "S", default_value = "60", allow_negative_numbers = true)]
    settle: f64,
    /// Longest wait for a server to answer, in seconds
    #[arg(long, value_name = "S", default_value = "600", value_parser = clap::value_parser!(u64).range(1..=LONGEST))]
    start_timeout: u64,
    /// Also write everything measured as JSON
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Folder for plots: tokens a second by depth, milliseconds of a round by rows
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
}

/// Runs the sweep.
pub fn sweep(args: &SweepArgs) -> Result<()> {
    let wait = Duration::from_secs(args.start_timeout);
    let options = Options {
        cap: usize::from(args.cap),
        cells: args.cells.options()?,
        settle: seconds("--settle", args.settle)?,
        start: wait,
        reply: wait,
    };
    let command = ArmCommand::new(["--server", "--env"], &args.server, &args.env)?;
    check_output(args.output.as_deref())?;
    check_flag("--plots", args.plots.as_ref().map(|folder| folder.join("plot")).as_deref())?;
    let stop = Stop::by_signals()?;
    let bar = bar();
    bar.set_length(options.servers() as u64);
    let report = options.run(&command, &stop, || bar.inc(1))?;
    bar.finish_and_clear();
    print(&report.text())?;
    args.output.as_deref().map_or(Ok(()), |file| write_json(file, &report))?;
    if let Some(folder) = &args.plots {
        for (name, picture) in report.plots()? {
            write_whole(&folder.join(name), picture.as_bytes(), Existing::Replace)
                .map_err(|e| anyhow!("--plots {}: {e}", folder.display()))?;
        }
    }
    if !report.holds() {
        bail!("a cell failed, or replies are not shown to have the same tokens at every depth");
    }
    Ok(())
}
