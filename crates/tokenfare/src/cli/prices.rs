//! Cost tables and rules as arguments.

use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use tokenfare_pricing::CostTable;
use tokenfare_pricing::log::Prices;

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Tables for people
    Text,
    /// One JSON object
    Json,
}

/// The table in a JSON file with the fields `verify`, `draft` and `slot`, as stored tables have them; other fields are passed over.
pub fn read_table(path: &Path) -> Result<CostTable> {
    let read = || -> Result<CostTable> {
        let text = std::fs::read_to_string(path)?;
        let prices: Prices = serde_json::from_str(&text)?;
        Ok(prices.table()?)
    };
    read().with_context(|| format!("table {}", path.display()))
}
