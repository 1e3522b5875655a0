//! Which table prices the drafts of this start, and what the start says of it.

mod choose;
mod folder;
mod identity;
mod report;
mod table_file;

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tokenfare_lanes::{Calibrated, CalibrationError};
use tokenfare_pricing::{CalibrationOptions, CostTable, Shape, Statistic};
use tokenfare_settings::{CalibSettings, CalibSource, TableShape as Smoothing, TimingStat};

pub use choose::Request;
pub use identity::{Identity, executable};
pub use report::{facts, measurement_lines};

use crate::lines::Line;

/// Where the table in force comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Built in.
    Default,
    /// A stored table of any engine.
    Cached(PathBuf),
    /// Timed at this start.
    Measured,
    /// This engine's stored table.
    Stored(PathBuf),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Cached(path) => write!(f, "cached {}", path.display()),
            Self::Measured => f.write_str("measured"),
            Self::Stored(path) => write!(f, "stored {}", path.display()),
        }
    }
}

/// The table that prices the rounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// The table.
    pub table: CostTable,
    /// Where it comes from.
    pub source: Source,
    /// What was said on the way to it.
    pub lines: Vec<Line>,
}

impl Costs {
    fn built_in(lines: Vec<Line>) -> Self {
        Self { table: CostTable::built_in(), source: Source::Default, lines }
    }

    /// The line of the costs in force.
    pub fn line(&self) -> Line {
        let table = &self.table;
        Line::command(&format!("draft costs: {}, {table}", self.source)).with(json!({
            "source": self.source.to_string(),
            "verify_ms": table.verify(),
            "draft_ms": table.draft_ms(),
            "slot_ms": table.slot_ms(),
        }))
    }
}

/// How the settings measure.
pub fn options(calib: &CalibSettings) -> CalibrationOptions {
    CalibrationOptions {
        shape: match calib.shape {
            Smoothing::Raw => Shape::Raw,
            Smoothing::Fit => Shape::Fit,
        },
        statistic: match calib.stat {
            TimingStat::Median => Statistic::Median,
            TimingStat::Min => Statistic::Min,
        },
        reps: calib.reps,
        deep_reps: calib.deep_reps,
        warm: calib.warm,
        cycle: calib.cycle,
        recheck: calib.recheck,
        budget: Duration::from_millis(calib.budget_ms),
    }
}

/// Whether a source may time windows.
fn measures(source: CalibSource) -> bool {
    matches!(source, CalibSource::Measure | CalibSource::Stored)
}

/// The costs of a start that drafts nothing.
pub fn without_drafts(calib: &CalibSettings) -> Costs {
    let skipped = measures(calib.source).then(|| Line::family("calibration skipped: drafts are off"));
    Costs::built_in(skipped.into_iter().collect())
}

/// What a start can do on the way to its table; each is asked for at most where the source needs it.
pub trait Start {
    /// Times a table.
    fn measure(&mut self) -> Result<Calibrated, CalibrationError>;
    /// Hashes what stored tables belong to.
    fn identity(&mut self) -> Result<Identity>;
}
