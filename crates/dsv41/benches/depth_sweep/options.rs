//! Arguments of the sweep.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::json;
use tokenfare_pricing::CostTable;

use crate::trace::Cell;

/// What to sweep over.
pub struct Options {
    /// Prices of the rounds; timed at the start when none is named.
    pub table: Option<CostTable>,
    /// Where to write the table.
    pub save_table: Option<PathBuf>,
    /// Where proposals are kept from run to run.
    pub trace: Option<PathBuf>,
    /// Least tokens of a cell.
    pub tokens: usize,
    /// Times that every prompt is served under every rule for measured speeds.
    pub turns: usize,
    /// Threads of each engine; 0 are as many as there are CPUs.
    pub threads: usize,
    /// The only load to run.
    pub load: Option<String>,
    /// Whether to go over a range of tables instead.
    pub scan: bool,
}

/// The part of a table file that prices rounds.
#[derive(Deserialize)]
struct TableFile {
    verify: Vec<f64>,
    draft: f64,
    slot: f64,
}

fn read_table(path: &str) -> Result<CostTable, String> {
    if path == "default" {
        return Ok(CostTable::built_in());
    }
    let text = std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    let file: TableFile = serde_json::from_str(&text).map_err(|e| format!("{path}: {e}"))?;
    CostTable::new(&file.verify, file.draft, file.slot).map_err(|e| format!("{path}: {e}"))
}

impl Options {
    /// Reads the arguments; those of cargo itself are passed over.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            table: None,
            save_table: None,
            trace: None,
            tokens: 4000,
            turns: 0,
            threads: 0,
            load: None,
            scan: false,
        };
        while let Some(flag) = args.next() {
            if flag == "--bench" {
                continue;
            }
            let value = args.next().ok_or_else(|| format!("{flag}: expected a value"))?;
            let number = || value.parse().map_err(|_| format!("{flag} {value}: expected a number"));
            match flag.as_str() {
                "--table" => options.table = Some(read_table(&value)?),
                "--save-table" => options.save_table = Some(value.into()),
                "--trace" => options.trace = Some(value.into()),
                "--tokens" => options.tokens = number()?,
                "--turns" => options.turns = number()?,
                "--threads" => options.threads = number()?,
                "--scan" if value == "on" || value == "off" => options.scan = value == "on",
                "--scan" => return Err(format!("--scan {value}: expected on or off")),
                "--load" => options.load = Some(value),
                _ => return Err(format!("{flag}: no such flag")),
            }
        }
        Ok(options)
    }

    /// Tokens of each reply of a cell, the first one, which no round makes, included.
    pub fn length(&self, cell: &Cell) -> usize {
        1 + self.tokens.div_ceil(cell.replies.len())
    }

    /// Writes the table where it is wanted.
    pub fn save(&self, table: &CostTable) {
        if let Some(path) = &self.save_table {
            let text = json!({"verify": table.verify(), "draft": table.draft_ms(), "slot": table.slot_ms()});
            std::fs::write(path, format!("{text:#}\n")).expect("the table file can be written");
        }
    }
}
