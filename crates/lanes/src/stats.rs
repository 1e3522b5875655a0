//! Counts of the whole engine.

use crate::Finish;
use tokenfare_pricing::{CostTable, Depth};

/// What rounds are priced by: the table, and how the acceptance estimate corrects confidences.
#[derive(Debug, Clone, PartialEq)]
pub struct Prices {
    /// Costs of rounds.
    pub table: CostTable,
    /// Factor of each draft position; 1 while nothing was learnt.
    pub factors: Vec<f64>,
}

impl Prices {
    pub(crate) fn of(table: &CostTable) -> Self {
        Self { table: table.clone(), factors: Vec::new() }
    }

    pub(crate) fn update(&mut self, depth: &Depth) {
        self.factors = (0..depth.estimate().positions()).map(|j| depth.estimate().factor(j)).collect();
    }
}

/// Drafts at one position of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PositionCount {
    /// Times a draft stood here and all drafts before it were kept.
    pub reached: u64,
    /// Times it was kept.
    pub kept: u64,
}

/// What the engine holds now and has done since its start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LanesStats {
    /// Requests waiting for a lane.
    pub waiting: usize,
    /// Requests in lanes.
    pub running: usize,
    /// Replies that ended by themselves: a stop, a text end or a length.
    pub finished: u64,
    /// Those of them that ended at their most tokens.
    pub at_length: u64,
    /// Replies that were cancelled, waiting ones included.
    pub cancelled: u64,
    /// Replies that failed.
    pub failed: u64,
    /// Prompt tokens of admitted requests.
    pub prompt_tokens: u64,
    /// Those of them that were resumed from kept states.
    pub cached_tokens: u64,
    /// Tokens generated.
    pub completion_tokens: u64,
    /// Verify launches.
    pub launches: u64,
    /// Rounds, counted once a stream.
    pub rounds: u64,
    /// Drafts verified.
    pub drafted: u64,
    /// Drafts kept.
    pub accepted: u64,
    /// Copied drafts verified, part of `drafted`.
    pub copied: u64,
    /// Copied drafts kept, part of `accepted`.
    pub copied_accepted: u64,
    /// Rounds of a stream that verified no draft.
    pub zero_depth: u64,
    /// The drafter's drafts by position.
    pub positions: Vec<PositionCount>,
    /// Kept prompt states.
    pub cache_entries: usize,
    /// Their bytes.
    pub cache_bytes: usize,
    /// Prompts that resumed from a kept state.
    pub cache_hits: u64,
    /// Prompts that found none.
    pub cache_misses: u64,
}

impl LanesStats {
    pub(crate) fn count_finish(&mut self, reason: &Finish) {
        match reason {
            Finish::Stop | Finish::Text(_) => self.finished += 1,
            Finish::Length => {
                self.finished += 1;
                self.at_length += 1;
            }
            Finish::Cancelled => self.cancelled += 1,
            Finish::Failed(_) => self.failed += 1,
        }
    }

    /// Counts `depth` drafts of the drafter, of which the first `accepted` were kept.
    pub(crate) fn count_positions(&mut self, depth: usize, accepted: usize) {
        if self.positions.len() < depth {
            self.positions.resize(depth, PositionCount::default());
        }
        for (j, count) in self.positions.iter_mut().enumerate().take(depth.min(accepted + 1)) {
            count.reached += 1;
            count.kept += u64::from(j < accepted);
        }
    }

    /// Adds the counts of one launch.
    pub(crate) fn add_round(&mut self, round: &Self) {
        self.launches += round.launches;
        self.completion_tokens += round.completion_tokens;
        self.rounds += round.rounds;
        self.drafted += round.drafted;
        self.accepted += round.accepted;
        self.copied += round.copied;
        self.copied_accepted += round.copied_accepted;
        self.zero_depth += round.zero_depth;
        if self.positions.len() < round.positions.len() {
            self.positions.resize(round.positions.len(), PositionCount::default());
        }
        for (total, count) in self.positions.iter_mut().zip(&round.positions) {
            total.reached += count.reached;
            total.kept += count.kept;
        }
    }
}
