//! A rule played over recorded positions: the engine's rounds without the engine.

use tokenfare_pricing::{CostTable, Depth, DepthConfig, Outcome, Pass, Rule, Window};

use crate::trace::{Cell, Reply};

/// Counts of one rule in one cell.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Tokens of rounds.
    pub tokens: usize,
    /// Rounds.
    pub rounds: usize,
    /// Drafts verified.
    pub drafted: usize,
    /// Milliseconds by the table.
    pub ms: f64,
}

impl Tally {
    /// Tokens a modelled millisecond.
    pub fn rate(&self) -> f64 {
        self.tokens as f64 / self.ms
    }
}

/// Plays every reply of `cell`, `length` tokens of each, one after another with one estimate.
pub fn play(cell: &Cell, rule: Rule, table: &CostTable, length: usize) -> Tally {
    let block = cell.replies[0].drafts[0].tokens.len();
    let mut depth = Depth::new(DepthConfig { rule, ..DepthConfig::default() }, table.clone(), block);
    let mut tally = Tally::default();
    for reply in &cell.replies {
        depth.admit(0);
        play_reply(reply, &mut depth, length, &mut tally);
    }
    tally
}

fn play_reply(reply: &Reply, depth: &mut Depth, length: usize, tally: &mut Tally) {
    let mut pending = 0;
    while pending + 1 < length {
        let room = length - pending - 2;
        let drafts = reply.drafts.get(pending).filter(|_| depth.drafts_wanted(1));
        let (tokens, conf) = drafts.map_or((&[][..], &[][..]), |d| (&d.tokens[..], &d.confidence[..]));
        let held = &conf[..conf.len().min(room)];
        let first = tokens[..held.len()].first().copied();
        let plan = depth.plan(1, &[Window { slot: 0, held, first, room, copy: None }]);
        let k = plan.choices()[0].depth;
        let truth = &reply.tokens[pending + 1..];
        let accepted = tokens[..k].iter().zip(truth).take_while(|(draft, token)| draft == token).count();
        let outcome = Outcome { slot: 0, accepted, committed: accepted + 1, next: truth[0] };
        depth.observe(&plan, &[outcome]);
        let pass = if held.is_empty() { Pass::Skipped } else { Pass::Run };
        tally.tokens += accepted + 1;
        tally.rounds += 1;
        tally.drafted += k;
        tally.ms += depth.table().lone_ms(k + 1, pass);
        pending += accepted + 1;
    }
}
