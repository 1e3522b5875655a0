//! What the command refuses: status 1 and one line that names the cause.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use rstest::rstest;
use support::{copy_tiny, refusal, repository, tiny, tokenfare};

#[rstest]
#[case(&["--context", "0"], "--context 0: expected 2 to the model's 4096")]
#[case(&["--context", "4097"], "--context 4097: expected 2 to the model's 4096")]
#[case(&["--exact-caches"], "--exact-caches: only with --device reference")]
#[case(&["--temperature", "nan"], "--temperature NaN: expected a number from 0 to 100")]
#[case(&["--temperature", "-1"], "--temperature -1: expected a number from 0 to 100")]
#[case(&["--top-p", "0"], "--top-p 0: expected a number above 0, at most 1")]
#[case(&["--min-p", "2"], "--min-p 2: expected a number from 0 to 1")]
#[case(&["--reasoning-effort", "huge"], "--reasoning-effort huge: ")]
#[case(&["--prompt-cache-gib", "-1"], "--prompt-cache-gib -1: expected a number from 0")]
#[case(&["--prompt-cache-gib", "nan"], "--prompt-cache-gib NaN: expected a number from 0")]
#[case(&["--threads", "0"], "--threads 0: expected 1 to 1024")]
#[case(&["--threads", "1025"], "--threads 1025: expected 1 to 1024")]
fn a_flag_is_named(#[case] flags: &[&str], #[case] message: &str) {
    for command in [&["run", &tiny(), "hi"][..], &["serve", "--port", "0", &tiny()]] {
        let line = refusal(tokenfare().args(command).args(flags));
        assert!(line.starts_with(message), "{line}");
    }
}

#[rstest]
#[case(
    "TF_DSV41_DEPTH",
    "deep",
    "TF_DSV41_DEPTH=\"deep\": expected cost or static, in any case (unset or blank: cost)"
)]
#[case(
    "TF_DSV41_DRAFT_DEPTH",
    "16",
    "TF_DSV41_DRAFT_DEPTH=\"16\": expected a whole number from 0 to 15 (unset or blank: 5 for cost, 3 for static)"
)]
#[case(
    "TF_DSV41_CALIB",
    "bogus",
    "TF_DSV41_CALIB=\"bogus\": expected cached, default, real, measure, stored or zig, in any case (unset or blank: default on CPU)"
)]
#[case(
    "TF_DSV41_CALIB_REPS",
    "0",
    "TF_DSV41_CALIB_REPS=\"0\": expected a whole number from 1 to 50 (unset or blank: 3 on CPU)"
)]
#[case(
    "TF_CPU_PATH",
    "sse",
    "TF_CPU_PATH=\"sse\": expected auto, amx, avx512, avx2, neon or scalar, in any case (unset or blank: auto)"
)]
#[cfg_attr(
    target_arch = "x86_64",
    case("TF_CPU_PATH", "neon", "cpu path neon needs an aarch64 processor, which this machine lacks")
)]
fn a_setting_is_named(#[case] name: &str, #[case] value: &str, #[case] message: &str) {
    for command in [&["run", &tiny(), "hi"][..], &["serve", "--port", "0", &tiny()]] {
        assert_eq!(refusal(tokenfare().args(command).env(name, value)), message);
    }
}

/// Values of `TF_DSV41_CALIB*` are checked in every mode, before a checkpoint is looked for.
#[rstest]
#[case("SHAPE", "rw", "expected raw or fit, in any case (unset or blank: raw)")]
#[case("STAT", "mean", "expected median or min, in any case (unset or blank: min on CPU)")]
#[case("REPS", "51", "expected a whole number from 1 to 50 (unset or blank: 3 on CPU)")]
#[case("WARM", "-1", "expected a whole number from 0 to 20 (unset or blank: 1 on CPU)")]
#[case("RECHECK", "9", "expected a whole number from 0 to 8 (unset or blank: 0 on CPU)")]
#[case("CYCLE", "many", "expected a whole number from 0 to 8 (unset or blank: 4 for raw, 0 for fit)")]
#[case("DEEP_REPS", "1.5", "expected a whole number from 1 to 50 (unset or blank: 5 for raw, 3 for fit)")]
#[case("BUDGET_MS", "60001", "expected a whole number from 0 to 60000 (unset or blank: 2000)")]
fn a_calibration_setting_stops_every_start(#[case] name: &str, #[case] value: &str, #[case] expected: &str) {
    let name = format!("TF_DSV41_CALIB_{name}");
    for mode in ["default", "", "measure", "stored", "cached", "real"] {
        for command in [&["run", "/none", "hi"][..], &["serve", "/none"], &["calibrate", "/none"]] {
            let line = refusal(tokenfare().args(command).env(&name, value).env("TF_DSV41_CALIB", mode));
            assert_eq!(line, format!("{name}=\"{value}\": {expected}"));
        }
    }
}

#[test]
fn a_source_of_costs_that_is_none_is_named() {
    let expected = "expected cached, default, real, measure, stored or zig, in any case (unset or blank: default on CPU)";
    for command in [&["run", "/none", "hi"][..], &["serve", "/none"]] {
        let line = refusal(tokenfare().args(command).env("TF_DSV41_CALIB", "live"));
        assert_eq!(line, format!("TF_DSV41_CALIB=\"live\": {expected}"));
        let line = refusal(tokenfare().args(command).args(["--draft-costs", "live"]));
        assert_eq!(line, format!("--draft-costs \"live\": {expected}"));
        let line = refusal(
            tokenfare().args(command).args(["--draft-costs", "Measure"]).env("TF_DSV41_CALIB", "cached"),
        );
        let why = "disagree: give one of them, or the same in both";
        assert_eq!(line, format!("--draft-costs Measure and TF_DSV41_CALIB=cached {why}"));
        // The same in both is no disagreement: the next thing that is wrong is the folder.
        let line = refusal(
            tokenfare().args(command).args(["--draft-costs", " ZIG"]).env("TF_DSV41_CALIB", "stored"),
        );
        assert!(line.contains("/none"), "{line}");
    }
}

#[test]
fn a_model_without_a_name_is_refused() {
    let said = tokenfare().args(["serve", &tiny(), "--port", "0", "--name", ""]).output().unwrap();
    let text = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(2), "{text}");
    assert!(
        text.starts_with("error: a value is required for '--name <NAME>' but none was supplied\n"),
        "{text}"
    );
}

#[test]
fn calibrate_times_drafts_alone() {
    let line = refusal(tokenfare().args(["calibrate", &tiny(), "--no-drafts"]));
    assert_eq!(line, "--no-drafts: calibrate times drafts");
}

#[test]
fn a_setting_that_is_not_unicode_is_named() {
    use std::os::unix::ffi::OsStrExt;
    let value = std::ffi::OsStr::from_bytes(b"\xff");
    let line = refusal(tokenfare().arg("settings").env("TF_DSV41_DEPTH", value));
    assert_eq!(line, "TF_DSV41_DEPTH=\"\\xFF\": expected Unicode");
}

#[test]
fn a_tokenizer_of_another_vocabulary_is_named() {
    let folder = tempfile::tempdir().unwrap();
    copy_tiny(folder.path());
    let tokenizer = folder.path().join("tokenizer.json");
    std::fs::copy(repository("models/mini/tokenizer.json"), &tokenizer).unwrap();
    let line = refusal(tokenfare().args(["run", &folder.path().display().to_string(), "hi"]));
    let expected = "8192 tokens, expected the 512 of config.json (vocab_size)";
    assert_eq!(line, format!("{}: {expected}", tokenizer.display()));
}

#[test]
fn a_missing_model_or_shard_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    for command in [&["info", &path("none")][..], &["run", &path("none"), "hi"], &["serve", &path("none")]] {
        let line = refusal(tokenfare().args(command));
        assert!(line.contains(&path("none")), "{line}");
    }
    copy_tiny(folder.path());
    let shard = "model-00002-of-00002.safetensors";
    std::fs::remove_file(folder.path().join(shard)).unwrap();
    let line = refusal(tokenfare().args(["run", &folder.path().display().to_string(), "hi"]));
    assert!(line.contains(shard), "{line}");
}

#[test]
fn synth_writes_into_no_folder_that_holds_something() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine"), "x").unwrap();
    let line = refusal(tokenfare().arg("synth").arg(folder.path()));
    assert!(line.contains("mine"), "{line}");
    assert_eq!(std::fs::read(folder.path().join("mine")).unwrap(), b"x");
}

#[test]
fn raw_needs_a_prompt() {
    assert_eq!(refusal(tokenfare().args(["run", &tiny(), "--raw"])), "--raw: expected a prompt");
    let line = refusal(tokenfare().args(["run", &tiny(), "--raw", ""]));
    assert_eq!(line, "prompt: empty, expected at least one token");
}

#[test]
fn a_host_without_an_address_is_named() {
    let line = refusal(tokenfare().args(["serve", &tiny(), "--host", "256.0.0.1", "--port", "0"]));
    assert!(line.starts_with("listening on 256.0.0.1:0: "), "{line}");
}

#[test]
fn a_taken_port_is_named() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port().to_string();
    let line = refusal(tokenfare().args(["serve", &tiny(), "--port", &port]));
    assert!(line.starts_with(&format!("listening on 127.0.0.1:{port}: Address already in use")), "{line}");
}

#[test]
fn a_name_with_a_line_break_and_control_codes_is_told_on_one_line() {
    let line = refusal(tokenfare().args(["info", "no\n\u{1b}[31mmodel"]));
    assert!(line.starts_with("cannot read no\\n\\u{1b}[31mmodel/config.json: "), "{line}");
}

#[test]
fn a_prompt_that_is_not_unicode_is_named() {
    use std::os::unix::ffi::OsStrExt;
    let word = std::ffi::OsStr::from_bytes(b"\xff");
    let line = refusal(tokenfare().args(["run", &tiny()]).arg(word));
    assert_eq!(line, "prompt: expected Unicode, found \"\\xFF\"");
}
