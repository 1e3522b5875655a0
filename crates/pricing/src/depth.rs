//! The depth rule: plans rounds, and learns from what became of them.

use crate::{
    Band, Choice, CopyRecord, CostTable, DepthConfig, Estimate, History, Joint, Outcome, Pass, Plan, Priced,
    Rule, Share, Skip, Source, TIE, Window, best_depth, expected_tokens, plan::Planned, share_rows, surplus,
};
use std::collections::BTreeMap;

/// Chooses how many drafts each window of a round verifies.
///
/// The estimate and the rates of shared rounds belong to the server; a slot's own rate and its copies start afresh
/// with every stream. Choices depend on earlier rounds of modelled time alone, never on a clock.
#[derive(Debug, Clone)]
pub struct Depth {
    config: DepthConfig,
    table: CostTable,
    estimate: Estimate,
    slots: BTreeMap<usize, Slot>,
    shared: BTreeMap<usize, History>,
}

#[derive(Debug, Clone, Default)]
struct Slot {
    history: History,
    copies: CopyRecord,
}

/// A window with its probabilities, limits and prices.
struct Candidate<'a> {
    window: &'a Window<'a>,
    q: Vec<f64>,
    least: usize,
    top: usize,
    lambda: f64,
}

impl Depth {
    /// A rule at the prices of `table` for drafts of `block` positions.
    pub fn new(config: DepthConfig, table: CostTable, block: usize) -> Self {
        let estimate = Estimate::new(block);
        Self { config, table, estimate, slots: BTreeMap::new(), shared: BTreeMap::new() }
    }

    /// The prices.
    pub fn table(&self) -> &CostTable {
        &self.table
    }

    /// The acceptance estimate shared by all streams.
    pub fn estimate(&self) -> &Estimate {
        &self.estimate
    }

    /// A stream begins in `slot`.
    pub fn admit(&mut self, slot: usize) {
        self.slots.insert(slot, Slot::default());
    }

    /// The stream of `slot` has ended.
    pub fn release(&mut self, slot: usize) {
        self.slots.remove(&slot);
    }

    /// Whether a round with `live` streams verifies drafts; if not, no drafter pass is run for it.
    pub fn drafts_wanted(&self, live: usize) -> bool {
        let plain = self.config.plain_streams > 0 && live >= self.config.plain_streams.max(2);
        !plain && self.config.rule.cap() > 0
    }

    /// Whether the stream of `slot` may copy; when it may not, there is nothing to look up.
    pub fn copies_wanted(&self, slot: usize) -> bool {
        self.config.rule.cap() > 0 && !self.slots.get(&slot).is_some_and(|s| s.copies.is_silent())
    }

    /// Tokens a modelled millisecond over the last rounds of `slot`; two tokens a two-row round before the first.
    pub fn lambda(&self, slot: usize) -> f64 {
        let rate = self.slots.get(&slot).and_then(|s| s.history.rate());
        rate.unwrap_or_else(|| 2.0 / self.table.lone_ms(2, Pass::Run))
    }

    /// Tokens a modelled millisecond over the last rounds of `windows` windows.
    pub fn shared_lambda(&self, windows: usize, pass: Pass) -> f64 {
        let rate = self.shared.get(&windows).and_then(History::rate);
        let tokens = 2 * windows;
        rate.unwrap_or_else(|| tokens as f64 / self.table.round_ms(tokens, windows, pass))
    }

    /// The drafts to verify in a launch of `windows` (slots distinct), while `live` streams are being served.
    pub fn plan(&self, live: usize, windows: &[Window<'_>]) -> Plan {
        let planned = |w: &Window<'_>| Planned {
            held: w.held.to_vec(),
            first: w.first,
            matched: w.copy.map_or(0, |c| c.matched),
        };
        let plain = !self.drafts_wanted(live);
        let choices =
            if plain { windows.iter().map(|w| self.one_row(w)).collect() } else { self.choose(windows) };
        Plan { windows: windows.iter().map(planned).collect(), choices, plain }
    }

    /// Learns from a round. A window without an outcome (its stream failed) teaches nothing, nor does its round
    /// count as a shared one.
    pub fn observe(&mut self, plan: &Plan, outcomes: &[Outcome]) {
        let mut committed = 0;
        let mut seen = 0;
        for (choice, window) in plan.choices.iter().zip(&plan.windows) {
            let Some(outcome) = outcomes.iter().find(|o| o.slot == choice.slot) else { continue };
            committed += outcome.committed;
            seen += 1;
            self.learn(choice, window, outcome, plan.plain);
        }
        let n = plan.choices.len();
        if n >= 2 && seen == n {
            let rows = plan.choices.iter().map(|c| 1 + c.depth).sum();
            let pass = pass_of(plan.windows.iter().any(|w| !w.held.is_empty()));
            let ms = self.table.round_ms(rows, n, pass);
            self.shared.entry(n).or_default().push(committed, ms);
        }
    }

    fn learn(&mut self, choice: &Choice, window: &Planned, outcome: &Outcome, plain: bool) {
        let accepted = outcome.accepted.min(choice.depth);
        match (choice.source, choice.depth, window.first, window.held.first()) {
            (Source::Drafter, 0, Some(first), Some(&conf)) if !plain => {
                self.estimate.record(&[conf], usize::from(first == outcome.next));
            }
            (Source::Drafter, depth, ..) => self.estimate.record(&window.held[..depth], accepted),
            (Source::Copy, ..) => {}
        }
        let Some(slot) = self.slots.get_mut(&choice.slot) else { return };
        let ms = self.table.lone_ms(1 + choice.depth, pass_of(!window.held.is_empty()));
        slot.history.push(outcome.committed, ms);
        match choice.source {
            Source::Copy => slot.copies.record(Band::of(window.matched), choice.depth, accepted),
            Source::Drafter => slot.copies.pass(),
        }
    }

    fn one_row(&self, window: &Window<'_>) -> Choice {
        Choice {
            slot: window.slot,
            source: Source::Drafter,
            depth: 0,
            most: 0,
            q: self.estimate.probabilities(window.held),
            lambda: self.lambda(window.slot),
        }
    }

    fn choose(&self, windows: &[Window<'_>]) -> Vec<Choice> {
        let mut spare = self.config.row_cap.saturating_sub(windows.len());
        let copies: Vec<Option<Choice>> = windows
            .iter()
            .map(|w| {
                let copy = self.copy_choice(w, windows.len(), spare);
                spare -= copy.as_ref().map_or(0, |c| c.depth);
                copy
            })
            .collect();
        let drafted = windows.iter().zip(&copies).filter(|(_, copy)| copy.is_none());
        let candidates: Vec<Candidate<'_>> =
            drafted.map(|(w, _)| self.candidate(w, windows.len(), spare)).collect();
        let mut chosen = match self.config.rule {
            Rule::Cost { joint: Joint::Together, .. } if windows.len() > 1 => {
                self.choose_together(&candidates, windows, &copies)
            }
            _ => self.choose_apart(&candidates, spare),
        }
        .into_iter();
        copies.into_iter().filter_map(|copy| copy.or_else(|| chosen.next())).collect()
    }

    fn choose_apart(&self, candidates: &[Candidate<'_>], mut spare: usize) -> Vec<Choice> {
        let choose = |c: &Candidate<'_>| {
            let depth = self.drafter_plan(c, spare).depth;
            spare -= depth;
            c.choice(depth, c.lambda)
        };
        candidates.iter().map(choose).collect()
    }

    fn choose_together(
        &self,
        candidates: &[Candidate<'_>],
        windows: &[Window<'_>],
        copies: &[Option<Choice>],
    ) -> Vec<Choice> {
        let other_rows: usize = copies.iter().flatten().map(|c| 1 + c.depth).sum();
        let mut spare = self.config.row_cap.saturating_sub(other_rows + candidates.len());
        let mut shares = Vec::with_capacity(candidates.len());
        for c in candidates {
            let floor = c.least.min(spare);
            spare -= floor;
            shares.push(Share { slot: c.window.slot, q: &c.q, floor, top: c.top });
        }
        let pass = pass_of(windows.iter().any(|w| !w.held.is_empty()));
        let lambda = self.shared_lambda(windows.len(), pass);
        let depths = share_rows(&shares, other_rows, self.config.row_cap, &self.table, lambda);
        candidates.iter().zip(depths).map(|(c, depth)| c.choice(depth, lambda)).collect()
    }

    fn candidate<'a>(&self, window: &'a Window<'a>, windows: usize, spare: usize) -> Candidate<'a> {
        let top = window.held.len().min(window.room).min(self.config.rule.cap()).min(spare);
        let skips = matches!(self.config.rule, Rule::Cost { skip: Skip::On, .. });
        let least = if skips && windows == 1 && window.first.is_some() { 0 } else { top.min(1) };
        let q = self.estimate.probabilities(window.held);
        Candidate { window, q, least, top, lambda: self.lambda(window.slot) }
    }

    fn drafter_plan(&self, c: &Candidate<'_>, spare: usize) -> Priced {
        self.price(&c.q, c.least, c.top.min(spare), c.lambda)
    }

    fn price(&self, q: &[f64], least: usize, top: usize, lambda: f64) -> Priced {
        match self.config.rule {
            Rule::Cost { .. } => best_depth(q, least.min(top)..=top, &self.table, lambda),
            Rule::Static { .. } => {
                let value = expected_tokens(q, top) - lambda * self.table.window_ms(top + 1);
                Priced { depth: top, value }
            }
        }
    }

    fn copy_choice(&self, window: &Window<'_>, windows: usize, spare: usize) -> Option<Choice> {
        let copy = window.copy.filter(|_| self.copies_wanted(window.slot))?;
        let rule_top = match self.config.rule {
            Rule::Cost { .. } => usize::MAX,
            Rule::Static { depth } => depth,
        };
        let most = copy.len.min(window.room).min(self.config.copied_rows.saturating_sub(1));
        let most = most.min(spare).min(rule_top);
        if most == 0 {
            return None;
        }
        let p = self.copy_record(window.slot).probability(Band::of(copy.matched));
        let q = vec![p; most];
        let drafter = self.candidate(window, windows, spare);
        let lambda = drafter.lambda;
        let plan = self.price(&q, 1, most, lambda);
        let wins = surplus(plan, self.drafter_plan(&drafter, spare)) > TIE;
        wins.then_some(Choice { slot: window.slot, source: Source::Copy, depth: plan.depth, most, q, lambda })
    }

    fn copy_record(&self, slot: usize) -> CopyRecord {
        self.slots.get(&slot).map(|s| s.copies.clone()).unwrap_or_default()
    }
}

impl Candidate<'_> {
    fn choice(&self, depth: usize, lambda: f64) -> Choice {
        Choice {
            slot: self.window.slot,
            source: Source::Drafter,
            depth,
            most: self.top,
            q: self.q.clone(),
            lambda,
        }
    }
}

fn pass_of(ran: bool) -> Pass {
    if ran { Pass::Run } else { Pass::Skipped }
}
