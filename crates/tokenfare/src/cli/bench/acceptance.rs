//! `tokenfare bench acceptance`: how often drafts are kept in replies to given prompts.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use tokenfare_dsv41::checkpoint::Checkpoint;
use tokenfare_lanes::sampling::seed_of;
use tokenfare_lanes::{AcceptanceRun, MeasuredReply, NoText, Request, Sampling};
use tokenfare_pricing::Acceptance;

use super::tables;
use super::target::{check_output, write_json};
use crate::cli::{EngineArgs, ModelArg};
use crate::engine::{self, LanesPlan};
use crate::locate;

/// Streams served together; a reply is the same beside any others.
const LANES: usize = 8;

/// Arguments of `tokenfare bench acceptance`.
#[derive(Debug, Args)]
pub struct AcceptanceArgs {
    #[command(flatten)]
    model: ModelArg,
    /// JSON list of {"domain", "prompt_ids"} [default: heldout.json of the model's folder]
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
    /// Most tokens of a reply
    #[arg(long, value_name = "N", default_value = "128")]
    tokens: usize,
    /// Temperatures, each measured apart; 0 is greedy
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0,0.7,1")]
    temperatures: Vec<f64>,
    /// Also write every count as JSON
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    engine: EngineArgs,
}

#[derive(Debug, Deserialize)]
struct Prompt {
    domain: String,
    prompt_ids: Vec<u32>,
}

/// Replies of one domain at one temperature.
pub struct Domain<'a> {
    /// Its name.
    pub name: &'a str,
    /// One reply a prompt.
    pub replies: Vec<&'a MeasuredReply>,
    /// What all their rounds came to.
    pub counts: Acceptance,
}

impl<'a> Domain<'a> {
    fn new(name: &'a str) -> Self {
        Self { name, replies: Vec::new(), counts: Acceptance::default() }
    }

    fn add(&mut self, reply: &'a MeasuredReply) {
        self.counts.add(&reply.counts);
        self.replies.push(reply);
    }
}

fn prompts(file: &Path) -> Result<Vec<Prompt>> {
    let bytes = fs::read(file).with_context(|| format!("--prompts {}", file.display()))?;
    let list: Vec<Prompt> =
        serde_json::from_slice(&bytes).with_context(|| format!("--prompts {}", file.display()))?;
    if list.is_empty() {
        bail!("--prompts {}: expected at least one prompt", file.display());
    }
    Ok(list)
}

/// Replies by domain in the order of first appearance, then all.
fn by_domain<'a>(prompts: &'a [Prompt], replies: &'a [MeasuredReply]) -> Vec<Domain<'a>> {
    let mut domains: Vec<Domain<'_>> = Vec::new();
    let mut all = Domain::new("all");
    for (prompt, reply) in prompts.iter().zip(replies) {
        let at = domains.iter().position(|d| d.name == prompt.domain).unwrap_or_else(|| {
            domains.push(Domain::new(&prompt.domain));
            domains.len() - 1
        });
        domains[at].add(reply);
        all.add(reply);
    }
    domains.push(all);
    domains
}

impl AcceptanceArgs {
    fn check(&self) -> Result<()> {
        if self.engine.no_drafts {
            bail!("--no-drafts: this measurement needs the drafter");
        }
        if self.tokens < 2 {
            bail!("--tokens {}: expected at least 2", self.tokens);
        }
        if let Some(t) = self.temperatures.iter().find(|t| !(0.0..=100.0).contains(*t)) {
            bail!("--temperatures {t}: expected numbers from 0 to 100");
        }
        Ok(())
    }
}

/// Runs the measurement.
pub fn acceptance(args: AcceptanceArgs) -> Result<()> {
    args.check()?;
    check_output(args.output.as_deref())?;
    let settings = engine::settings(args.engine.device, None)?;
    let dir = locate::model(args.model.model.as_deref())?;
    let checkpoint = Checkpoint::open(&dir)?;
    let (eos, Some(drafter)) = (checkpoint.config().eos, &checkpoint.config().drafter) else {
        bail!("{}: this checkpoint has no drafter", dir.display());
    };
    let block = drafter.block;
    let prompts = prompts(&args.prompts.clone().unwrap_or_else(|| dir.join("heldout.json")))?;
    let mut run = AcceptanceRun::new();
    let plan = LanesPlan::of(LANES.min(prompts.len()));
    let engine = engine::start_with(&dir, &args.engine, &settings, plan, |c| run.configure(c))?;
    let handle = engine.lanes.handle();

    let mut out = std::io::stdout().lock();
    let device = &engine.device;
    writeln!(
        out,
        "{} prompts, replies of up to {} tokens, all {block} drafts verified, none copied, {device}",
        prompts.len(),
        args.tokens
    )?;
    let mut measured: Vec<Value> = Vec::new();
    for &temperature in &args.temperatures {
        let request = |prompt: &Prompt| {
            let mut request = Request::new(prompt.prompt_ids.clone(), args.tokens, Box::new(NoText));
            let seed = seed_of(&prompt.prompt_ids, &settings.seed_salt);
            request.sampling = Sampling { temperature, seed, ..Sampling::greedy() };
            request.stop_tokens = vec![eos];
            request
        };
        let replies = run.serve(&handle, prompts.iter().map(request).collect())?;
        let domains = by_domain(&prompts, &replies);
        write!(out, "\n{}", tables::kept(temperature, block, &domains))?;
        write!(out, "\n{}", tables::reliability(temperature, &domains))?;
        measured.extend(domains.iter().map(|domain| tables::json(temperature, block, domain)));
    }
    if let Some(file) = &args.output {
        let report = json!({
            "device": device,
            "tokens": args.tokens,
            "block": block,
            "seeds": format!("of each prompt, salt {:?}", settings.seed_salt),
            "measured": measured,
        });
        write_json(file, &report)?;
    }
    Ok(())
}
