//! The whole gate, step by step.

use crate::{lean, shell, suites};
use anyhow::{Result, bail};
use std::time::{Duration, Instant};

type Step = (&'static str, fn() -> Result<()>);

const STEPS: [Step; 5] = [
    ("format", format),
    ("house rules", house_rules),
    ("lints", lints),
    ("documentation", docs),
    ("tests", tests),
];

/// Runs every step, also after one that failed, and sums up.
pub fn run() -> Result<()> {
    let mut results: Vec<(&str, Duration, Result<()>)> = Vec::new();
    for (name, step) in STEPS {
        println!("\n== {name}");
        let start = Instant::now();
        let result = step();
        if let Err(error) = &result {
            eprintln!("{error:#}");
        }
        results.push((name, start.elapsed(), result));
    }
    println!("\n== summary");
    for (name, time, result) in &results {
        let word = if result.is_ok() { "ok" } else { "FAILED" };
        println!("{word:>7} {:>8.1} s  {name}", time.as_secs_f64());
    }
    let failed = results.iter().filter(|r| r.2.is_err()).count();
    if failed > 0 {
        bail!("{failed} of {} steps failed", results.len());
    }
    Ok(())
}

fn format() -> Result<()> {
    shell::run(&mut shell::cargo(&["fmt", "--all", "--check"]))
}

fn house_rules() -> Result<()> {
    lean::run(None)
}

fn lints() -> Result<()> {
    shell::run(&mut shell::cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn docs() -> Result<()> {
    let mut doc = shell::cargo(&["doc", "--workspace", "--no-deps"]);
    shell::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

fn tests() -> Result<()> {
    suites::print(&suites::test(&["--workspace"], &[])?);
    Ok(())
}
