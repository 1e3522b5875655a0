//! The files of a receipt's folder.

use serde_json::{Value, json};

use super::svg::{Group, Line, bars, lines};
use super::{Receipt, Scrub, markdown};
use crate::BenchError;
use crate::compare::{Arm, Run};
use crate::run::Part;
use crate::verdict::{Four, Measured};

/// Every file of the receipt, by name. Names of persons, machines and folders are taken out of all of them.
///
/// # Errors
/// A plot that cannot be drawn.
pub fn files(receipt: &Receipt) -> Result<Vec<(String, String)>, BenchError> {
    let scrub = Scrub::here();
    let mut raw = serde_json::to_value(receipt).expect("a receipt is made of what JSON can hold");
    scrub.json(&mut raw);
    let texts = [
        ("README.md", markdown::page(receipt)),
        ("server.log", logs(receipt)),
        ("ends.json", format!("{:#}", ends(receipt))),
        ("command.txt", format!("{} {}", receipt.facts.tool, receipt.facts.arguments)),
        ("binaries.sha256", binaries(receipt)),
    ];
    // Written compactly: times of every reply are many.
    let mut files = vec![(super::RAW.to_owned(), format!("{raw}\n"))];
    files.extend(texts.map(|(name, text)| (name.to_owned(), scrub.text(&text).trim_end().to_owned() + "\n")));
    files.extend(plots(receipt)?);
    Ok(files)
}

fn each_run(receipt: &Receipt) -> impl Iterator<Item = (String, &Run)> {
    receipt.comparison.series.iter().flat_map(|series| {
        let name = move |n: usize, run: &Run| format!("{}, run {} ({})", series.series, n + 1, run.arm);
        series.runs.iter().enumerate().map(move |(n, run)| (name(n, run), run))
    })
}

fn logs(receipt: &Receipt) -> String {
    each_run(receipt).map(|(name, run)| format!("== {name}\n{}\n", run.log.trim_end())).collect()
}

fn ends(receipt: &Receipt) -> Value {
    let ends = each_run(receipt)
        .map(|(name, run)| json!({"run": name, "level": run.level(), "start": run.start, "end": run.end}));
    Value::Array(ends.collect())
}

fn binaries(receipt: &Receipt) -> String {
    let line =
        |arm: &str, hash: &Option<String>| format!("{}  {arm}\n", hash.as_deref().unwrap_or("not recorded"));
    let facts = &receipt.facts;
    line("base", &facts.base.binary_sha256) + &line("this", &facts.this.binary_sha256)
}

fn values(four: &Four) -> Vec<Option<f64>> {
    [four.base[0], four.base[1], four.this[0], four.this[1]].map(Measured::speed).to_vec()
}

/// Prices by rows, as a server tells them.
fn costs(receipt: &Receipt, arm: Arm) -> Option<Line> {
    let told = |run: &Run| run.pricing.as_ref()?["table"]["verify_ms"].as_array().cloned();
    let table = receipt.comparison.runs().filter(|run| run.arm == arm).find_map(told)?;
    let points = (1..).zip(&table).filter_map(|(rows, ms)| Some((f64::from(rows), ms.as_f64()?)));
    Some(Line { label: arm.to_string(), points: points.collect() })
}

fn plots(receipt: &Receipt) -> Result<Vec<(String, String)>, BenchError> {
    let mut plots = Vec::new();
    let outcomes = receipt.comparison.outcomes();
    for part in [Part::Concurrent, Part::Openai, Part::NoDrafts, Part::Prompt] {
        let of_part = outcomes.iter().filter(|o| o.cell.part == part);
        let group = |o: &crate::compare::CellOutcome| Group {
            label: format!("{} x{} T{}", o.cell.load, o.cell.streams, o.cell.temperature),
            values: values(&o.four),
        };
        let groups: Vec<Group> = of_part.map(group).collect();
        if !groups.is_empty() {
            let title = format!("Tokens a second: {part}");
            let name = format!("speed-{}.svg", part.to_string().replace(' ', "-"));
            plots.push((name, bars(&title, &["base 1", "base 2", "this 1", "this 2"], &groups)?));
        }
    }
    let tables: Vec<Line> =
        [Arm::Base, Arm::This].into_iter().filter_map(|arm| costs(receipt, arm)).collect();
    if tables.iter().any(|line| line.points.len() > 1) {
        plots.push(("costs.svg".into(), lines("Price of a verify window", "rows", "ms", &tables)?));
    }
    Ok(plots)
}
