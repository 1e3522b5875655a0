//! `tokenfare bench compare`: two servers, cell by cell.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokenfare_bench::BenchError;
use tokenfare_bench::compare::{self, ArmCommand, Comparison, Event, Plan, Servers, Waiting};
use tokenfare_bench::load::Load;
use tokenfare_bench::machine::{Identity, Processes};
use tokenfare_bench::nullserver;
use tokenfare_bench::receipt::{self, ArmFacts, Facts, Receipt};
use tokenfare_bench::run::prompt::Require;
use tokenfare_bench::run::{Part, openai, prompt};
use tokenfare_bench::stop::Stop;
use tokenfare_bench::verdict::Hashes;

use super::concurrent::CellArgs;
use super::target::{LONGEST, check_temperatures};
use crate::files::{Existing, check_flag, write_whole};
use crate::output::print;

/// A measurement of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PartArg {
    /// Streams of fixed length, several at once
    Concurrent,
    /// Plain OpenAI requests
    Openai,
    /// Fewest and most streams by servers without drafts
    NoDrafts,
    /// Cold prompts
    Prompt,
}

const PARTS: [(PartArg, Part); 4] = [
    (PartArg::Concurrent, Part::Concurrent),
    (PartArg::Openai, Part::Openai),
    (PartArg::NoDrafts, Part::NoDrafts),
    (PartArg::Prompt, Part::Prompt),
];

/// Arguments of `tokenfare bench compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Command of the server to compare with; {port} stands for its port, else --port N is added
    #[arg(long, value_name = "CMD")]
    base: String,
    /// Command of the server to judge
    #[arg(long, value_name = "CMD")]
    this: String,
    /// Setting of base alone; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    env_base: Vec<String>,
    /// Setting of this alone; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    env_this: Vec<String>,
    /// Folder of the receipt
    #[arg(long, value_name = "DIR")]
    receipt: PathBuf,
    /// What is measured
    #[arg(
        long,
        value_enum,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "concurrent,openai,no-drafts,prompt"
    )]
    parts: Vec<PartArg>,
    #[command(flatten)]
    cells: CellArgs,
    /// Most tokens of an openai reply
    #[arg(long, value_name = "N", default_value = "256", value_parser = clap::value_parser!(u32).range(2..))]
    openai_tokens: u32,
    /// Temperatures of openai cells
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        allow_negative_numbers = true,
        default_value = "1,0"
    )]
    openai_temperatures: Vec<f64>,
    /// Seconds of rest before each server's start
    #[arg(long, value_name = "S", default_value = "60", allow_negative_numbers = true)]
    settle: f64,
    /// Before each series, ask for this many tokens a second of base without drafts, one greedy stream
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    gate: Option<f64>,
    /// Flag that turns drafts off in both commands
    #[arg(long, value_name = "FLAG", default_value = "--no-drafts", allow_hyphen_values = true)]
    no_drafts_flag: String,
    /// Longest wait for a server to answer, in seconds
    #[arg(long, value_name = "S", default_value = "600", value_parser = clap::value_parser!(u64).range(1..=LONGEST))]
    start_timeout: u64,
    /// Longest wait for one reply, in seconds
    #[arg(long, value_name = "S", default_value = "600", value_parser = clap::value_parser!(u64).range(1..=LONGEST))]
    timeout: u64,
    /// Key that the servers ask for
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// Commit that base was built from
    #[arg(long, value_name = "COMMIT")]
    base_commit: Option<String>,
    /// Commit that this was built from [default: that of the working folder]
    #[arg(long, value_name = "COMMIT")]
    this_commit: Option<String>,
    /// The servers' device, in words of the receipt
    #[arg(long, value_name = "WORDS")]
    device: Option<String>,
    /// End with status 0 where servers tell no hashes
    #[arg(long)]
    allow_missing_hashes: bool,
}

/// A bar of runs with the time left; hidden when standard error is no terminal.
pub fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(2));
    let style = "{bar:30} {pos}/{len} runs, {elapsed} gone, {eta} left  {msg}";
    bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

/// A time that a flag gives in seconds.
pub fn seconds(flag: &str, value: f64) -> Result<Duration> {
    match Duration::try_from_secs_f64(value) {
        Ok(time) if time <= Duration::from_secs(LONGEST) => Ok(time),
        _ => bail!("{flag} {value}: expected seconds from 0 to {LONGEST}"),
    }
}

/// This process's arguments, without its program's folder and without keys.
fn arguments() -> String {
    let mut hide = false;
    let shown = std::env::args().skip(1).map(|word| {
        let hidden = std::mem::replace(&mut hide, word == "--api-key");
        match word.split_once('=') {
            _ if hidden => "***".to_owned(),
            Some(("--api-key", _)) => "--api-key=***".to_owned(),
            _ => word,
        }
    });
    let quote = |word: String| {
        let plain = word.chars().all(|c| c.is_alphanumeric() || "-_=,./:+".contains(c));
        if plain && !word.is_empty() { word } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    shown.map(quote).collect::<Vec<_>>().join(" ")
}

impl CompareArgs {
    fn plan(&self) -> Result<Plan> {
        check_temperatures(&self.openai_temperatures)?;
        if let Some(gate) = self.gate.filter(|gate| !gate.is_finite() || *gate < 0.0) {
            bail!("--gate {gate}: expected tokens a second from 0");
        }
        let concurrent = self.cells.options()?;
        let asked = |part: &PartArg| PARTS.iter().find(|(arg, _)| arg == part).map(|(_, part)| *part);
        Ok(Plan {
            parts: self.parts.iter().filter_map(asked).collect(),
            openai: openai::Options {
                tokens: self.openai_tokens as usize,
                reps: concurrent.reps,
                temperatures: self.openai_temperatures.clone(),
                loads: Load::openai(),
            },
            prompt: prompt::Options {
                cold: Require::Nothing,
                reuse: Require::Nothing,
                context: None,
                // Servers are fresh, and replies of both arms are compared, so all see the same text.
                nonce: "comparison".into(),
            },
            concurrent,
            gate: self.gate,
        })
    }

    fn receipt(&self, arms: &[ArmCommand; 2]) -> Result<Receipt> {
        let this = ArmFacts::of(&arms[1], self.this_commit.clone().or_else(receipt::commit));
        let mut base = ArmFacts::of(&arms[0], self.base_commit.clone());
        if base.commit.is_none() && base.binary_sha256.is_some() && base.binary_sha256 == this.binary_sha256 {
            base.commit.clone_from(&this.commit);
        }
        let began = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let facts = Facts {
            tool: concat!("tokenfare ", env!("CARGO_PKG_VERSION")).into(),
            arguments: arguments(),
            base,
            this,
            device: self.device.clone(),
            settle_seconds: self.settle,
            began: Some(began),
        };
        let left = PARTS.iter().filter(|(arg, _)| !self.parts.contains(arg));
        Ok(Receipt {
            facts,
            machine: Identity::read(),
            client_microseconds: Some(nullserver::microseconds_an_event()?),
            comparison: Comparison::default(),
            left_out: left.map(|(_, part)| format!("{part}: not asked for by --parts")).collect(),
            partial: None,
        })
    }
}

/// Writes every file of a receipt, each whole or not at all.
fn write(receipt: &Receipt, folder: &Path) -> Result<(), BenchError> {
    for (name, text) in receipt::files(receipt)? {
        let file = folder.join(name);
        write_whole(&file, text.as_bytes(), Existing::Replace)
            .map_err(|e| BenchError::File { problem: e.to_string(), path: file })?;
    }
    Ok(())
}

/// Runs the comparison.
pub fn compare(args: &CompareArgs) -> Result<()> {
    let plan = args.plan()?;
    let arms = [
        ArmCommand::new(["--base", "--env-base"], &args.base, &args.env_base)?,
        ArmCommand::new(["--this", "--env-this"], &args.this, &args.env_this)?,
    ];
    let waiting = Waiting {
        settle: seconds("--settle", args.settle)?,
        start: Duration::from_secs(args.start_timeout),
        reply: Duration::from_secs(args.timeout),
    };
    check_flag("--receipt", Some(&args.receipt.join(receipt::RAW)))?;
    let mut receipt = args.receipt(&arms)?;
    let stop = Stop::by_signals()?;
    let mut servers = Servers {
        plan: &plan,
        arms,
        no_drafts: args.no_drafts_flag.clone(),
        waiting,
        api_key: args.api_key.clone(),
        stop: stop.clone(),
        processes: Processes::default(),
    };
    let bar = bar();
    let unfinished = Some("the comparison was not finished when this was written".to_owned());
    receipt.comparison = compare::schedule::compare(&plan, &mut servers, |event| {
        match event {
            Event::Expected(runs) => bar.set_length(runs as u64),
            Event::Run(run) => {
                bar.inc(1);
                if let Some(failure) = &run.failure {
                    bar.suspend(|| crate::notice::notice!("warning: a run of {} failed: {failure}", run.arm));
                }
            }
            Event::Progress(comparison) => {
                let part = Receipt {
                    comparison: comparison.clone(),
                    partial: unfinished.clone(),
                    ..receipt.clone()
                };
                return write(&part, &args.receipt);
            }
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    receipt.partial = stop.asked().then(|| "stopped by the user".to_owned());
    write(&receipt, &args.receipt)?;
    print(&receipt::summary(&receipt))?;
    print(&format!("receipt: {}\n", args.receipt.display()))?;
    match receipt.comparison.exactness() {
        _ if stop.asked() => bail!("stopped: the receipt is a part"),
        Hashes::Unequal => bail!("replies differ between runs"),
        _ if !receipt.comparison.is_whole() => bail!("runs failed or were not made: see the receipt"),
        Hashes::Missing if !args.allow_missing_hashes => {
            bail!("hashes are missing, so equal replies are not shown")
        }
        _ => Ok(()),
    }
}
