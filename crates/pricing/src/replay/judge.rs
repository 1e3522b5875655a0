//! One rule at the prices of one table, over a log.

use super::evidence::{Cell, Evidence};
use super::seen::{Seen, Tokens};
use crate::log::{LoggedAsk, LoggedCommit, LoggedRound, LoggedStart};
use crate::plan::Planned;
use crate::{
    Choice, Copied, CostTable, Depth, DepthConfig, Outcome, Pass, Plan, Rule, RuleError, Source, TableError,
    Window,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// How far apart the bounds of a rate may lie, as a share, for the rate to count as settled.
pub const SETTLED: f64 = 0.01;

/// Stands for the first draft where its id does not matter.
const DRAFT: u32 = 1;
/// Stands for any other token.
const OTHER: u32 = 0;

/// Why a log cannot be replayed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StartError {
    /// Its rule has no such name.
    #[error("the log's rule {0}")]
    Rule(#[from] RuleError),
    /// Its prices make no table.
    #[error("the log's table: {0}")]
    Table(#[from] TableError),
}

/// A rule and a table that are asked at every round of a log. The rule learns what it would have learnt: from its own
/// choice where its outcome is known, else from the logged one.
#[derive(Debug, Clone)]
pub struct Replay {
    rule: Option<Rule>,
    table: Option<CostTable>,
    running: Option<Running>,
    totals: Totals,
}

#[derive(Debug, Clone)]
struct Running {
    depth: Depth,
    /// By slot.
    requests: BTreeMap<usize, u64>,
}

#[derive(Debug, Clone, Default)]
struct Totals {
    rounds: u64,
    windows: u64,
    depth: u64,
    ms: f64,
    tokens: u64,
    known: u64,
    asked: u64,
    same: u64,
    /// Choices that go beyond what the log tells, by the drafts that decide about them.
    open: BTreeMap<Vec<Cell>, u64>,
}

/// What a rule would have earned.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// Rounds asked about.
    pub rounds: u64,
    /// Windows in them.
    pub windows: u64,
    /// Windows whose outcome the log tells.
    pub known: u64,
    /// Windows whose outcome is estimated from explored ones.
    pub estimated: u64,
    /// Windows of which too few explored ones are alike.
    pub unknown: u64,
    /// Windows that were not explored.
    pub asked: u64,
    /// Those of them where it chose what was logged.
    pub same: u64,
    /// Drafts a window.
    pub mean_depth: f64,
    /// Modelled milliseconds a round.
    pub ms: f64,
    /// Tokens a round, if of what is unknown nothing is kept.
    pub least_tokens: f64,
    /// Tokens a round, if of what is unknown everything is kept.
    pub most_tokens: f64,
}

impl Verdict {
    /// Bounds of the tokens a modelled millisecond; `None` without rounds.
    pub fn rates(&self) -> Option<(f64, f64)> {
        (self.ms > 0.0).then(|| (self.least_tokens / self.ms, self.most_tokens / self.ms))
    }

    /// Whether the log holds enough evidence: the bounds are within [`SETTLED`] of each other.
    pub fn is_settled(&self) -> bool {
        self.rounds > 0 && self.most_tokens <= self.least_tokens * (1.0 + SETTLED)
    }
}

/// One window under the rule.
struct Asked {
    source: Source,
    depth: usize,
    /// What the rule learns from.
    learnt: usize,
    tokens: Tokens,
}

impl Replay {
    /// Replays `rule` at the prices of `table`; each is the log's own where none is given.
    pub fn new(rule: Option<Rule>, table: Option<CostTable>) -> Self {
        Self { rule, table, running: None, totals: Totals::default() }
    }

    /// An engine starts in the log: everything learnt is forgotten.
    ///
    /// # Errors
    /// A start whose rule or table is none.
    pub fn start(&mut self, start: &LoggedStart) -> Result<(), StartError> {
        let logged = start.config()?;
        let config = DepthConfig { rule: self.rule.unwrap_or(logged.rule), ..logged };
        let table = self.table.clone().map_or_else(|| start.table.table(), Ok)?;
        let depth = Depth::new(config, table, start.block);
        self.running = Some(Running { depth, requests: BTreeMap::new() });
        Ok(())
    }

    /// Asks the rule about a round. A round in which a stream failed says nothing and is passed over.
    pub fn round(&mut self, round: &LoggedRound) {
        let Some(running) = &mut self.running else { return };
        let asks = &round.choice.asks;
        let commits: Vec<&LoggedCommit> =
            asks.iter().filter_map(|ask| round.commits.iter().find(|c| c.slot == ask.slot)).collect();
        if commits.len() != asks.len() {
            return;
        }
        running.admit(asks);
        let plan = running.plan(asks);
        let seen: Vec<Seen> = asks.iter().zip(&commits).map(|(ask, commit)| Seen::new(ask, commit)).collect();
        let asked: Vec<Asked> = asks.iter().zip(&plan).zip(&seen).map(|((a, c), s)| ask(a, c, s)).collect();

        let drafts = asks.iter().map(|a| 1 + a.k).sum::<usize>();
        let forced = round.choice.rows.saturating_sub(drafts);
        let rows = forced + asked.iter().map(|a| 1 + a.depth).sum::<usize>();
        let passed = running.depth.drafts_wanted(asks.len()) && asks.iter().any(|a| !a.conf.is_empty());
        let pass = if passed { Pass::Run } else { Pass::Skipped };
        self.totals.rounds += 1;
        self.totals.ms += running.depth.table().round_ms(rows, asks.len(), pass);
        for (window, result) in asks.iter().zip(&asked) {
            self.totals.window(window, result);
        }
        running.learn(asks, &commits, &seen, &asked);
    }

    /// The result, with what explored rounds say about choices beyond the log.
    pub fn verdict(&self, explored: &Evidence) -> Verdict {
        let t = &self.totals;
        let (mut least, mut most) = (t.tokens as f64, t.tokens as f64);
        let (mut estimated, mut unknown) = (0, 0);
        for (cells, &count) in &t.open {
            let (expected, at_most, complete) = further(cells, explored);
            least += expected * count as f64;
            most += at_most * count as f64;
            *(if complete { &mut estimated } else { &mut unknown }) += count;
        }
        let rounds = t.rounds.max(1) as f64;
        Verdict {
            rounds: t.rounds,
            windows: t.windows,
            known: t.known,
            estimated,
            unknown,
            asked: t.asked,
            same: t.same,
            mean_depth: t.depth as f64 / t.windows.max(1) as f64,
            ms: t.ms / rounds,
            least_tokens: least / rounds,
            most_tokens: most / rounds,
        }
    }
}

/// Tokens that drafts of these cells, one behind the other, add at least and at most, and whether all are known.
fn further(cells: &[Cell], explored: &Evidence) -> (f64, f64, bool) {
    let (mut survival, mut tokens) = (1.0, 0.0);
    for (i, cell) in cells.iter().enumerate() {
        let Some(rate) = explored.rate(cell) else {
            return (tokens, tokens + survival * (cells.len() - i) as f64, false);
        };
        survival *= rate;
        tokens += survival;
    }
    (tokens, tokens, true)
}

fn ask(window: &LoggedAsk, choice: &Choice, seen: &Seen) -> Asked {
    let Choice { source, depth, .. } = *choice;
    // Nothing is known of drafts from elsewhere than those that were verified.
    let tokens = if source == window.kind || depth == 0 { seen.tokens(depth) } else { Tokens::From(1) };
    let own = !window.explored && source == window.kind && matches!(tokens, Tokens::Known(_));
    Asked { source, depth, learnt: if own { depth } else { window.k }, tokens }
}

/// The window that the rule is asked about. Copies that were found but not verified are not in the log.
fn window(ask: &LoggedAsk) -> Window<'_> {
    let first = ask.conf.first().map(|_| DRAFT);
    let copy = (ask.kind == Source::Copy).then_some(Copied { matched: ask.matched, len: ask.most });
    // Both sources were cut to the room before they were logged.
    let room = ask.conf.len().max(ask.most);
    Window { slot: ask.slot, held: &ask.conf, first, room, copy }
}

impl Totals {
    fn window(&mut self, window: &LoggedAsk, result: &Asked) {
        self.windows += 1;
        self.depth += result.depth as u64;
        if !window.explored {
            self.asked += 1;
            self.same += u64::from((result.source, result.depth) == (window.kind, window.k));
        }
        match result.tokens {
            Tokens::Known(tokens) => {
                self.known += 1;
                self.tokens += tokens as u64;
            }
            Tokens::From(tokens) => {
                self.tokens += tokens as u64;
                let cells =
                    (tokens - 1..result.depth).filter_map(|j| Cell::of(window, result.source, j)).collect();
                *self.open.entry(cells).or_default() += 1;
            }
        }
    }
}

impl Running {
    fn admit(&mut self, asks: &[LoggedAsk]) {
        for ask in asks {
            if self.requests.insert(ask.slot, ask.req) != Some(ask.req) {
                self.depth.admit(ask.slot);
            }
        }
    }

    fn plan(&self, asks: &[LoggedAsk]) -> Vec<Choice> {
        let windows: Vec<Window<'_>> = asks.iter().map(window).collect();
        self.depth.plan(asks.len(), &windows).choices
    }

    fn learn(&mut self, asks: &[LoggedAsk], commits: &[&LoggedCommit], seen: &[Seen], asked: &[Asked]) {
        let plain = !self.depth.drafts_wanted(asks.len());
        let mut plan = Plan { windows: Vec::new(), choices: Vec::new(), plain };
        let mut outcomes = Vec::new();
        for (((ask, commit), seen), asked) in asks.iter().zip(commits).zip(seen).zip(asked) {
            let depth = asked.learnt;
            let first = ask.conf.first().map(|_| DRAFT);
            plan.windows.push(Planned { held: ask.conf.clone(), first, matched: ask.matched });
            plan.choices.push(Choice {
                slot: ask.slot,
                source: ask.kind,
                depth,
                most: ask.most,
                q: ask.q.clone(),
                lambda: ask.lambda,
            });
            // A forced token is no draft, and a reply that it ends has judged nothing.
            let forced = commit.rows > 1 + commit.drafted && commit.finished && commit.keep < commit.rows;
            if seen.is_cut(depth) || forced {
                continue;
            }
            let committed = match seen.tokens(depth) {
                Tokens::Known(tokens) if commit.rows == 1 + commit.drafted => tokens,
                _ => commit.keep,
            };
            let next = if seen.kept > 0 { DRAFT } else { OTHER };
            outcomes.push(Outcome { slot: ask.slot, accepted: seen.kept.min(depth), committed, next });
        }
        self.depth.observe(&plan, &outcomes);
    }
}
