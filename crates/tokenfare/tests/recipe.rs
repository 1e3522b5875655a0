//! The training recipe, run at a tiny size, makes a checkpoint that this program reads as the recipe does.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::process::Command;

use serde_json::Value;
use support::{repository, tokenfare};

/// What the recipe needs; continuous integration does not install it.
const MODULES: &str = "import torch, numpy, safetensors, tokenizers";

fn python(args: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.args(args).current_dir(repository("recipes/mini")).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Standard output and the line about drafts of a greedy continuation.
fn continued(model: &str, prompt: &str, tokens: usize, flags: &[&str]) -> (String, String) {
    let tokens = tokens.to_string();
    let mut command = tokenfare();
    command.args(["run", model, "--raw", prompt, "--max-tokens", &tokens]).args(flags);
    let said = command.output().unwrap();
    let stderr = String::from_utf8(said.stderr).unwrap();
    assert!(said.status.success(), "{stderr}");
    (String::from_utf8(said.stdout).unwrap(), stderr)
}

#[test]
fn a_checkpoint_of_the_recipe_gives_its_own_tokens_with_and_without_drafts() {
    if !python(&["-c", MODULES]).output().is_ok_and(|said| said.status.success()) {
        println!("skipped, nothing was tested: python3 lacks a module ({MODULES})");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("tiny").display().to_string();
    let said = python(&["smoke.py", "--out", &out]).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));

    let file = std::fs::read(folder.path().join("tiny/golden.json")).unwrap();
    let golden: Value = serde_json::from_slice(&file).unwrap();
    let prompt = golden[0]["prompt"].as_str().unwrap();
    let clear = golden[0]["greedy_ids"].as_array().unwrap().len();
    assert!(clear >= 4, "{golden}");
    let (reference, _) = continued(&out, prompt, clear, &["--device", "reference"]);
    assert_eq!(reference.strip_suffix('\n').unwrap(), golden[0]["text"].as_str().unwrap());

    let (with, drafted) = continued(&out, prompt, 48, &[]);
    let (without, plain) = continued(&out, prompt, 48, &["--no-drafts"]);
    assert_eq!(with, without);
    assert!(drafted.contains(" drafts kept") && !plain.contains(" drafts kept"), "{drafted}{plain}");
}
