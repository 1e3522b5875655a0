//! Generated pages.

use crate::shell;
use anyhow::{Context, Result};

/// Writes every generated page.
pub fn write() -> Result<()> {
    let path = shell::root().join("docs/environment.md");
    std::fs::write(&path, tokenfare_settings::environment_page())
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("wrote docs/environment.md");
    Ok(())
}
