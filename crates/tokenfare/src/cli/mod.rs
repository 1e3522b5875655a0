//! The command line: one definition of each command and flag.

mod access;
mod bench;
mod calibrate;
mod info;
mod logs;
mod pages;
mod prices;
mod pull;
mod replay;
mod run;
mod serve;
mod settings;
mod simulate;
mod synth;

use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde_json::json;

use crate::dialect;

/// Serve and run DeepSeek-V4.1 with speculative decoding that is exact and priced.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write one reply in the terminal; without a prompt, chat
    Run(run::RunArgs),
    /// Serve the model over HTTP
    Serve(serve::ServeArgs),
    /// Download a checkpoint from a Hugging Face hub
    Pull(pull::PullArgs),
    /// Describe a checkpoint without loading it
    Info(info::InfoArgs),
    /// Time what windows of drafts cost on this machine
    Calibrate(calibrate::CalibrateArgs),
    /// List every setting: value, where it comes from, default
    Settings(settings::SettingsArgs),
    /// Read an accept log: what was kept, and what other rules would have earned
    Replay(replay::ReplayArgs),
    /// Play depth rules in worlds whose acceptance and costs are known
    Simulate(simulate::SimulateArgs),
    /// Write a random checkpoint in the release layout
    Synth(synth::SynthArgs),
    /// Measure this engine
    Bench(bench::BenchArgs),
    /// Print a completion script for a shell
    Completions(pages::CompletionsArgs),
    /// Print the manual page
    Man,
    /// Print this reference as Markdown
    #[command(hide = true)]
    Reference,
}

impl Cli {
    /// Runs the chosen command.
    pub fn run(self) -> Result<()> {
        match self.command {
            Command::Run(args) => run::run(args),
            Command::Serve(args) => serve::serve(args),
            Command::Pull(args) => pull::pull(args),
            Command::Info(args) => info::info(args),
            Command::Calibrate(args) => calibrate::calibrate(args),
            Command::Settings(args) => settings::settings(args),
            Command::Replay(args) => replay::replay(args),
            Command::Simulate(args) => simulate::simulate(args),
            Command::Synth(args) => synth::synth(args),
            Command::Bench(args) => bench::bench(args),
            Command::Completions(args) => pages::completions(args),
            Command::Man => pages::man(),
            Command::Reference => pages::reference(),
        }
    }
}

/// Which device runs the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DeviceKind {
    /// The best this build has: the CPU
    Auto,
    /// The CPU, by the widest instruction set it has (TF_CPU_PATH)
    Cpu,
    /// Plain f32, slow: the yardstick of the others
    Reference,
}

/// Flags of every command that loads a model.
#[derive(Debug, Clone, Args)]
pub struct EngineArgs {
    /// Device to run on
    #[arg(long, value_enum, default_value = "auto")]
    pub device: DeviceKind,
    /// Keep caches in f32 instead of the trained formats (reference device only)
    #[arg(long)]
    pub exact_caches: bool,
    /// Worker threads [default: the CPUs this process may use]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Most tokens of prompt and reply together [default: the model's own]
    #[arg(long, value_name = "TOKENS")]
    pub context: Option<usize>,
    /// Verify no drafts: one token a round, the same text
    #[arg(long)]
    pub no_drafts: bool,
    /// Folder of the drafter; it must be of the same model, and in this build the model's own
    #[arg(long, value_name = "PATH", conflicts_with = "no_drafts")]
    pub drafter: Option<PathBuf>,
    /// Memory for kept prompt states, in GiB; 0 keeps none
    #[arg(long, value_name = "GIB", default_value = "1", allow_negative_numbers = true)]
    pub prompt_cache_gib: f64,
}

impl EngineArgs {
    /// Memory for kept prompt states, in bytes.
    pub fn prompt_cache_bytes(&self) -> usize {
        (self.prompt_cache_gib * f64::from(1 << 30)) as usize
    }
}

/// Flags of how tokens are drawn where a request says nothing.
#[derive(Debug, Clone, Args)]
pub struct SamplingArgs {
    /// 0 is greedy [default: 1.0 for serve, 0 for run]
    #[arg(long, allow_negative_numbers = true)]
    pub temperature: Option<f64>,
    /// Nucleus mass, above 0, at most 1
    #[arg(long, default_value = "1.0", allow_negative_numbers = true)]
    pub top_p: f64,
    /// Likeliest tokens kept; 0 keeps all
    #[arg(long, default_value = "0")]
    pub top_k: usize,
    /// Least probability relative to the likeliest, 0 to 1
    #[arg(long, default_value = "0.0", allow_negative_numbers = true)]
    pub min_p: f64,
    /// Most tokens of a reply [default: the room left in the context; 512 for run]
    #[arg(long, value_name = "TOKENS")]
    pub max_tokens: Option<usize>,
    /// Let the model reason before it answers
    #[arg(long, overrides_with = "no_thinking")]
    pub thinking: bool,
    /// Answer directly (the default)
    #[arg(long)]
    pub no_thinking: bool,
    /// Reasoning effort: low, high, max or 1 to 100
    #[arg(long, value_name = "EFFORT")]
    pub reasoning_effort: Option<String>,
}

impl SamplingArgs {
    /// Checks what every request would be refused for.
    pub fn check(&self) -> Result<()> {
        if let Some(temperature) = self.temperature
            && !(0.0..=100.0).contains(&temperature)
        {
            bail!("--temperature {temperature}: expected a number from 0 to 100");
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            bail!("--top-p {}: expected a number above 0, at most 1", self.top_p);
        }
        if !(0.0..=1.0).contains(&self.min_p) {
            bail!("--min-p {}: expected a number from 0 to 1", self.min_p);
        }
        if let Some(given) = &self.reasoning_effort {
            dialect::effort(&json!(given)).map_err(|e| anyhow!("--reasoning-effort {given}: {e}"))?;
        }
        Ok(())
    }
}

/// The flag of every command that prices drafts.
#[derive(Debug, Clone, Args)]
pub struct CostArgs {
    /// Where the table of draft costs comes from: as TF_DSV41_CALIB
    #[arg(long, value_name = "MODE")]
    pub draft_costs: Option<String>,
}

/// The model argument.
#[derive(Debug, Clone, Args)]
pub struct ModelArg {
    /// Checkpoint folder [default: the mini model that ships with Tokenfare]
    #[arg(value_name = "MODEL")]
    pub model: Option<PathBuf>,
}
