//! The commands as a user runs them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::process::{Command, Output};

use rstest::rstest;
use serde_json::Value;
use support::{clean, copy_tiny, mini, repository, tiny, tokenfare};

fn output(command: &mut Command) -> (String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert_eq!(status.code(), Some(0), "{stderr}");
    (stdout, stderr)
}

/// The recorded greedy reply to a question.
fn recorded(question: &str) -> String {
    let file = std::fs::read(repository("models/mini/golden.json")).unwrap();
    let all: Vec<Value> = serde_json::from_slice(&file).unwrap();
    let asked = format!("<｜User｜>{question}<｜Assistant｜></think>");
    let entry = all.iter().find(|e| e["prompt"].as_str().unwrap().ends_with(&asked)).unwrap();
    assert_eq!(entry["robust"], true);
    entry["text"].as_str().unwrap().strip_suffix("<｜end▁of▁sentence｜>").unwrap().to_owned()
}

#[rstest]
#[case("What is a GPU?")]
#[case("Who are you?")]
#[case("What is the capital of France?")]
#[case("What is 12 + 30?")]
#[case("How do I create a new git branch?")]
#[case("What is the difference between a process and a thread?")]
fn run_prints_the_recorded_reply_with_and_without_drafts(#[case] question: &str) {
    for (flags, drafts) in [(&[][..], true), (&["--no-drafts"][..], false)] {
        let (stdout, stderr) = output(tokenfare().args(["run", &mini(), question]).args(flags));
        assert_eq!(stdout, recorded(question) + "\n");
        let [line] = stderr.lines().collect::<Vec<_>>()[..] else { panic!("{stderr}") };
        assert!(line.starts_with('[') && line.contains(" tokens, ") && line.contains(" tok/s, "), "{line}");
        assert_eq!(line.contains("drafts kept"), drafts, "{line}");
    }
}

#[test]
fn the_reference_device_starts_the_recorded_reply() {
    let question = "What is a GPU?";
    let flags = ["--device", "reference", "--max-tokens", "6"];
    let (stdout, _) = output(tokenfare().args(["run", &mini(), question]).args(flags));
    assert_eq!(stdout, "A GPU, or graph\n");
    assert!(recorded(question).starts_with(stdout.trim_end()));
}

#[test]
fn run_without_a_prompt_is_a_conversation() {
    use std::io::Write;
    use std::process::Stdio;
    let mut command = tokenfare();
    command.args(["run", &mini()]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"What is the capital of France?\n\n").unwrap();
    let said = child.wait_with_output().unwrap();
    assert!(said.status.success());
    assert_eq!(String::from_utf8(said.stdout).unwrap(), recorded("What is the capital of France?") + "\n");
}

#[test]
fn info_describes_a_checkpoint() {
    let (stdout, _) = output(tokenfare().args(["info", &tiny()]));
    for line in ["architecture  DeepseekV41ForCausalLM", "vocabulary    512", "context       4096 tokens"] {
        assert!(stdout.lines().any(|l| l == line), "{line} in {stdout}");
    }
}

#[test]
fn settings_show_value_and_origin() {
    let (stdout, _) = output(tokenfare().arg("settings").env("TF_DSV41_DRAFT_DEPTH", "3"));
    let row = |name: &str| {
        let line = stdout.lines().find(|l| l.starts_with(name)).unwrap();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("TF_DSV41_DRAFT_DEPTH ")[..3], ["TF_DSV41_DRAFT_DEPTH", "3", "environment"]);
    assert_eq!(row("TF_CPU_PATH ")[..3], ["TF_CPU_PATH", "auto", "default"]);
    assert_eq!(stdout.lines().count(), 1 + tokenfare_settings::registry().len());
}

#[test]
fn an_unknown_setting_is_one_warning() {
    let (_, stderr) = output(tokenfare().arg("settings").env("TF_DSV41_DRAFT_DEEP", "3"));
    let warning = "warning: TF_DSV41_DRAFT_DEEP is no setting; the nearest is TF_DSV41_DRAFT_DEPTH\n";
    assert_eq!(stderr, warning);
}

#[test]
fn a_written_checkpoint_runs() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("made").display().to_string();
    let (stdout, _) = output(tokenfare().args(["synth", &out, "--seed", "7"]));
    assert!(stdout.starts_with(&format!("{out}: ")), "{stdout}");
    let run = |flags: &[&str]| {
        let mut command = tokenfare();
        output(command.args(["run", &out, "--raw", "abc", "--max-tokens", "12"]).args(flags)).0
    };
    assert_eq!(run(&[]), run(&["--no-drafts"]));
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let said = tokenfare().arg("settings").stdout(writer).output().unwrap();
    assert_eq!((said.status.code(), String::from_utf8(said.stderr).unwrap()), (Some(0), String::new()));
}

#[test]
fn a_folder_of_any_name_is_a_model() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let expected = output(tokenfare().args(["run", &tiny(), "hi", "--max-tokens", "4"])).0;
    for name in [&b"a b"[..], "ünï文".as_bytes(), b"a\nb", b"\xff", b"it's \"$HOME\"", b"--help"] {
        let model = folder.path().join(OsStr::from_bytes(name));
        std::fs::create_dir(&model).unwrap();
        copy_tiny(&model);
        assert_eq!(output(tokenfare().arg("run").arg(&model).args(["hi", "--max-tokens", "4"])).0, expected);
    }
}

#[test]
fn closed_standard_streams_change_nothing() {
    let run = |streams: &str, args: &[&str]| {
        let mut shell = clean(Command::new("sh"));
        let line = format!("exec \"$@\" {streams}");
        output(shell.args(["-c", &line, "sh", env!("CARGO_BIN_EXE_tokenfare")]).args(args)).0
    };
    let args = ["run", &mini(), "What is a GPU?", "--max-tokens", "6"];
    for (streams, stdout) in [("<&-", "A GPU, or graph\n"), ("2>&-", "A GPU, or graph\n"), (">&-", "")] {
        assert_eq!(run(streams, &args), stdout, "{streams}");
    }
    assert_eq!(run("<&-", &["run", &mini()]), "");
}

#[test]
fn log_lines_in_a_file_have_no_colours() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    let mut command = tokenfare();
    command.args(["serve", &tiny(), "--port", "0"]).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("[tokenfare] serving ")));
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let logged: Vec<String> = lines.collect();
    assert!(child.wait().unwrap().success());
    assert!(logged.iter().any(|line| line.contains("INFO")), "{logged:?}");
    assert!(!logged.iter().any(|line| line.contains('\u{1b}')), "{logged:?}");
}
