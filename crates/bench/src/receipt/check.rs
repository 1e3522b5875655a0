//! Whether a receipt still speaks of the tree it is in.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::BenchError;

/// How the tree differs from the one that a receipt was made on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The commit that the receipt names.
    pub head: String,
    /// Files other than documentation that differ.
    pub changed: Vec<String>,
    /// How many files of documentation differ.
    pub documentation: usize,
}

/// Whether a file is documentation: a page, a plot or a receipt.
fn is_documentation(path: &str) -> bool {
    path.starts_with("docs/") || path.ends_with(".md") || path.starts_with("LICENSE")
}

/// Compares the working tree with the head commit of the receipt in `folder`.
///
/// # Errors
/// No receipt; one that names no commit, or one of a tree with changes that no commit holds; a commit that git does not know.
pub fn check(folder: &Path) -> Result<Standing, BenchError> {
    let file = folder.join(super::RAW);
    let text = std::fs::read_to_string(&file).map_err(|e| BenchError::file(&file, e))?;
    let raw: Value = serde_json::from_str(&text).map_err(|e| BenchError::file(&file, e))?;
    let Some(head) = raw["facts"]["this"]["commit"].as_str() else {
        return Err(BenchError::file(&file, "names no commit"));
    };
    if !head.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(BenchError::file(&file, format!("was made on a tree with uncommitted changes ({head})")));
    }
    let output = Command::new("git").current_dir(folder).args(["diff", "--name-only", head, "--"]).output();
    let output = output.map_err(|e| BenchError::file(folder, format!("git: {e}")))?;
    if !output.status.success() {
        let problem = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(BenchError::file(folder, problem));
    }
    Ok(standing(head, &String::from_utf8_lossy(&output.stdout)))
}

fn standing(head: &str, names: &str) -> Standing {
    let (documentation, changed): (Vec<&str>, Vec<&str>) = names.lines().partition(|n| is_documentation(n));
    let changed = changed.into_iter().map(str::to_owned).collect();
    Standing { head: head.to_owned(), changed, documentation: documentation.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(folder: &Path, args: &[&str]) -> String {
        let names = ["-c", "user.name=n", "-c", "user.email=e@x"];
        let output = Command::new("git").current_dir(folder).args(names).args(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[test]
    fn a_receipt_stands_while_only_documentation_changes() {
        let tree = tempfile::tempdir().unwrap();
        let root = tree.path();
        let receipt = root.join("docs/receipts/one");
        std::fs::create_dir_all(&receipt).unwrap();
        std::fs::write(root.join("main.rs"), "a").unwrap();
        git(root, &["init", "-q"]);
        git(root, &["add", "."]);
        git(root, &["commit", "-qm", "one"]);
        let head = git(root, &["rev-parse", "HEAD"]);
        let write = |commit: &str| {
            let raw = serde_json::json!({"facts": {"this": {"commit": commit}}});
            std::fs::write(receipt.join("raw.json"), raw.to_string()).unwrap();
        };
        write(&head);
        std::fs::write(root.join("README.md"), "a").unwrap();
        git(root, &["add", "."]);
        git(root, &["commit", "-qm", "two"]);
        let standing = check(&receipt).unwrap();
        assert_eq!((standing.head.as_str(), standing.changed.len(), standing.documentation), (&*head, 0, 2));
        std::fs::write(root.join("main.rs"), "b").unwrap();
        assert_eq!(check(&receipt).unwrap().changed, ["main.rs"]);
        write(&format!("{head}-dirty"));
        assert!(check(&receipt).unwrap_err().to_string().contains("uncommitted changes"));
        write("0123456789012345678901234567890123456789");
        assert!(check(&receipt).is_err());
    }
}
