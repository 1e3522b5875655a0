//! `tokenfare bench concurrent`: streams of fixed length, several at once.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use tokenfare_bench::load::Load;
use tokenfare_bench::run::cell::Seeds;
use tokenfare_bench::run::{Reference, concurrent};

use super::target::{RepeatedArgs, TargetArgs, check_temperatures};

/// Flags of concurrent cells.
#[derive(Debug, Args)]
pub struct CellArgs {
    /// Numbers of streams
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2,3,4",
        value_parser = clap::value_parser!(u16).range(1..=256))]
    levels: Vec<u16>,
    /// Tokens of a reply
    #[arg(long, value_name = "N", default_value = "128", value_parser = clap::value_parser!(u32).range(2..))]
    tokens: u32,
    #[command(flatten)]
    repeated: RepeatedArgs,
    /// Temperatures, each measured apart; 0 is greedy
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        allow_negative_numbers = true,
        default_value = "0,1"
    )]
    temperatures: Vec<f64>,
    /// Name no seeds in requests
    #[arg(long)]
    no_seed: bool,
    /// Milliseconds between the starts of two streams
    #[arg(long, value_name = "MS", default_value = "0", value_parser = clap::value_parser!(u64).range(..=60_000))]
    stagger_ms: u64,
}

impl CellArgs {
    /// What they ask for.
    pub fn options(&self) -> Result<concurrent::Options> {
        check_temperatures(&self.temperatures)?;
        Ok(concurrent::Options {
            levels: self.levels.iter().map(|&level| usize::from(level)).collect(),
            tokens: self.tokens as usize,
            reps: usize::from(self.repeated.reps),
            temperatures: self.temperatures.clone(),
            loads: self.repeated.loads(Load::concurrent)?,
            seeds: if self.no_seed { Seeds::Unset } else { Seeds::ByStream },
            stagger: Duration::from_millis(self.stagger_ms),
            references: Vec::new(),
        })
    }
}

/// Arguments of `tokenfare bench concurrent`.
#[derive(Debug, Args)]
pub struct ConcurrentArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    cells: CellArgs,
    /// Make each reply once more alone, and compare the tokens' hashes
    #[arg(long)]
    alone: bool,
    /// Make each reply once more alone without drafts, and compare the tokens' hashes
    #[arg(long)]
    serial: bool,
}

/// Runs the measurement.
pub fn concurrent(args: &ConcurrentArgs) -> Result<()> {
    let mut options = args.cells.options()?;
    let references = [(args.alone, Reference::Alone), (args.serial, Reference::Serial)];
    options.references = references.into_iter().filter_map(|(asked, r)| asked.then_some(r)).collect();
    let (client, stop) = args.target.open()?;
    let report = options.run(&client, &stop)?;
    args.target.close(&report.text(), &report)?;
    if !report.holds() {
        bail!("a cell failed, or a reply is not shown to have the tokens of its reference");
    }
    Ok(())
}
