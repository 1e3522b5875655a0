//! `tokenfare bench prompt`: cold prompts, then the same again.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use clap::Args;
use tokenfare_bench::run::prompt::{Options, Require};

use super::target::TargetArgs;

/// Arguments of `tokenfare bench prompt`.
#[derive(Debug, Args)]
pub struct PromptArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Fail unless the server tells that no token of a first prompt was cached
    #[arg(long)]
    require_cold: bool,
    /// Fail unless the server tells that tokens of a repeated prompt were cached
    #[arg(long)]
    require_reuse: bool,
    /// Most tokens of prompt and reply together [default: what the server states]
    #[arg(long, value_name = "TOKENS")]
    context: Option<usize>,
}

fn require(asked: bool) -> Require {
    if asked { Require::Told } else { Require::Nothing }
}

/// Runs the measurement.
pub fn prompt(args: &PromptArgs) -> Result<()> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let options = Options {
        cold: require(args.require_cold),
        reuse: require(args.require_reuse),
        context: args.context,
        nonce: since.as_micros().to_string(),
    };
    let (client, stop) = args.target.open()?;
    let report = options.run(&client, &stop)?;
    args.target.close(&report.text(), &report)?;
    if !report.holds() {
        bail!("a prompt failed, or what is required of it does not hold");
    }
    Ok(())
}
