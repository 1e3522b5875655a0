//! The accept log and the round profile of real runs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use support::{mini, tokenfare};

fn run(settings: &[(&str, &str)]) -> Output {
    let args = ["run", &mini(), "What is a GPU?", "--max-tokens", "24"];
    let said = tokenfare().args(args).envs(settings.iter().copied()).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    said
}

fn records(path: &Path) -> Vec<Value> {
    std::fs::read_to_string(path).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

fn events(records: &[Value], event: &str) -> Vec<Value> {
    records.iter().filter(|r| r["event"] == event).cloned().collect()
}

#[test]
fn the_accept_log_holds_every_round_and_changes_no_reply() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("accept.jsonl");
    let log = path.to_str().unwrap();
    let plain = run(&[]);
    let logged = run(&[("TF_DSV41_ACCEPT_LOG", log), ("TF_DSV41_EXPLORE", "3")]);
    assert_eq!(logged.stdout, plain.stdout);
    let found = records(&path);
    let (chosen, committed) = (events(&found, "choose"), events(&found, "commit"));
    assert_eq!((found[0]["event"].as_str(), found[0]["rule"].as_str()), (Some("start"), Some("cost:5")));
    assert_eq!((&found[0]["block"], &found[0]["explore"]), (&Value::from(5), &Value::from(3)));
    assert_eq!((chosen.len(), committed.len()), (committed.len(), events(&found, "round").len()));
    // The first token is the prompt's.
    let tokens: u64 = committed.iter().map(|c| c["keep"].as_u64().unwrap()).sum();
    assert_eq!(tokens, 23);
    for choice in &chosen {
        let ask = &choice["asks"][0];
        let third = choice["r"].as_u64().unwrap() % 3 == 0;
        assert_eq!(ask["explored"].as_bool(), third.then_some(true));
        assert!(!third || ask["k"] == ask["most"]);
        assert_eq!((ask["class"].as_str(), &ask["req"]), (Some("greedy"), &Value::from(1)));
    }
    run(&[("TF_DSV41_ACCEPT_LOG", log)]);
    assert_eq!(events(&records(&path), "start").len(), 2);
}

#[test]
fn a_log_that_cannot_be_opened_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none").join("log");
    let said = tokenfare().args(["run", &mini(), "hi"]).env("TF_DSV41_ACCEPT_LOG", &path).output().unwrap();
    let expected = format!(
        "tokenfare: TF_DSV41_ACCEPT_LOG={path:?}: cannot be opened to append to: No such file or directory (os error 2)\n"
    );
    assert_eq!((said.status.code(), String::from_utf8(said.stderr).unwrap()), (Some(1), expected));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_one_warning_and_the_whole_reply() {
    let said = run(&[("TF_DSV41_ACCEPT_LOG", "/dev/full")]);
    assert_eq!(said.stdout, run(&[]).stdout);
    let stderr = String::from_utf8(said.stderr).unwrap();
    let warning = "warning: accept log /dev/full ends here: No space left on device (os error 28)";
    assert_eq!(stderr.lines().filter(|l| l.starts_with("warning")).collect::<Vec<_>>(), [warning]);
}

#[test]
fn the_round_profile_adds_up() {
    let said = run(&[("TF_DSV41_ROUND_PROF", "1")]);
    let stderr = String::from_utf8(said.stderr).unwrap();
    let field = |line: &str, name: &str| -> f64 {
        let (_, rest) = line.split_once(&format!(" {name}=")).unwrap();
        rest.split(' ').next().unwrap().parse().unwrap()
    };
    let parts = ["plan", "launch", "read_back", "draw", "conclude", "ingest", "pass", "host"];
    let (mut rounds, mut replies) = (0, 0);
    for line in stderr.lines().filter(|l| l.contains("dsv41 r")) {
        let sum: f64 = parts.iter().map(|part| field(line, part)).sum();
        // Each part is cut to whole microseconds.
        assert!((field(line, "ms") - sum).abs() < 0.01, "{line}");
        if line.contains("dsv41 reply") {
            replies += 1;
            assert_eq!(field(line, "rounds") as usize, rounds + 1);
        } else {
            rounds += 1;
        }
    }
    assert!(replies == 1 && rounds > 5, "{stderr}");
}
