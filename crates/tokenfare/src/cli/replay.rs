//! `tokenfare replay`: what an accept log says, and what other rules would have earned on it.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use tokenfare_pricing::log::{Item, Reader};
use tokenfare_pricing::replay::{BINS, Evidence, LEAST_TRIES, Replay, Summary, Verdict};
use tokenfare_pricing::{CostTable, Rule, SamplingClass, Source};

use super::prices::{Output, read_table};

use crate::notice::notice;

/// Arguments of `tokenfare replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Accept log, as TF_DSV41_ACCEPT_LOG writes it
    #[arg(value_name = "LOG")]
    log: PathBuf,
    /// Rule to ask, any number of times: `logged`, `cost[:CAP][,skip-off][,joint-0]` or `static[:K]`
    #[arg(long = "rule", value_name = "RULE", default_values = ["logged", "cost", "static:0", "static:3", "static:5"])]
    rules: Vec<String>,
    /// Prices of the rounds, any number of times: logged, default or a table file
    #[arg(long = "table", value_name = "TABLE", default_value = "logged")]
    tables: Vec<String>,
    /// How results are printed
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

/// One rule at the prices of one table.
struct Arm {
    rule: String,
    table: String,
    replay: Replay,
}

fn arms(args: &ReplayArgs) -> Result<Vec<Arm>> {
    let mut arms = Vec::new();
    for table in &args.tables {
        let prices = match table.as_str() {
            "logged" => None,
            "default" => Some(CostTable::built_in()),
            path => Some(read_table(path.as_ref())?),
        };
        for rule in &args.rules {
            let parsed = (rule != "logged").then(|| rule.parse::<Rule>()).transpose();
            let parsed = parsed.with_context(|| "--rule")?;
            let name = parsed.map_or_else(|| rule.clone(), |rule| rule.to_string());
            let replay = Replay::new(parsed, prices.clone());
            arms.push(Arm { rule: name, table: table.clone(), replay });
        }
    }
    Ok(arms)
}

/// Reads the log line by line, so that its length does not matter.
fn read(args: &ReplayArgs, arms: &mut [Arm]) -> Result<Summary> {
    let mut lines = BufReader::new(File::open(&args.log)?);
    let (mut reader, mut summary, mut line) = (Reader::new(), Summary::default(), Vec::new());
    while lines.read_until(b'\n', &mut line)? > 0 {
        match reader.line(&String::from_utf8_lossy(&line))? {
            Some(Item::Start(start)) => arms.iter_mut().try_for_each(|arm| arm.replay.start(&start))?,
            Some(Item::Round(round)) => {
                summary.round(&round);
                arms.iter_mut().for_each(|arm| arm.replay.round(&round));
            }
            None => {}
        }
        line.clear();
    }
    for warning in reader.finish() {
        notice!("warning: {}: {warning}", args.log.display());
    }
    Ok(summary)
}

fn class_name(class: SamplingClass) -> &'static str {
    match class {
        SamplingClass::Greedy => "greedy",
        SamplingClass::Cool => "T to 0.5",
        SamplingClass::Warm => "T above 0.5",
        SamplingClass::Grammar => "grammar",
    }
}

fn source_name(source: Source) -> &'static str {
    match source {
        Source::Drafter => "DSpark",
        Source::Copy => "copy",
    }
}

fn print_classes(out: &mut impl Write, summary: &Summary) -> Result<()> {
    writeln!(
        out,
        "\n{:<12} {:<7} {:>8} {:>8} {:>8} {:>8} {:>10}",
        "class", "drafts", "windows", "mean k", "kept", "k = 0", "tokens"
    )?;
    for (&(class, source), c) in &summary.classes {
        let share = |n: u64, of: u64| n as f64 / of.max(1) as f64;
        writeln!(
            out,
            "{:<12} {:<7} {:>8} {:>8.2} {:>8.3} {:>8.3} {:>10.3}",
            class_name(class),
            source_name(source),
            c.windows,
            share(c.drafted, c.windows),
            share(c.kept, c.drafted),
            share(c.zero_depth, c.windows),
            share(c.tokens, c.windows)
        )?;
    }
    writeln!(
        out,
        "kept is the share of verified drafts; k = 0 is the share of windows; tokens are those of one window"
    )?;
    Ok(())
}

/// Positions down, confidence across.
fn print_rates(out: &mut impl Write, title: &str, evidence: &Evidence, source: Source) -> Result<()> {
    let rows = evidence.by_position(source);
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}: share kept of those judged (how many)")?;
    let head: Vec<String> = (0..BINS).map(|b| format!("{:>13}", format!("from 0.{b}"))).collect();
    writeln!(out, "{:<9}{}", "position", head.concat())?;
    for (position, bins) in rows.iter().enumerate() {
        let cell = |k: &tokenfare_pricing::replay::Kept| {
            k.rate().map_or_else(
                || format!("{:>13}", "-"),
                |rate| format!("{:>13}", format!("{rate:.2} ({})", k.tries)),
            )
        };
        writeln!(out, "{position:<9}{}", bins.iter().map(cell).collect::<String>())?;
    }
    Ok(())
}

fn print_shapes(out: &mut impl Write, summary: &Summary) -> Result<()> {
    writeln!(out, "\n{:>8} {:>6} {:>9} {:>12}", "windows", "rows", "rounds", "observed ms")?;
    for ((windows, rows), o) in &summary.shapes {
        writeln!(out, "{windows:>8} {rows:>6} {:>9} {:>12.3}", o.rounds, o.ms / o.rounds as f64)?;
    }
    Ok(())
}

fn print_verdicts(out: &mut impl Write, verdicts: &[(&Arm, Verdict)]) -> Result<()> {
    writeln!(
        out,
        "\n{:<20} {:<16} {:>7} {:>8} {:>9} {:>9} {:>9} {:>9}  {:<18} tokens/s",
        "rule", "table", "mean k", "ms", "as logged", "known", "estimated", "unknown", "tokens a round"
    )?;
    for (arm, v) in verdicts {
        let range = |low: f64, high: f64, digits: usize| match format!("{low:.digits$}") {
            low if low == format!("{high:.digits$}") => low,
            low => format!("{low} to {high:.digits$}"),
        };
        let rate = match v.rates() {
            Some((low, high)) if v.is_settled() => range(1e3 * low, 1e3 * high, 1),
            Some((low, high)) => format!("not enough evidence ({})", range(1e3 * low, 1e3 * high, 1)),
            None => "not enough evidence".to_owned(),
        };
        writeln!(
            out,
            "{:<20} {:<16} {:>7.2} {:>8.3} {:>9} {:>9} {:>9} {:>9}  {:<18} {rate}",
            arm.rule,
            arm.table,
            v.mean_depth,
            v.ms,
            format!("{}/{}", v.same, v.asked),
            v.known,
            v.estimated,
            v.unknown,
            range(v.least_tokens, v.most_tokens, 3),
        )?;
    }
    Ok(())
}

fn print(out: &mut impl Write, summary: &Summary, verdicts: &[(&Arm, Verdict)]) -> Result<()> {
    let Summary { rounds, windows, explored, failed, .. } = summary;
    writeln!(out, "{rounds} rounds, {windows} windows, {explored} of them explored, {failed} failed")?;
    print_classes(out, summary)?;
    print_rates(out, "DSpark drafts by confidence", &summary.all, Source::Drafter)?;
    print_rates(out, "copied drafts by priced probability", &summary.all, Source::Copy)?;
    print_shapes(out, summary)?;
    print_verdicts(out, verdicts)?;
    writeln!(
        out,
        "\nms and tokens/s are modelled with the table, rounds are the logged ones. `known` windows go no deeper than the log tells;\n\
         `estimated` ones use the share kept in explored windows of the same class, position and tenth of confidence, {LEAST_TRIES}\n\
         drafts at least; of `unknown` ones too few were explored (TF_DSV41_EXPLORE), so that a rate lies between two bounds."
    )?;
    Ok(())
}

fn as_json(summary: &Summary, verdicts: &[(&Arm, Verdict)]) -> serde_json::Value {
    let classes = summary.classes.iter().map(|(&(class, source), c)| {
        json!({"class": class, "drafts": source, "windows": c.windows, "zero_depth": c.zero_depth,
               "drafted": c.drafted, "kept": c.kept, "tokens": c.tokens})
    });
    let shapes = summary.shapes.iter().map(|(&(windows, rows), o)| {
        json!({"windows": windows, "rows": rows, "rounds": o.rounds, "mean_ms": o.ms / o.rounds as f64})
    });
    let rules = verdicts.iter().map(|(arm, v)| {
        json!({"rule": arm.rule, "table": arm.table, "enough_evidence": v.is_settled(), "result": v})
    });
    json!({
        "rounds": summary.rounds, "windows": summary.windows, "explored": summary.explored, "failed": summary.failed,
        "classes": classes.collect::<Vec<_>>(),
        "kept_by_position_and_confidence": summary.all.by_position(Source::Drafter),
        "copies_kept_by_position_and_probability": summary.all.by_position(Source::Copy),
        "shapes": shapes.collect::<Vec<_>>(),
        "rules": rules.collect::<Vec<_>>(),
    })
}

/// Runs the command.
pub fn replay(args: ReplayArgs) -> Result<()> {
    let mut arms = arms(&args)?;
    let summary = read(&args, &mut arms).with_context(|| args.log.display().to_string())?;
    if summary.rounds == 0 {
        bail!("{}: no whole round", args.log.display());
    }
    let verdicts: Vec<(&Arm, Verdict)> =
        arms.iter().map(|arm| (arm, arm.replay.verdict(&summary.explored_drafts))).collect();
    let mut out = std::io::stdout().lock();
    match args.output {
        Output::Text => print(&mut out, &summary, &verdicts),
        Output::Json => Ok(writeln!(out, "{:#}", as_json(&summary, &verdicts))?),
    }
}
