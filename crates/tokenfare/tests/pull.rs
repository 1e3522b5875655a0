//! `tokenfare pull` from a hub on this machine.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../hub/tests/support/mod.rs"]
mod hub;
mod support;

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use hub::{COMMIT, FakeHub, REPO, Served, bytes};
use support::tokenfare;

fn pull(hub: &FakeHub, folder: &Path) -> Command {
    let mut command = tokenfare();
    command.args(["pull", REPO, "--to"]).arg(folder).env("HF_ENDPOINT", &hub.endpoint).env_remove("HF_TOKEN");
    command
}

fn text(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_killed_pull_is_resumed() {
    let big = Served { pause: Duration::from_millis(2), ..Served::new(bytes(400_000, 3), true) };
    let hub = FakeHub::start(&[("model.safetensors", big)]);
    let folder = tempfile::tempdir().unwrap();
    let mut child = pull(&hub, folder.path()).spawn().unwrap();
    let parts = folder.path().join(".tokenfare-parts");
    let came = || {
        let entry = std::fs::read_dir(&parts).ok()?.next()?.ok()?;
        entry.metadata().ok().map(|m| m.len())
    };
    while came().unwrap_or(0) < 50_000 {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = came().unwrap();
    assert!(kept < 400_000);
    hub.change("model.safetensors", |file| file.pause = Duration::ZERO);
    let (code, stdout, stderr) = text(pull(&hub, folder.path()).output().unwrap());
    assert_eq!(code, Some(0), "{stderr}");
    let fetched = 400_000 - kept;
    let line = format!(
        "{}: 1 files of {REPO} at {COMMIT}, 1 fetched ({fetched} bytes), 0 kept\n",
        folder.path().display()
    );
    assert_eq!(stdout, line);
    assert_eq!(hub.asked("model.safetensors").last().unwrap().range, Some(format!("bytes={kept}-")));
    assert_eq!(std::fs::read(folder.path().join("model.safetensors")).unwrap(), bytes(400_000, 3));
}

#[test]
fn refusals_are_one_line_and_the_token_stays_hidden() {
    let hub = FakeHub::start(&[("file", Served::new(bytes(10, 1), false))]);
    hub.close_without("right-token");
    let folder = tempfile::tempdir().unwrap();
    let run = |token: &str| text(pull(&hub, folder.path()).env("HF_TOKEN", token).output().unwrap());
    let (code, _, stderr) = run("wrong-token");
    let told = "owner/name at main: the hub refuses access (status 401); a token can be given in HF_TOKEN";
    assert_eq!((code, stderr), (Some(1), format!("tokenfare: {told}\n")));
    assert_eq!(run("right-token").0, Some(0));
    let (code, _, stderr) = text(tokenfare().args(["pull", "nowhere"]).output().unwrap());
    assert_eq!(code, Some(1));
    assert_eq!(stderr, "tokenfare: \"nowhere\": expected OWNER/NAME of letters, digits, '-', '_' and '.'\n");
}
