//! `tokenfare replay` on logs of real runs, and `tokenfare simulate`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::process::Command;

use rstest::rstest;
use serde_json::{Value, json};
use support::{mini, tokenfare};

fn log(path: &Path, flags: &[&str], explore: &str) {
    let mut command = tokenfare();
    command.args(["run", &mini(), "What is a GPU?", "--max-tokens", "40"]).args(flags);
    command.env("TF_DSV41_ACCEPT_LOG", path).env("TF_DSV41_EXPLORE", explore);
    assert!(command.output().unwrap().status.success());
}

fn replay(path: &Path, flags: &[&str]) -> (Value, String) {
    let said = tokenfare().arg("replay").arg(path).args(flags).args(["--output", "json"]).output().unwrap();
    let stderr = String::from_utf8(said.stderr).unwrap();
    assert!(said.status.success(), "{stderr}");
    (serde_json::from_slice(&said.stdout).unwrap(), stderr)
}

#[test]
fn a_replay_chooses_what_the_server_chose() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("accept.jsonl");
    log(&path, &[], "0");
    log(&path, &["--temperature", "0.8"], "4");
    let (found, stderr) = replay(&path, &["--rule", "logged", "--rule", "static:5"]);
    assert_eq!(stderr, "");
    let logged = &found["rules"][0]["result"];
    assert_eq!((&logged["same"], &logged["rounds"]), (&logged["asked"], &found["rounds"]));
    assert!(logged["asked"].as_u64() < logged["windows"].as_u64(), "{found}");
    let deep = &found["rules"][1];
    assert!(deep["result"]["mean_depth"].as_f64() > Some(4.0));
    let parts: u64 =
        ["known", "estimated", "unknown"].map(|p| deep["result"][p].as_u64().unwrap()).iter().sum();
    assert_eq!(Some(parts), found["windows"].as_u64());

    // As after kill -9 in the middle of a line.
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &text[..text.len() - 9]).unwrap();
    let (cut, stderr) = replay(&path, &[]);
    assert_eq!(cut["rounds"].as_u64().unwrap() + 1, found["rounds"].as_u64().unwrap());
    let lines = text.lines().count();
    assert!(
        stderr.contains(&format!("warning: {}: line {lines} is cut short and left out\n", path.display()))
    );
    log(&path, &[], "0");
    assert_eq!(
        replay(&path, &[]).0["rules"][0]["result"]["same"],
        replay(&path, &[]).0["rules"][0]["result"]["asked"]
    );
}

fn refusal(command: &mut Command) -> String {
    let said = command.output().unwrap();
    assert_eq!((said.status.code(), said.stdout.len()), (Some(1), 0));
    String::from_utf8(said.stderr).unwrap()
}

#[test]
fn what_is_no_log_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let name = path.display();
    let none = refusal(tokenfare().arg("replay").arg(&path));
    assert_eq!(none, format!("tokenfare: {name}: No such file or directory (os error 2)\n"));
    std::fs::write(&path, "").unwrap();
    assert_eq!(refusal(tokenfare().arg("replay").arg(&path)), format!("tokenfare: {name}: no whole round\n"));
    std::fs::write(&path, "{\"event\":\"round\",\"r\":1,\"ms\":2.0}\n").unwrap();
    let expected = format!("tokenfare: {name}: line 1: a record before any start\n");
    assert_eq!(refusal(tokenfare().arg("replay").arg(&path)), expected);
    let rule = refusal(tokenfare().arg("replay").arg(&path).args(["--rule", "price"]));
    assert!(rule.starts_with("tokenfare: --rule: \"price\": expected cost"), "{rule}");
    let table = refusal(tokenfare().arg("replay").arg(&path).args(["--table", "none.json"]));
    assert_eq!(table, "tokenfare: table none.json: No such file or directory (os error 2)\n");
}

#[test]
fn simulations_repeat_and_depend_on_the_seed() {
    let report = |seed: &str| -> Value {
        let args = ["simulate", "--rounds", "500", "--seed", seed, "--output", "json", "--world", "all"];
        serde_json::from_slice(&tokenfare().args(args).output().unwrap().stdout).unwrap()
    };
    let first = report("1");
    assert_eq!(first, report("1"));
    assert_ne!(first["worlds"], report("2")["worlds"]);
    assert_eq!(first["worlds"].as_array().unwrap().len(), 9);
}

#[test]
fn worlds_come_from_files_and_flags() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("world.json");
    let world = json!({"loads": [{"accept": [0.9, 0.8], "spread": 0.0}], "costs": {"noise": 0.0}});
    std::fs::write(&path, world.to_string()).unwrap();
    let args = ["simulate", "--rounds", "2000", "--host", "10", "--rule", "static:0", "--output", "json"];
    let said = tokenfare().args(args).arg("--world").arg(&path).output().unwrap();
    let found: Value = serde_json::from_slice(&said.stdout).unwrap();
    let rule = &found["worlds"][0]["report"]["rules"][0];
    assert_eq!((rule["ms"].as_f64(), rule["tokens"].as_f64()), (Some(52.0), Some(1.0)));
    std::fs::write(&path, "[1, 2]").unwrap();
    let line = refusal(tokenfare().args(args).arg("--world").arg(&path));
    let problem = "invalid type: sequence, expected a map at line 1 column 0";
    assert_eq!(line.trim_end(), format!("tokenfare: world {}: {problem}", path.display()));
}

#[rstest]
#[case(&["--world", "flat"], "tokenfare: world \"flat\": expected one of linear, ")]
#[case(&["--accept", "0.5,2"], "tokenfare: world linear: loads: accept: 2, expected probabilities between 0 and 1\n")]
#[case(&["--streams", "65"], "tokenfare: world linear: streams: 65, expected 1 to 64\n")]
#[case(&["--table", "none.json"], "tokenfare: table none.json: No such file")]
fn what_is_no_world_is_refused(#[case] flags: &[&str], #[case] message: &str) {
    let line = refusal(tokenfare().arg("simulate").args(flags));
    assert!(line.starts_with(message), "{line}");
}
