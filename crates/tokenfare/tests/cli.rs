//! The command as a newcomer uses it.

mod common;

use common::{json, tokenfare};

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn run_writes_the_recorded_replies_with_drafts_and_without() {
    let golden = json("models/mini/golden.json");
    let prompts = ["What is a GPU?", "What is the capital of France?", "Write a fibonacci function"];
    for prompt in prompts {
        let recorded = golden.as_array().expect("a list").iter().find(|c| {
            c["prompt"].as_str().is_some_and(|p| p.contains(&format!("<｜User｜>{prompt}<｜Assistant｜>")))
        });
        let expected = recorded.expect("a recorded prompt")["text"].as_str().expect("text");
        let expected = expected.replace("<｜end▁of▁sentence｜>", "");
        for flags in [&[][..], &["--no-drafts"]] {
            let output = tokenfare().arg("run").args(flags).arg(prompt).output().expect("it runs");
            assert_eq!(text(output.stdout), format!("{expected}\n"), "{flags:?}");
            let stats = text(output.stderr);
            assert!(stats.starts_with('[') && stats.contains(" tok/s, "), "{stats}");
            assert_eq!(stats.contains("drafts kept"), flags.is_empty(), "{stats}");
            assert!(output.status.success());
        }
    }
}

#[test]
fn run_without_a_prompt_is_a_chat() {
    use std::io::Write;
    use std::process::Stdio;
    let mut child = tokenfare()
        .args(["run", "--max-tokens", "8"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    child.stdin.take().expect("a pipe").write_all(b"Who are you?\n\nWhat is 12 + 30?\n").expect("two turns");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(text(output.stdout).lines().count(), 2);
    assert_eq!(text(output.stderr).matches("first token after").count(), 2);
}

#[test]
fn info_gives_the_sizes_of_the_default_model() {
    let output = tokenfare().arg("info").output().expect("it runs");
    let text = text(output.stdout);
    assert!(text.contains("10 of width 384") && text.contains("5 drafts a pass, 3 blocks"), "{text}");
}

#[test]
fn settings_lists_every_setting_with_its_origin() {
    let output = tokenfare().arg("settings").env("TF_DSV41_DEPTH", " STATIC ").output().expect("it runs");
    let text = text(output.stdout);
    let row = |name: &str| text.lines().find(|l| l.starts_with(name)).map(str::to_owned).unwrap_or_default();
    assert_eq!(
        row("TF_DSV41_DEPTH ").split_whitespace().skip(1).collect::<Vec<_>>(),
        ["static", "environment", "cost"]
    );
    assert_eq!(
        row("TF_DSV41_DRAFT_DEPTH ").split_whitespace().skip(1).collect::<Vec<_>>(),
        ["3", "default", "3"]
    );
    assert_eq!(text.lines().count(), 1 + tokenfare_settings::registry().len());
}

#[test]
fn an_unknown_setting_is_one_warning() {
    let output = tokenfare().arg("settings").env("TF_DSV41_DRAFT_DEEP", "3").output().expect("it runs");
    let warning = text(output.stderr);
    assert!(warning.contains("TF_DSV41_DRAFT_DEEP") && warning.contains("TF_DSV41_DRAFT_DEPTH"), "{warning}");
    assert!(output.status.success());
}

#[test]
fn a_synthetic_checkpoint_runs() {
    let dir = tempfile::tempdir().expect("a folder");
    let out = dir.path().join("tiny");
    let made = tokenfare().arg("synth").arg(&out).output().expect("it runs");
    assert!(made.status.success(), "{}", text(made.stderr));
    let run = |flags: &[&str]| {
        let output = tokenfare()
            .args(["run", "--raw", "--max-tokens", "24"])
            .args(flags)
            .arg(&out)
            .arg("hello world")
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{}", text(output.stderr));
        output.stdout
    };
    assert_eq!(run(&[]), run(&["--no-drafts"]));
}
