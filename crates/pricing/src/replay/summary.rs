//! What a log says by itself.

use super::evidence::Evidence;
use super::seen::Seen;
use crate::log::LoggedRound;
use crate::{SamplingClass, Source};
use serde::Serialize;
use std::collections::BTreeMap;

/// Windows of one class whose drafts have one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ClassSummary {
    /// Windows.
    pub windows: u64,
    /// Those of them that verified nothing.
    pub zero_depth: u64,
    /// Drafts verified.
    pub drafted: u64,
    /// Drafts kept.
    pub kept: u64,
    /// Tokens committed.
    pub tokens: u64,
}

/// Rounds of one shape, as they were timed.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Observed {
    /// Rounds.
    pub rounds: u64,
    /// Milliseconds of all.
    pub ms: f64,
}

/// Everything that needs no rule and no table.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Rounds.
    pub rounds: u64,
    /// Windows.
    pub windows: u64,
    /// Windows whose depth was not the rule's.
    pub explored: u64,
    /// Windows that committed nothing, because their stream failed.
    pub failed: u64,
    /// By class and source.
    pub classes: BTreeMap<(SamplingClass, Source), ClassSummary>,
    /// By windows and rows.
    pub shapes: BTreeMap<(usize, usize), Observed>,
    /// Every judged draft.
    pub all: Evidence,
    /// Those of explored windows.
    pub explored_drafts: Evidence,
}

impl Summary {
    /// Adds a round.
    pub fn round(&mut self, round: &LoggedRound) {
        self.rounds += 1;
        let shape = self.shapes.entry((round.choice.windows, round.choice.rows)).or_default();
        shape.rounds += 1;
        shape.ms += round.ms;
        for ask in &round.choice.asks {
            self.windows += 1;
            self.explored += u64::from(ask.explored);
            let Some(commit) = round.commits.iter().find(|c| c.slot == ask.slot) else {
                self.failed += 1;
                continue;
            };
            let class = self.classes.entry((ask.class, ask.kind)).or_default();
            class.windows += 1;
            class.zero_depth += u64::from(ask.k == 0);
            class.drafted += ask.k as u64;
            class.kept += commit.accepted as u64;
            class.tokens += commit.keep as u64;
            let seen = Seen::new(ask, commit);
            self.all.learn(ask, &seen);
            if ask.explored {
                self.explored_drafts.learn(ask, &seen);
            }
        }
    }
}
