//! What can be watched of rounds: the source of accept logs and round profiles.

use crate::ReplyStats;
use std::ops::AddAssign;
use std::time::Duration;
use tokenfare_pricing::{SamplingClass, Source};

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
    /// Length of the match that a copy continues; 0 for the drafter's drafts.
    pub matched: usize,
    /// Tokens a millisecond that rows were priced at.
    pub lambda: f64,
    /// Confidence of each of the drafter's drafts, as a probability, also where a copy is verified; empty without a pass.
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
    /// Drafts that equalled the target's tokens, from the first on.
    pub accepted: usize,
    /// Where all verified drafts were kept: whether the next of the drafter's, unverified, equalled the last token too.
    pub beyond: Option<bool>,
    /// Whether the reply ended.
    pub finished: bool,
    /// Tokens of the reply so far.
    pub generated: usize,
    /// Most tokens of the reply.
    pub max_new: usize,
}

/// The first token of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstToken {
    /// When.
    pub at: Duration,
    /// The lane.
    pub slot: usize,
    /// Time waiting for the lane.
    pub queue: Duration,
    /// Time from there to the first token.
    pub prefill: Duration,
}

/// Where the time of a round went; the parts add up to the whole round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RoundTimes {
    /// Choosing streams, depths and rows.
    pub plan: Duration,
    /// The verify launch.
    pub launch: Duration,
    /// Waiting for the launch's logits, and copying them. A device that computes when it is read spends the window's time here.
    pub read_back: Duration,
    /// Drawing tokens.
    pub draw: Duration,
    /// Comparing drafts, and committing and delivering tokens.
    pub conclude: Duration,
    /// Keeping positions, and drafter context.
    pub ingest: Duration,
    /// The drafter pass.
    pub pass: Duration,
    /// The rest: ending replies, keeping prompt states.
    pub host: Duration,
}

impl RoundTimes {
    /// The parts with their names, in the order of a round.
    pub fn parts(&self) -> [(&'static str, Duration); 8] {
        [
            ("plan", self.plan),
            ("launch", self.launch),
            ("read back", self.read_back),
            ("draw", self.draw),
            ("conclude", self.conclude),
            ("ingest", self.ingest),
            ("pass", self.pass),
            ("host", self.host),
        ]
    }

    /// The whole round.
    pub fn total(&self) -> Duration {
        self.parts().iter().map(|part| part.1).sum()
    }
}

impl AddAssign for RoundTimes {
    fn add_assign(&mut self, other: Self) {
        self.plan += other.plan;
        self.launch += other.launch;
        self.read_back += other.read_back;
        self.draw += other.draw;
        self.conclude += other.conclude;
        self.ingest += other.ingest;
        self.pass += other.pass;
        self.host += other.host;
    }
}

/// Watches rounds; called on the engine's thread, so it should return soon.
pub trait Observer: Send {
    /// After a prompt was fed and the first token drawn.
    fn first_token(&mut self, _first: &FirstToken) {}

    /// Before the verify launch.
    fn choose(&mut self, _choice: &RoundChoice) {}

    /// After a window's tokens were committed.
    fn commit(&mut self, _commit: &WindowCommit) {}

    /// At the end of a round, with its number and the admission numbers of its requests.
    fn times(&mut self, _round: u64, _requests: &[u64], _times: &RoundTimes) {}

    /// A request left its lane, by its admission number. In the round that ends a reply this comes before `times`.
    fn finish(&mut self, _request: u64, _stats: &ReplyStats) {}
}

/// Several observers, told in order.
impl Observer for Vec<Box<dyn Observer>> {
    fn first_token(&mut self, first: &FirstToken) {
        self.iter_mut().for_each(|o| o.first_token(first));
    }

    fn choose(&mut self, choice: &RoundChoice) {
        self.iter_mut().for_each(|o| o.choose(choice));
    }

    fn commit(&mut self, commit: &WindowCommit) {
        self.iter_mut().for_each(|o| o.commit(commit));
    }

    fn times(&mut self, round: u64, requests: &[u64], times: &RoundTimes) {
        self.iter_mut().for_each(|o| o.times(round, requests, times));
    }

    fn finish(&mut self, request: u64, stats: &ReplyStats) {
        self.iter_mut().for_each(|o| o.finish(request, stats));
    }
}
