//! `tokenfare simulate`: rules in worlds whose acceptance and costs are known.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use tokenfare_pricing::simulate::{Beliefs, Load, PRESETS, Report, Simulation, World};
use tokenfare_pricing::{CostTable, Rule};

use super::prices::{Output, read_table};

/// Arguments of `tokenfare simulate`.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// World, any number of times: a preset (linear, under, over, mixed, poor, cliff, host, noisy, shared), `all` of
    /// them, or a JSON file
    #[arg(long = "world", value_name = "WORLD", default_value = "linear")]
    worlds: Vec<String>,
    /// Rule, any number of times: `cost[:CAP][,skip-off][,joint-0]` or `static[:K]`; without it cost, its variants and every fixed depth
    #[arg(long = "rule", value_name = "RULE")]
    rules: Vec<Rule>,
    /// Table that the rules price with: true (the world's costs), default (the built-in one) or a table file
    #[arg(long, default_value = "true")]
    table: String,
    /// Rounds to play
    #[arg(long, value_name = "N", default_value = "20000", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    rounds: u64,
    /// Decides everything random
    #[arg(long, default_value = "0")]
    seed: u64,
    /// How results are printed
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    change: Change,
}

/// Flags that change every world.
#[derive(Debug, Args)]
struct Change {
    /// Streams in every round
    #[arg(long, value_name = "N")]
    streams: Option<usize>,
    /// Tokens of a reply
    #[arg(long, value_name = "N")]
    reply: Option<usize>,
    /// Probability that the draft of each position is kept, as 0.9,0.8,...
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    accept: Option<Vec<f64>>,
    /// How much drafts differ, in logits
    #[arg(long, value_name = "LOGITS")]
    spread: Option<f64>,
    /// Bias of the confidence head, in logits: below 0 it is under-confident
    #[arg(long, value_name = "LOGITS", allow_negative_numbers = true)]
    shift: Option<f64>,
    /// Milliseconds of host work in every round, which no table knows
    #[arg(long, value_name = "MS")]
    host: Option<f64>,
    /// Deviation of a round's time, as a share of it
    #[arg(long, value_name = "SHARE")]
    noise: Option<f64>,
}

impl Change {
    fn apply(&self, world: &mut World) {
        let put = |to: &mut f64, from: Option<f64>| *to = from.unwrap_or(*to);
        world.streams = self.streams.unwrap_or(world.streams);
        world.reply = self.reply.unwrap_or(world.reply);
        for load in &mut world.loads {
            let Load { accept, spread, shift, .. } = load;
            accept.clone_from(self.accept.as_ref().unwrap_or(&accept.clone()));
            put(spread, self.spread);
            put(shift, self.shift);
        }
        put(&mut world.costs.host, self.host);
        put(&mut world.costs.noise, self.noise);
    }
}

/// The worlds by name.
fn worlds(args: &SimulateArgs) -> Result<Vec<(String, World)>> {
    let mut worlds = Vec::new();
    for name in &args.worlds {
        if name == "all" {
            for (name, _) in PRESETS {
                worlds.push((name.to_owned(), World::preset(name)?));
            }
        } else if Path::new(name).is_file() {
            let read = || -> Result<World> {
                let text = std::fs::read_to_string(name)?;
                // A list would be taken for the fields in their order.
                serde_json::from_str::<serde_json::Map<_, _>>(&text)?;
                Ok(serde_json::from_str(&text)?)
            };
            worlds.push((name.clone(), read().with_context(|| format!("world {name}"))?));
        } else {
            worlds.push((name.clone(), World::preset(name)?));
        }
    }
    for (name, world) in &mut worlds {
        args.change.apply(world);
        world.check().with_context(|| format!("world {name}"))?;
    }
    Ok(worlds)
}

fn rules(args: &SimulateArgs, world: &World) -> Result<Vec<Rule>> {
    if !args.rules.is_empty() {
        return Ok(args.rules.clone());
    }
    let block = world.block();
    let shared: &[&str] = if world.streams > 1 { &[",joint-0"] } else { &[] };
    let variants = ["", ",skip-off"].iter().chain(shared).map(|end| format!("cost:{block}{end}"));
    let fixed = (0..=block).map(|k| format!("static:{k}"));
    variants.chain(fixed).map(|name| Ok(name.parse()?)).collect()
}

fn print(out: &mut impl Write, name: &str, report: &Report) -> Result<()> {
    let purpose = PRESETS.iter().find(|p| p.0 == name).map_or(String::new(), |p| format!(": {}", p.1));
    writeln!(out, "world {name}{purpose}; the oracle makes {:.2} tokens/s", 1e3 * report.oracle)?;
    writeln!(
        out,
        "{:<20} {:>7} {:>15} {:>11} {:>9} {:>8}",
        "rule", "mean k", "tokens a round", "ms a round", "tokens/s", "regret"
    )?;
    for e in &report.rules {
        writeln!(
            out,
            "{:<20} {:>7.2} {:>15.3} {:>11.3} {:>9.2} {:>7.1}%",
            e.rule,
            e.mean_depth,
            e.tokens,
            e.ms,
            1e3 * e.rate,
            1e2 * e.regret
        )?;
    }
    Ok(())
}

/// Runs the command.
pub fn simulate(args: SimulateArgs) -> Result<()> {
    let beliefs = match args.table.as_str() {
        "true" => Beliefs::True,
        "default" => Beliefs::Table(CostTable::built_in()),
        path => Beliefs::Table(read_table(path.as_ref())?),
    };
    let mut out = std::io::stdout().lock();
    let mut all = Vec::new();
    for (i, (name, world)) in worlds(&args)?.into_iter().enumerate() {
        let rules = rules(&args, &world)?;
        let simulation = Simulation { world, rounds: args.rounds, seed: args.seed };
        let report = simulation.run(&rules, &beliefs).with_context(|| format!("world {name}"))?;
        match args.output {
            Output::Text => {
                if i > 0 {
                    writeln!(out)?;
                }
                print(&mut out, &name, &report)?;
            }
            Output::Json => all.push(json!({"world": name, "is": simulation.world, "report": report})),
        }
    }
    if args.output == Output::Json {
        writeln!(out, "{:#}", json!({"rounds": args.rounds, "seed": args.seed, "worlds": all}))?;
    }
    Ok(())
}
