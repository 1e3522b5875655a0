//! Text for whoever reads standard output.

use std::io::Write;

use anyhow::{Context, Result};

/// Writes `text` to standard output, all of it or an error.
///
/// # Errors
/// The system's, such as a full disk or a reader that left.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output")
}
