//! A comparison's receipt: what was measured, with what, and what it shows.

mod check;
mod facts;
mod folder;
mod markdown;
mod scrub;
pub mod svg;

use serde::{Deserialize, Serialize};

pub use check::{Standing, check};
pub use facts::{ArmFacts, Facts, commit};
pub use folder::files;
pub use markdown::summary;
pub use scrub::Scrub;

use crate::compare::Comparison;
use crate::machine::Identity;
use crate::stats::Spread;

/// The file of a receipt's folder that holds everything measured.
pub const RAW: &str = "raw.json";

/// Everything that a receipt is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// What is known of tool, arms and arguments.
    pub facts: Facts,
    /// The machine.
    pub machine: Identity,
    /// What the client itself costs, in microseconds an event.
    pub client_microseconds: Option<Spread>,
    /// What was compared.
    pub comparison: Comparison,
    /// What was left out, and why.
    pub left_out: Vec<String>,
    /// Why it is only a part, if it is.
    pub partial: Option<String>,
}
