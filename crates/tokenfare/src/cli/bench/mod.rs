//! `tokenfare bench`: measurements, one subcommand each.

mod acceptance;
mod tables;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Arguments of `tokenfare bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// How often the drafter's drafts are kept, by position, domain and temperature
    Acceptance(acceptance::AcceptanceArgs),
}

/// Runs the chosen measurement.
pub fn bench(args: BenchArgs) -> Result<()> {
    match args.bench {
        Bench::Acceptance(args) => acceptance::acceptance(args),
    }
}
