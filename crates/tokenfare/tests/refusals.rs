//! Bad starts: exit status 1 and one line that names what was expected and found.

mod common;

use std::path::Path;
use std::process::{Command, Output};

use common::{repository, tokenfare};
use rstest::rstest;

fn refused(output: Output, words: &[&str]) {
    let error = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(!error.contains("panicked"), "{error}");
    let lines: Vec<&str> = error.lines().filter(|l| l.starts_with("tokenfare: ")).collect();
    assert_eq!(lines.len(), 1, "{error}");
    for word in words {
        assert!(lines[0].contains(word), "{word} is missing in: {error}");
    }
}

#[rstest]
#[case("TF_DSV41_DEPTH", "deep", &["TF_DSV41_DEPTH=\"deep\": expected cost or static"])]
#[case("TF_DSV41_DRAFT_DEPTH", "16", &["TF_DSV41_DRAFT_DEPTH=\"16\": expected a whole number from 0 to 15"])]
#[case("TF_DSV41_CALIB", "bogus", &["TF_DSV41_CALIB=\"bogus\": expected cached, default, real, measure, stored or zig, in any case (unset or blank: default on CPU)"])]
#[case("TF_DSV41_CALIB", "measure", &["TF_DSV41_CALIB=\"measure\": not available in this build"])]
#[case("TF_CPU_PATH", "sse", &["TF_CPU_PATH=\"sse\": expected auto, amx, avx512, avx2, neon or scalar"])]
fn a_malformed_setting_stops_the_start(#[case] name: &str, #[case] value: &str, #[case] words: &[&str]) {
    let output = tokenfare().args(["run", "/nowhere", "x"]).env(name, value).output().expect("it runs");
    refused(output, words);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_path_that_the_machine_lacks_is_named() {
    refused(
        tokenfare().args(["run", "x"]).env("TF_CPU_PATH", "neon").output().expect("it runs"),
        &["neon", "aarch64"],
    );
}

#[rstest]
#[case(&["run", "/nowhere", "x"], &["/nowhere", "config.json"])]
#[case(&["info", "/nowhere"], &["/nowhere", "config.json"])]
#[case(&["run", "--context", "1", "x"], &["--context 1: expected 2 to the model's 4096"])]
#[case(&["run", "--context", "9999", "x"], &["--context 9999: expected 2 to the model's 4096"])]
#[case(&["run", "--exact-caches", "x"], &["--exact-caches: only with --device reference"])]
#[case(&["run", "--prompt-cache-gib", "nan", "x"], &["--prompt-cache-gib NaN: expected a number from 0"])]
#[case(&["run", "--temperature", "nan", "x"], &["--temperature NaN: expected a number from 0 to 100"])]
#[case(&["run", "--top-p", "0", "x"], &["--top-p 0: expected a number above 0, at most 1"])]
#[case(&["run", "--reasoning-effort", "huge", "--thinking", "x"], &["--reasoning-effort huge"])]
#[case(&["run", "--threads", "0", "x"], &["--threads 0: expected at least 1"])]
#[case(&["run", "--raw", ""], &["prompt: empty, expected at least one token"])]
#[case(&["serve", "--temperature=-1"], &["--temperature -1: expected a number from 0 to 100"])]
#[case(&["serve", "--port", "0", "--host", "256.0.0.1"], &["listening on 256.0.0.1:0"])]
fn a_bad_argument_is_named(#[case] args: &[&str], #[case] words: &[&str]) {
    refused(tokenfare().args(args).output().expect("it runs"), words);
}

#[test]
fn a_port_in_use_is_named() {
    let holder = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = holder.local_addr().expect("an address").port().to_string();
    let output = tokenfare().args(["serve", "--port", &port]).output().expect("it runs");
    refused(output, &[&format!("listening on 127.0.0.1:{port}"), "in use"]);
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
    }
}

#[test]
fn a_missing_shard_is_named() {
    let dir = tempfile::tempdir().expect("a folder");
    copy(&repository("fixtures/tiny"), dir.path());
    std::fs::remove_file(dir.path().join("model-00001-of-00002.safetensors")).expect("a shard");
    let output = tokenfare().arg("run").arg(dir.path()).arg("x").output().expect("it runs");
    refused(output, &["model-00001-of-00002.safetensors"]);
}

#[test]
fn a_tokenizer_of_another_vocabulary_is_named() {
    let dir = tempfile::tempdir().expect("a folder");
    copy(&repository("fixtures/tiny"), dir.path());
    std::fs::copy(repository("models/mini/tokenizer.json"), dir.path().join("tokenizer.json"))
        .expect("a copy");
    let output = tokenfare().arg("run").arg(dir.path()).arg("x").output().expect("it runs");
    refused(output, &["tokenizer.json", "8192", "512"]);
}

#[test]
fn synth_refuses_a_folder_that_holds_something() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("note"), "mine").expect("a file");
    let output = tokenfare().arg("synth").arg(dir.path()).output().expect("it runs");
    refused(output, &["note"]);
    assert_eq!(std::fs::read(dir.path().join("note")).expect("still there"), b"mine");
}

/// Address spaces, in KiB, that end while weights are loaded and while state is set up.
#[cfg(target_os = "linux")]
#[rstest]
#[case(60_000)]
#[case(90_000)]
fn too_little_memory_is_an_error_and_no_crash(#[case] limit: u32) {
    let line = format!("ulimit -v {limit}; exec {} run --threads 1 x", env!("CARGO_BIN_EXE_tokenfare"));
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]).current_dir(repository(".")).env("TF_CPU_PATH", "scalar");
    refused(shell.output().expect("it runs"), &["memory"]);
}
