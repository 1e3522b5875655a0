//! `tokenfare bench`: measurements, one subcommand each.

mod acceptance;
mod compare;
mod concurrent;
mod device;
mod openai;
mod prompt;
mod receipt;
mod sweep;
mod tables;
mod target;

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
    /// Decode speed of a running server with several streams at once
    Concurrent(concurrent::ConcurrentArgs),
    /// Decode speed and time to the first token of plain OpenAI requests
    Openai(openai::OpenaiArgs),
    /// Speed of cold prompts, and whether repeated ones are reused
    Prompt(prompt::PromptArgs),
    /// Fixed draft depths against the depth rule, on servers that are started for it
    Sweep(sweep::SweepArgs),
    /// Compare two servers cell by cell, alternated, and write a receipt
    Compare(Box<compare::CompareArgs>),
    /// What can be done with a receipt
    Receipt(receipt::ReceiptArgs),
    /// How often the drafter's drafts are kept, by position, domain and temperature
    Acceptance(acceptance::AcceptanceArgs),
    /// How fast the CPU device's operations are, beside how fast it reads memory
    Device(device::DeviceArgs),
}

/// Runs the chosen measurement.
pub fn bench(args: BenchArgs) -> Result<()> {
    match args.bench {
        Bench::Concurrent(args) => concurrent::concurrent(&args),
        Bench::Openai(args) => openai::openai(&args),
        Bench::Prompt(args) => prompt::prompt(&args),
        Bench::Sweep(args) => sweep::sweep(&args),
        Bench::Compare(args) => compare::compare(&args),
        Bench::Receipt(args) => receipt::receipt(&args),
        Bench::Acceptance(args) => acceptance::acceptance(args),
        Bench::Device(args) => device::device(args),
    }
}
