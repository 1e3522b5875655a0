//! The whole gate, step by step.

use crate::{clients, lean, shell, suites};
use anyhow::{Result, bail};
use std::time::{Duration, Instant};

/// The one feature of the workspace, left out of the tests of everything else.
const EMBED: &str = "tokenfare/embed-mini";

type Step = (&'static str, Box<dyn FnOnce() -> Result<()>>);

fn steps() -> [Step; 7] {
    // The packages come while the compiler works.
    let installing = clients::install();
    [
        ("format", Box::new(format)),
        ("house rules", Box::new(house_rules)),
        ("lints", Box::new(lints)),
        ("documentation", Box::new(docs)),
        ("tests", Box::new(tests)),
        ("clients", Box::new(|| installing.test())),
        ("built-in model", Box::new(built_in_model)),
    ]
}

/// Runs every step, also after one that failed, and sums up.
pub fn run() -> Result<()> {
    let mut results: Vec<(&str, Duration, Result<()>)> = Vec::new();
    for (name, step) in steps() {
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
    let features = ["--features", EMBED];
    let clippy = ["clippy", "--workspace", "--all-targets"];
    shell::run(shell::cargo(&clippy).args(features).args(["--", "-D", "warnings"]))
}

fn docs() -> Result<()> {
    let mut doc = shell::cargo(&["doc", "--workspace", "--no-deps"]);
    shell::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

fn tests() -> Result<()> {
    suites::print(&suites::test(&["--workspace"], &[])?);
    Ok(())
}

/// The binary with the mini model inside, away from the workspace.
fn built_in_model() -> Result<()> {
    suites::print(&suites::test(&["-p", "tokenfare", "--features", EMBED, "--test", "default_model"], &[])?);
    Ok(())
}
