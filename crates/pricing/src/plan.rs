//! What a depth rule is asked and what it answers.

use crate::{Joint, Rule, Skip};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How depths are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DepthConfig {
    /// The rule.
    pub rule: Rule,
    /// Most rows of a window whose drafts are copied, its pending token included.
    pub copied_rows: usize,
    /// Shared rounds of at least this many live streams draft nothing; 0 is never.
    pub plain_streams: usize,
    /// Most rows of one launch, all windows together.
    pub row_cap: usize,
}

impl Default for DepthConfig {
    fn default() -> Self {
        let rule = Rule::Cost { cap: 5, skip: Skip::On, joint: Joint::Together };
        Self { rule, copied_rows: 16, plain_streams: 0, row_cap: 64 }
    }
}

/// The rule in words, as the start of the server prints it.
impl fmt::Display for DepthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rule {
            Rule::Static { depth } => write!(f, "static, depth {depth}"),
            Rule::Cost { cap, skip, joint } => {
                let skip = if skip == Skip::On { "on" } else { "off" };
                let joint = if joint == Joint::Together { 1 } else { 0 };
                write!(f, "cost, cap {cap}, skip {skip}, joint {joint}, drafts priced from the cost tables")
            }
        }
    }
}

/// One stream's window before its depth is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window<'a> {
    /// The lane.
    pub slot: usize,
    /// Confidence, as a probability, of each draft that the drafter's pass left for this round; empty without a pass.
    pub held: &'a [f64],
    /// The first of these drafts. A lone window that does not know it verifies at least one.
    pub first: Option<u32>,
    /// Most drafts that the reply and its lane have room for.
    pub room: usize,
    /// A continuation copied from the stream's own tokens.
    pub copy: Option<Copied>,
}

/// A continuation found in a stream's own tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// Tokens before the pending position that match.
    pub matched: usize,
    /// Tokens that follow the match.
    pub len: usize,
}

/// How a stream's tokens are drawn, as far as acceptance depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SamplingClass {
    /// Temperature 0.
    Greedy,
    /// Temperature up to 0.5.
    Cool,
    /// Temperature above 0.5.
    Warm,
    /// A grammar masks the draws, at any temperature.
    Grammar,
}

/// Where a window's drafts come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The drafter.
    #[serde(rename = "dspark")]
    Drafter,
    /// The stream's own tokens.
    Copy,
}

/// The depth of one window and what it was chosen from.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The lane.
    pub slot: usize,
    /// Whose drafts are verified.
    pub source: Source,
    /// Drafts to verify, the first ones of `source`; 0 is a window of one row.
    pub depth: usize,
    /// Most drafts that were allowed.
    pub most: usize,
    /// Probability of each draft of `source`, conditional on those before it.
    pub q: Vec<f64>,
    /// Tokens a millisecond that rows were priced at.
    pub lambda: f64,
}

/// The choices of one round, to be handed back with its outcomes.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub(crate) windows: Vec<Planned>,
    pub(crate) choices: Vec<Choice>,
    pub(crate) plain: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Planned {
    pub held: Vec<f64>,
    pub first: Option<u32>,
    pub matched: usize,
}

impl Plan {
    /// One choice a window, in the order of the windows.
    pub fn choices(&self) -> &[Choice] {
        &self.choices
    }

    /// Puts another depth, cut to the most allowed, in the place of one that was chosen.
    pub fn overrule(&mut self, window: usize, depth: usize) {
        if let Some(choice) = self.choices.get_mut(window) {
            choice.depth = depth.min(choice.most);
        }
    }
}

/// What became of one window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The lane.
    pub slot: usize,
    /// Verified drafts that equalled the target's tokens, from the first on.
    pub accepted: usize,
    /// Tokens that the reply took from the round.
    pub committed: usize,
    /// The target's token for the first position: what the first draft is compared with.
    pub next: u32,
}
