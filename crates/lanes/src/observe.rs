//! What can be watched of rounds: the source of accept logs and round profiles.

use std::time::Duration;
use tokenfare_pricing::Source;

/// How a stream's tokens are drawn, as far as acceptance depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// One window as it was chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowChoice {
    /// The lane.
    pub slot: usize,
    /// Number of the request, in order of admission.
    pub request: u64,
    /// How its tokens are drawn.
    pub class: SamplingClass,
    /// Whose drafts.
    pub source: Source,
    /// Position of the pending token.
    pub start: usize,
    /// Most drafts allowed.
    pub most: usize,
    /// Drafts verified.
    pub depth: usize,
    /// Whether the depth was not the rule's: an exploring round or an oracle.
    pub explored: bool,
    /// Confidence of each held draft, as a probability; empty for copies.
    pub confidence: Vec<f64>,
    /// Probability of each draft as priced.
    pub q: Vec<f64>,
}

/// A round before its verify launch.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundChoice {
    /// Number of the round.
    pub round: u64,
    /// When.
    pub at: Duration,
    /// Rows in all.
    pub rows: usize,
    /// Rows of windows that hold no drafts.
    pub others: usize,
    /// Every window.
    pub windows: Vec<WindowChoice>,
}

/// What became of one window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowCommit {
    /// Number of the round.
    pub round: u64,
    /// When.
    pub at: Duration,
    /// The lane.
    pub slot: usize,
    /// Rows verified.
    pub rows: usize,
    /// Tokens committed.
    pub kept: usize,
    /// Drafts verified.
    pub drafted: usize,
    /// Whether the reply ended.
    pub finished: bool,
    /// Tokens of the reply so far.
    pub generated: usize,
    /// Most tokens of the reply.
    pub max_new: usize,
}

/// Where the time of a round went; the parts add up to the whole round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RoundTimes {
    /// Choosing streams, depths and rows.
    pub plan: Duration,
    /// The verify launch, with the read back of its logits.
    pub verify: Duration,
    /// Drawing and committing tokens.
    pub conclude: Duration,
    /// Keeping positions, and drafter context.
    pub ingest: Duration,
    /// Ending replies.
    pub finish: Duration,
    /// The drafter pass.
    pub pass: Duration,
}

impl RoundTimes {
    /// The whole round.
    pub fn total(&self) -> Duration {
        self.plan + self.verify + self.conclude + self.ingest + self.finish + self.pass
    }
}

/// Watches rounds; called on the engine's thread, so it should return soon.
pub trait Observer: Send {
    /// Before the verify launch.
    fn choose(&mut self, _choice: &RoundChoice) {}

    /// After a window's tokens were committed.
    fn commit(&mut self, _commit: &WindowCommit) {}

    /// At the end of a round, with its number and the admission numbers of its requests.
    fn times(&mut self, _round: u64, _requests: &[u64], _times: &RoundTimes) {}
}
