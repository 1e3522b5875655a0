//! `tokenfare bench openai`: plain requests, one at a time.

use anyhow::{Result, bail};
use clap::Args;
use tokenfare_bench::load::Load;
use tokenfare_bench::run::openai;

use super::target::{RepeatedArgs, TargetArgs, check_temperatures};

/// Arguments of `tokenfare bench openai`.
#[derive(Debug, Args)]
pub struct OpenaiArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Most tokens of a reply
    #[arg(long, value_name = "N", default_value = "256", value_parser = clap::value_parser!(u32).range(2..))]
    tokens: u32,
    #[command(flatten)]
    repeated: RepeatedArgs,
    /// Temperatures, each measured apart; 0 is greedy
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        allow_negative_numbers = true,
        default_value = "1,0"
    )]
    temperatures: Vec<f64>,
}

/// Runs the measurement.
pub fn openai(args: &OpenaiArgs) -> Result<()> {
    check_temperatures(&args.temperatures)?;
    let options = openai::Options {
        tokens: args.tokens as usize,
        reps: usize::from(args.repeated.reps),
        temperatures: args.temperatures.clone(),
        loads: args.repeated.loads(Load::openai)?,
    };
    let (client, stop) = args.target.open()?;
    let report = options.run(&client, &stop)?;
    args.target.close(&report.text(), &report)?;
    if report.failed() {
        bail!("a cell failed, or the hashes of its repetitions differ");
    }
    Ok(())
}
