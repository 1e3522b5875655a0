//! Files and streams that take no more bytes.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use rstest::rstest;
use support::{after, clean, last_line, mini, refusal, tiny, tokenfare};

const FULL: &str = "No space left on device (os error 28)";

fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

#[rstest]
#[case(&["run", &mini(), "What is a GPU?"])]
#[case(&["info", &tiny()])]
#[case(&["settings"])]
#[case(&["man"])]
fn a_full_standard_output_is_an_error(#[case] args: &[&str]) {
    let said = tokenfare().args(args).stdout(full()).output().unwrap();
    assert_eq!(said.status.code(), Some(1));
    let line = last_line(&String::from_utf8(said.stderr).unwrap());
    assert_eq!(line, format!("standard output: {FULL}"));
}

#[test]
fn a_full_standard_error_changes_no_reply_and_no_status() {
    let run = |args: &[&str]| {
        let said = tokenfare().args(args).stderr(full()).output().unwrap();
        (said.status.code(), String::from_utf8(said.stdout).unwrap())
    };
    let reply = run(&["run", &mini(), "What is a GPU?", "--max-tokens", "6"]);
    assert_eq!(reply, (Some(0), "A GPU, or graph\n".to_owned()));
    assert_eq!(run(&["info", "no folder"]), (Some(1), String::new()));
}

#[test]
fn a_reader_that_leaves_ends_a_reply_quietly() {
    let mut command = tokenfare();
    command.args(["run", &mini(), "What is a GPU?"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut first = [0];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut first).unwrap();
    drop(stdout);
    let said = child.wait_with_output().unwrap();
    assert_eq!((&first, said.status.code(), said.stderr.len()), (b"A", Some(0), 0));
}

/// Runs the command on a file system of one megabyte at `folder`; `None` where a user may not mount one.
fn on_a_small_disk(folder: &Path, args: &[&str]) -> Option<Command> {
    let mount = "mount -t tmpfs -o size=1m tmpfs \"$0\"";
    let inside = |line: &str| {
        let mut command = clean(Command::new("unshare"));
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", line]).arg(folder);
        command
    };
    let allowed = inside(mount).stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    allowed.then(|| {
        let mut command = inside(&format!("{mount} && \"$@\"; status=$?; ls -A \"$0/made\"; exit $status"));
        command.arg(env!("CARGO_BIN_EXE_tokenfare")).args(args);
        command
    })
}

#[test]
fn a_checkpoint_that_does_not_fit_on_the_disk_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made").display().to_string();
    let Some(mut command) = on_a_small_disk(folder.path(), &["synth", &made]) else {
        eprintln!("skipped: this user may not mount a file system");
        return;
    };
    // The listing of the folder is the standard output, and must be empty.
    let line = refusal(&mut command);
    assert!(
        line.starts_with(&format!("cannot write {made}/")) && line.ends_with(&format!(": {FULL}")),
        "{line}"
    );
}

#[test]
fn a_file_above_the_limit_of_file_sizes_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made").display().to_string();
    let line = refusal(after("trap '' XFSZ; ulimit -f 200").args(["synth", &made]));
    assert!(line.starts_with(&format!("cannot write {made}/")), "{line}");
    assert!(line.ends_with("File too large (os error 27)"), "{line}");
    assert_eq!(std::fs::read_dir(&made).unwrap().count(), 0);
}
