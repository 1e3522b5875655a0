//! The page on the environment says what the registry says.

use std::collections::BTreeSet;
use tokenfare_settings::{environment_page, registry};

#[test]
fn environment_page_is_the_registry_s() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/environment.md");
    let page = std::fs::read_to_string(path).unwrap().replace("\r\n", "\n");
    assert_eq!(page, environment_page(), "docs/environment.md differs: run `cargo xtask docs`");
}

#[test]
fn environment_page_lists_every_setting_once() {
    let page = environment_page();
    for setting in registry() {
        assert_eq!(page.matches(&format!("\n## {}\n", setting.name)).count(), 1);
    }
    assert_eq!(page.matches("\n## ").count(), registry().len());
}

#[test]
fn environment_names_are_unique_and_meanings_are_sentences() {
    let names: BTreeSet<&str> = registry().iter().map(|s| s.name).collect();
    assert_eq!(names.len(), registry().len());
    for setting in registry() {
        // A hub's names are those that its own tools read.
        assert!(["TF_", "HF_"].iter().any(|start| setting.name.starts_with(start)), "{}", setting.name);
        assert!(setting.meaning.ends_with('.') && !setting.meaning.contains('\n'), "{}", setting.name);
    }
}
