//! `tokenfare bench` as a user runs it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use rstest::rstest;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use support::server::Server;
use support::{mini, repository, tiny, tokenfare};

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
#[case(&["--output", "src"], "--output src: is a directory")]
#[case(&["--prompts", "no-such-file"], "--prompts no-such-file: ")]
#[case(&["--prompts", "Cargo.toml"], "--prompts Cargo.toml: ")]
fn acceptance_refuses_what_it_cannot_measure(#[case] flags: &[&str], #[case] words: &str) {
    let said = tokenfare().args(["bench", "acceptance", &mini()]).args(flags).output().unwrap();
    let line = String::from_utf8(said.stderr).unwrap();
    assert_eq!((said.status.code(), line.lines().count()), (Some(1), 1), "{line}");
    assert!(line.starts_with(&format!("tokenfare: {words}")), "{line}");
}

/// A measurement of a running server: what it printed, and its JSON.
fn measured(args: &[&str], server: &Server, status: i32) -> (String, Value) {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.json");
    let mut command = tokenfare();
    command.args(["bench", args[0], &server.url()]).args(&args[1..]).arg("--output").arg(&output);
    let said = command.output().unwrap();
    assert_eq!(said.status.code(), Some(status), "{}", String::from_utf8_lossy(&said.stderr));
    let report = serde_json::from_slice(&std::fs::read(&output).unwrap()).unwrap();
    (String::from_utf8(said.stdout).unwrap(), report)
}

#[test]
fn a_running_server_is_measured_and_its_replies_are_exact() {
    let server = Server::start(&[&tiny(), "--parallel", "2"], &[]);
    let cells = ["--levels", "1,2", "--tokens", "12", "--reps", "2", "--stagger-ms", "1"];
    let (text, report) = measured(&[&["concurrent", "--alone", "--serial"], &cells[..]].concat(), &server, 0);
    for words in
        ["alone: 24 equal, 0 unequal, 0 failed", "serial: 24 equal, 0 unequal, 0 failed", "client: at most "]
    {
        assert!(text.contains(words), "{words} in {text}");
    }
    let replies = |cell: &Value| cell["reps"][1]["replies"].as_array().unwrap().clone();
    let cells = report["cells"].as_array().unwrap();
    assert_eq!(cells.iter().map(|cell| replies(cell).len()).sum::<usize>(), 2 * 2 * (1 + 2));
    for reply in cells.iter().flat_map(replies) {
        assert_eq!((&reply["tokens"], &reply["finish_reason"]), (&json!(12), &json!("length")));
        assert_eq!(reply["token_sha256"].as_str().unwrap().len(), 64);
    }

    let (text, _) = measured(&["openai", "--tokens", "12", "--reps", "2"], &server, 0);
    assert!(text.contains("fibonacci-raw") && !text.contains("UNEQUAL"), "{text}");
    let prompts = ["prompt", "--require-cold", "--require-reuse", "--context", "600"];
    let (text, report) = measured(&prompts, &server, 0);
    assert!(text.contains("not measured: a prompt of 2000 tokens: the context is shorter"), "{text}");
    assert_eq!(report["broken"], json!([]));
    let cached = |runs: &str| -> Vec<u64> {
        let runs = report[runs].as_array().unwrap().iter();
        runs.map(|run| run["reps"][0]["replies"][0]["cached_tokens"].as_u64().unwrap()).collect()
    };
    assert_eq!((cached("cold"), cached("repeated")), (vec![0, 0], vec![511, 591]));
}

fn tiny_server() -> String {
    format!("{} serve {} --parallel 2", env!("CARGO_BIN_EXE_tokenfare"), tiny())
}

/// A comparison of a server with one of the tiny checkpoint.
fn comparison(base: &str, receipt: &Path) -> Command {
    let mut command = tokenfare();
    command.args([
        "bench",
        "compare",
        "--base",
        base,
        "--this",
        &tiny_server(),
        "--env-this",
        "TF_DSV41_CALIB=measure",
    ]);
    command.args(["--levels", "1,2", "--tokens", "8", "--reps", "1", "--temperatures", "0", "--settle", "0"]);
    command.args(["--openai-tokens", "8", "--openai-temperatures", "0", "--receipt"]).arg(receipt);
    command
}

#[test]
fn two_settings_of_one_binary_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let receipt = folder.path().join("receipt");
    let said = comparison(&tiny_server(), &receipt)
        .args(["--parts", "concurrent,openai,no-drafts"])
        .output()
        .unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let text = String::from_utf8(said.stdout).unwrap();
    assert!(text.contains("Every reply has the same tokens in all runs.\n"), "{text}");
    let page = std::fs::read_to_string(receipt.join("README.md")).unwrap();
    for words in [
        "`TF_DSV41_CALIB=measure`",
        "info(dsv41): dsv41 calibration (tokenfare)",
        "10 of 10",
        "- prompt: not asked",
    ] {
        assert!(page.contains(words), "{words} in {page}");
    }
    assert!(!page.contains("**Partial"), "{page}");
    let check = tokenfare().args(["bench", "receipt", "check"]).arg(folder.path()).output().unwrap();
    assert_eq!(check.status.code(), Some(1));
}

#[rstest]
fn an_interrupt_ends_the_servers_and_leaves_a_part_of_the_receipt(
    #[values("-INT", "-TERM", "-HUP")] signal: &str,
) {
    // Elsewhere nothing tells whether a process was started to outlive its terminal.
    if signal == "-HUP" && !cfg!(target_os = "linux") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let receipt = folder.path().join("receipt");
    // A base that never answers, and says which process it is.
    let pid = folder.path().join("pid");
    let script = format!("sh -c 'echo $$ > {}; exec sleep 600'", pid.display());
    let mut command = comparison(&script, &receipt);
    command.args(["--start-timeout", "600", "--parts", "openai"]);
    // Whoever runs the tests may have told them to outlive the terminal.
    if signal == "-HUP" {
        let mut heeding = support::clean(Command::new("env"));
        heeding.arg("--default-signal=HUP").arg(command.get_program()).args(command.get_args());
        command = heeding;
    }
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let server = loop {
        match std::fs::read_to_string(&pid) {
            Ok(text) if text.ends_with('\n') => break text.trim().to_owned(),
            _ => std::thread::sleep(std::time::Duration::from_millis(5)),
        }
    };
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let lines: Vec<String> =
        BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap).collect();
    assert_eq!(lines, ["tokenfare: stopped: the receipt is a part"]);
    assert!(!Path::new(&format!("/proc/{server}")).exists());
    let page = std::fs::read_to_string(receipt.join("README.md")).unwrap();
    assert!(page.contains("**Partial: stopped by the user.**"), "{page}");
    assert!(page.contains("- openai x1 T0, after 0 runs: stopped by the user"), "{page}");
}

#[rstest]
#[case(&["concurrent", "localhost:1"], "localhost:1: expected an address that starts with http:// or https://")]
#[case(&["openai", "http://localhost:1", "--temperatures", "-1"], "--temperatures -1: expected numbers from 0 to 100")]
#[case(&["compare", "--base", "'", "--this", "x", "--receipt", "r"], "--base \"'\": expected a command with closed quotes")]
#[case(&["compare", "--base", "x", "--this", "x", "--receipt", "r", "--env-this", "X"], "--env-this X: expected KEY=VALUE")]
#[case(&["sweep", "--server", "x", "--settle", "-1"], "--settle -1: expected seconds from 0 to 604800")]
#[case(&["sweep", "--server", "x", "--settle", "1e19"], "--settle 10000000000000000000: expected seconds from 0 to 604800")]
#[case(&["sweep", "--server", "x", "--env", "X"], "--env X: expected KEY=VALUE")]
#[case(&["sweep", "--server", "x", "--output", "src"], "--output src: is a directory")]
#[case(&["sweep", "--server", "x", "--plots", "Cargo.toml"], "--plots Cargo.toml/plot: File exists (os error 17)")]
#[case(&["compare", "--base", "x", "--this", "x", "--receipt", "Cargo.toml"], "--receipt Cargo.toml/raw.json: File exists (os error 17)")]
#[case(&["compare", "--base", "x", "--this", "x", "--receipt", "r", "--gate", "nan"], "--gate NaN: expected tokens a second from 0")]
#[case(&["openai", "http://localhost:1", "--output", "src"], "--output src: is a directory")]
#[case(&["openai", "http://localhost:99999"], "http://localhost:99999: expected an address with a host and a port up to 65535")]
#[case(&["openai", "http://"], "http://: expected an address with a host and a port up to 65535")]
#[case(&["openai", "http://localhost:1", "--api-key", "a\nb"], "--api-key: expected visible ASCII characters")]
fn what_cannot_be_measured_is_refused(#[case] args: &[&str], #[case] message: &str) {
    assert_eq!(support::refusal(tokenfare().arg("bench").args(args)), message);
}

#[test]
fn device_speeds_are_told_in_tables_and_json() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.json");
    let mut command = tokenfare();
    command.args(["bench", "device", "--ops", "linear-fp8,attention", "--rows", "1,3", "--threads", "1,2"]);
    command.args(["--pairs", "1", "--any-moment", "--memory-mib", "2", "--least-ms", "0", "--output"]);
    let said = command.arg(&output).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let text = String::from_utf8(said.stdout).unwrap();
    let report: Value = serde_json::from_slice(&std::fs::read(&output).unwrap()).unwrap();
    let runs = report["runs"].as_array().unwrap();
    assert_eq!(runs.iter().map(|r| r["threads"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
    for run in runs {
        let measured = run["measured"].as_array().unwrap();
        let ops: Vec<&str> = measured.iter().map(|m| m["op"].as_str().unwrap()).collect();
        assert_eq!(ops, ["linear-fp8", "attention"]);
        for m in measured {
            let rows: Vec<u64> =
                m["speeds"].as_array().unwrap().iter().map(|s| s["rows"].as_u64().unwrap()).collect();
            assert_eq!(rows, [1, 3]);
            assert_eq!(m["two_threads_over_one"].is_null(), run["threads"] == 1);
            for speed in m["speeds"].as_array().unwrap() {
                assert_eq!(
                    (speed["all"]["pairs"].as_u64(), &speed["quiet"]),
                    (Some(1), &Value::Null),
                    "{speed}"
                );
            }
            let title = format!("\n{}, {}, ", m["op"].as_str().unwrap(), m["shape"].as_str().unwrap());
            assert!(text.contains(&title), "{title} in {text}");
        }
    }
}

#[test]
fn device_pairs_beside_other_work_are_measured_again_a_few_times() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.json");
    let mut command = tokenfare();
    command.args(["bench", "device", "--ops", "linear-fp8", "--rows", "1", "--threads", "1", "--pairs", "3"]);
    let said =
        command.args(["--memory-mib", "2", "--least-ms", "0", "--output"]).arg(&output).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let report: Value = serde_json::from_slice(&std::fs::read(&output).unwrap()).unwrap();
    let speed = &report["runs"][0]["measured"][0]["speeds"][0];
    let (all, quiet) = (speed["all"]["pairs"].as_u64().unwrap(), speed["quiet"]["pairs"].as_u64());
    assert!((3..=12).contains(&all), "{speed}");
    // Fewer quiet ones than asked for only at the end of all rounds.
    assert!(quiet == Some(3) || all == 12 && quiet < Some(3), "{speed}");
}

#[rstest]
#[case(&["--rows", "0"], "--rows 0: expected 1 to 4096")]
#[case(&["--threads", "0"], "--threads 0: expected 1 to 1024")]
#[case(&["--pairs", "0"], "--pairs 0: expected 1 to 1000")]
#[case(&["--memory-mib", "0"], "--memory-mib 0: expected 1 to 1048576")]
#[case(&["--least-ms", "60001"], "--least-ms 60001: expected up to 60000")]
fn device_refuses_what_it_cannot_measure(#[case] flags: &[&str], #[case] words: &str) {
    let said = tokenfare().args(["bench", "device"]).args(flags).output().unwrap();
    let line = String::from_utf8(said.stderr).unwrap();
    assert_eq!((said.status.code(), line.lines().count()), (Some(1), 1), "{line}");
    assert_eq!(line.trim_end(), format!("tokenfare: {words}"));
}
