//! What is made from the definition of the command line.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use rstest::rstest;
use support::{repository, tokenfare};

fn printed(args: &[&str]) -> String {
    let output = tokenfare().args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_reference_is_what_the_definition_says() {
    let page = std::fs::read_to_string(repository("docs/cli.md")).unwrap();
    assert_eq!(page, printed(&["reference"]), "cargo xtask docs writes docs/cli.md anew");
    for flag in ["`--api-key-file FILE`", "`--parallel auto\\|N`", "`--drafter PATH`", "`--no-update-check`"]
    {
        assert!(page.contains(flag), "{flag}");
    }
}

#[rstest]
#[case("bash", "complete -F _tokenfare")]
#[case("zsh", "#compdef tokenfare")]
#[case("fish", "complete -c tokenfare")]
fn completions_know_commands_and_flags(#[case] shell: &str, #[case] mark: &str) {
    let script = printed(&["completions", shell]);
    for word in [mark, "serve", "api-key-file", "log-format"] {
        assert!(script.contains(word), "{word}");
    }
}

#[test]
fn the_manual_page_has_every_command() {
    let page = printed(&["man"]);
    assert!(page.contains(".TH tokenfare 1"), "{page}");
    for command in ["RUN", "SERVE", "PULL", "INFO", "CALIBRATE", "SETTINGS", "SYNTH", "BENCH ACCEPTANCE"] {
        assert!(page.contains(&format!("\n.SH \"TOKENFARE {command}\"\n")), "{command}");
    }
    assert!(page.contains("\\-\\-api\\-key\\-file"));
}
