//! House rules of source files: no file over 600 lines, comments of one line that say why, no history, no
//! measurements, no stubs, and no paths of somebody's machine.

mod comments;
mod rules;

use crate::shell;
use anyhow::{Result, bail};
use comments::Language;
use rules::Finding;
use std::collections::BTreeSet;

const LONGEST_FILE: usize = 600;

/// A finding in a file, comparable between trees: the line number is for the reader alone.
type Key = (String, rules::Kind, String);

/// Prints findings of the tracked files; an error when there is one, or, with `base`, one that `base` does not have.
pub fn run(base: Option<&str>) -> Result<()> {
    let known = base.map_or(Ok(BTreeSet::new()), keys_at)?;
    let mut count = 0;
    for path in names(&["ls-files", "-z"])? {
        let Ok(bytes) = std::fs::read(shell::root().join(&path)) else { continue };
        for finding in findings(&path, &String::from_utf8_lossy(&bytes)) {
            if !known.contains(&(path.clone(), finding.kind, finding.text.clone())) {
                println!("{path}:{}: {}: {}", finding.line, finding.kind, finding.text);
                count += 1;
            }
        }
    }
    match (count, base) {
        (0, _) => Ok(()),
        (_, Some(base)) => bail!("{count} findings that {base} does not have"),
        (_, None) => bail!("{count} findings"),
    }
}

fn keys_at(base: &str) -> Result<BTreeSet<Key>> {
    let mut keys = BTreeSet::new();
    for path in names(&["ls-tree", "-r", "-z", "--name-only", base])? {
        if Language::of(&path).is_some() {
            let blob = shell::output(&mut shell::command("git", &["show", &format!("{base}:{path}")]))?;
            let found = findings(&path, &String::from_utf8_lossy(&blob));
            keys.extend(found.into_iter().map(|f| (path.clone(), f.kind, f.text)));
        }
    }
    Ok(keys)
}

fn names(git: &[&str]) -> Result<Vec<String>> {
    let list = shell::output(&mut shell::command("git", git))?;
    Ok(list
        .split(|&b| b == 0)
        .filter(|n| !n.is_empty())
        .map(|n| String::from_utf8_lossy(n).into_owned())
        .collect())
}

fn findings(path: &str, text: &str) -> Vec<Finding> {
    let Some(language) = Language::of(path) else { return Vec::new() };
    let mut found = rules::check(language, text);
    let lines = text.lines().count();
    if lines > LONGEST_FILE {
        let text = format!("more than {LONGEST_FILE} lines");
        found.push(Finding { line: lines, kind: rules::Kind::LongFile, text });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_source_files_are_judged_and_length_is_a_finding() {
        let long = "x\n".repeat(601);
        assert_eq!(findings("data.json", &long), []);
        assert_eq!(findings("a.rs", &"x\n".repeat(600)), []);
        for path in ["a.rs", "b/c.py", "k.wgsl", "k.cu", "p.ts", "p.js"] {
            let found = findings(path, &long);
            assert_eq!(found.len(), 1, "{path}");
            assert_eq!((found[0].kind, found[0].line), (rules::Kind::LongFile, 601));
        }
    }
}
