//! `tokenfare bench` as a user runs it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use rstest::rstest;
use serde_json::{Value, json};
use support::{mini, repository, tokenfare};

/// Four held-out prompts, one of each domain, as a file in `folder`.
fn prompts(folder: &tempfile::TempDir) -> String {
    let all: Vec<Value> =
        serde_json::from_slice(&std::fs::read(repository("models/mini/heldout.json")).unwrap()).unwrap();
    let some: Vec<&Value> = all.iter().step_by(16).collect();
    let file = folder.path().join("prompts.json");
    std::fs::write(&file, json!(some).to_string()).unwrap();
    file.display().to_string()
}

#[test]
fn acceptance_is_told_in_tables_and_json() {
    let folder = tempfile::tempdir().unwrap();
    let (prompts, output) = (prompts(&folder), folder.path().join("out.json"));
    let mut command = tokenfare();
    command.args(["bench", "acceptance", &mini(), "--prompts", &prompts, "--tokens", "12"]);
    command.args(["--temperatures", "0,0.7", "--output"]).arg(&output);
    let said = command.output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let text = String::from_utf8(said.stdout).unwrap();
    assert!(
        text.starts_with("4 prompts, replies of up to 12 tokens, all 5 drafts verified, none copied, cpu (")
    );

    let report: Value = serde_json::from_slice(&std::fs::read(&output).unwrap()).unwrap();
    let measured = report["measured"].as_array().unwrap();
    let names: Vec<(f64, &str)> = measured
        .iter()
        .map(|m| (m["temperature"].as_f64().unwrap(), m["domain"].as_str().unwrap()))
        .collect();
    let domains = ["chat", "code-chat", "code", "prose", "all"];
    assert_eq!(names, [0.0, 0.7].map(|t| domains.map(|d| (t, d))).concat());
    for m in measured {
        let count = |value: &Value| value.as_u64().unwrap();
        let (rounds, kept) = (count(&m["rounds"]), count(&m["drafts_kept"]));
        let replies = m["replies"].as_array().unwrap();
        assert_eq!(replies.iter().map(|r| count(&r["rounds"])).sum::<u64>(), rounds);
        let positions = m["positions"].as_array().unwrap();
        assert_eq!(positions.len(), 5);
        assert_eq!(positions.iter().map(|p| count(&p["kept"])).sum::<u64>(), kept);
        // A reply of 12 tokens: the first needs no round, and the last may be one that no draft was checked against.
        let most = 12 * replies.len() as u64;
        assert!(rounds > 0 && rounds + kept <= most, "{m}");
        let row = format!(
            "| {} | {rounds} | {:.3} |",
            m["domain"].as_str().unwrap(),
            1.0 + kept as f64 / rounds as f64
        );
        assert!(text.contains(&row), "{row} in {text}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "a file is left behind");
}

#[rstest]
#[case(&["--no-drafts"], "--no-drafts: this measurement needs the drafter")]
#[case(&["--tokens", "1"], "--tokens 1: expected at least 2")]
#[case(&["--temperatures", "0,101"], "--temperatures 101: expected numbers from 0 to 100")]
#[case(&["--prompts", "no-such-file"], "--prompts no-such-file: ")]
#[case(&["--prompts", "Cargo.toml"], "--prompts Cargo.toml: ")]
fn acceptance_refuses_what_it_cannot_measure(#[case] flags: &[&str], #[case] words: &str) {
    let said = tokenfare().args(["bench", "acceptance", &mini()]).args(flags).output().unwrap();
    let line = String::from_utf8(said.stderr).unwrap();
    assert_eq!((said.status.code(), line.lines().count()), (Some(1), 1), "{line}");
    assert!(line.starts_with(&format!("tokenfare: {words}")), "{line}");
}
