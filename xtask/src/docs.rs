//! Generated pages.

use crate::shell;
use anyhow::{Context, Result};

/// Writes every generated page.
pub fn write() -> Result<()> {
    write_page("docs/environment.md", tokenfare_settings::environment_page().as_bytes())?;
    let command =
        shell::output(&mut shell::cargo(&["run", "--quiet", "-p", "tokenfare", "--", "reference"]))?;
    write_page("docs/cli.md", &command)
}

fn write_page(page: &str, text: &[u8]) -> Result<()> {
    let path = shell::root().join(page);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("wrote {page}");
    Ok(())
}
