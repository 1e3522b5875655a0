//! One round: verify, conclude, keep, draft.

use crate::conclude::conclude;
use crate::engine::{Engine, short};
use crate::plan::{PlannedWindow, RoundPlan};
use crate::stream::Held;
use crate::{
    Clock, Drafter, Event, Finish, Ingest, LanesStats, RoundTimes, Segment, Target, TargetError, WindowCommit,
};
use std::sync::Arc;
use std::time::Duration;
use tokenfare_pricing::{Outcome, Source};

/// Splits the time of a round into its parts.
struct Stopwatch {
    clock: Arc<dyn Clock>,
    began: Duration,
    last: Duration,
}

impl Stopwatch {
    fn start(clock: Arc<dyn Clock>) -> Self {
        let began = clock.now();
        Self { clock, began, last: began }
    }

    /// Time since the last lap.
    fn lap(&mut self) -> Duration {
        let now = self.clock.now();
        let took = now.saturating_sub(self.last);
        self.last = now;
        took
    }

    /// Time from the start to the last lap.
    fn total(&self) -> Duration {
        self.last.saturating_sub(self.began)
    }
}

impl<M: Target + Drafter> Engine<M> {
    /// Runs one round of the live streams. An error of the model fails the streams of this round.
    pub(crate) fn run_round(&mut self) {
        self.round += 1;
        let mut watch = Stopwatch::start(self.shared.clock.clone());
        let mut times = RoundTimes::default();
        let plan = self.plan_round();
        let slots: Vec<usize> = plan.windows.iter().map(|w| w.slot).collect();
        let numbers: Vec<u64> = slots.iter().map(|&slot| self.stream(slot).number).collect();
        times.plan = watch.lap();
        if let Err(error) = self.verify(&plan, &mut watch, &mut times) {
            for &slot in &slots {
                if self.lanes[slot].is_some() {
                    self.finish(slot, Finish::Failed(error.0.clone()));
                }
            }
        }
        for slot in slots {
            if let Some(stream) = &mut self.lanes[slot] {
                stream.times.in_rounds += watch.total();
            }
        }
        if let Some(observer) = &mut self.observer {
            observer.times(self.round, &numbers, &times);
        }
    }

    fn verify(
        &mut self,
        plan: &RoundPlan,
        watch: &mut Stopwatch,
        times: &mut RoundTimes,
    ) -> Result<(), TargetError> {
        let segments: Vec<Segment<'_>> = plan
            .windows
            .iter()
            .map(|w| Segment { slot: w.slot, start: w.start, tokens: &w.tokens })
            .collect();
        let rows: usize = plan.windows.iter().map(|w| w.tokens.len()).sum();
        self.model.window(&segments, &mut self.logits)?;
        if self.logits.rows() != rows {
            return Err(short("window", rows, self.logits.rows()));
        }
        times.verify = watch.lap();
        let ends = self.conclude_all(plan);
        times.conclude = watch.lap();
        self.keep_all(plan, &ends)?;
        times.ingest = watch.lap();
        for (window, end) in plan.windows.iter().zip(ends) {
            if let Some(reason) = end {
                self.stream(window.slot).times.in_rounds += watch.total();
                self.finish(window.slot, reason);
            }
        }
        times.finish = watch.lap();
        let slots: Vec<usize> = plan.windows.iter().map(|w| w.slot).collect();
        let asked = self.ask(&slots);
        times.pass = watch.lap();
        asked
    }

    /// Commits what each window's rows decide and delivers it; says which replies end, and why.
    fn conclude_all(&mut self, plan: &RoundPlan) -> Vec<Option<Finish>> {
        let now = self.shared.clock.now();
        let mut outcomes = Vec::with_capacity(plan.windows.len());
        let mut ends = Vec::with_capacity(plan.windows.len());
        let mut round = LanesStats { launches: 1, ..Default::default() };
        let mut first_row = 0;
        for window in &plan.windows {
            let rows = window.tokens.len();
            let base = first_row;
            first_row += rows;
            let stream = self.lanes[window.slot].as_mut().expect("a window's lane is occupied");
            let logits = &self.logits;
            let row = |r: usize| logits.row(base + r);
            stream.held = Held::default();
            self.served += 1;
            stream.last_served = self.served;
            let done = conclude(&mut stream.generation, &window.tokens, window.start, row, &mut self.drawer);
            if let Some(next) = done.tokens.first().map(|t| t.id) {
                let cut = done.is_cut(rows);
                let accepted = done.accepted.min(window.drafted);
                let committed = done.tokens.len();
                stream.history.extend(done.tokens.iter().map(|t| t.id));
                stream.count_round(window.source, window.drafted, accepted);
                stream.delivered(now);
                stream.client.send(Event::Tokens(done.tokens));
                count_round(&mut round, window, accepted, committed);
                // A reply that ends inside its drafts says nothing about the draft after its end.
                if !cut {
                    outcomes.push(Outcome { slot: window.slot, accepted, committed, next });
                }
                if let Some(observer) = &mut self.observer {
                    observer.commit(&WindowCommit {
                        round: self.round,
                        at: now,
                        slot: window.slot,
                        rows,
                        kept: committed,
                        drafted: window.drafted,
                        finished: done.finish.is_some(),
                        generated: stream.generation.count(),
                        max_new: stream.generation.max_new,
                    });
                }
            }
            ends.push(done.finish);
        }
        self.depth.observe(&plan.priced, &outcomes);
        self.shared.stats().add_round(&round);
        ends
    }

    /// Keeps the accepted rows of every window, also of replies that end and whose state may be kept.
    fn keep_all(&mut self, plan: &RoundPlan, ends: &[Option<Finish>]) -> Result<(), TargetError> {
        let mut items = Vec::with_capacity(plan.windows.len());
        let mut first_row = 0;
        for (window, end) in plan.windows.iter().zip(ends) {
            if !matches!(end, Some(Finish::Failed(_))) {
                let len = self.stream(window.slot).cache_len();
                self.model.keep(window.slot, len);
                let count = len - window.start;
                items.push(Ingest { slot: window.slot, start: window.start, row: first_row, count });
            }
            first_row += window.tokens.len();
        }
        if self.ingests && !items.is_empty() {
            self.model.ingest(&items)?;
        }
        Ok(())
    }
}

fn count_round(stats: &mut LanesStats, window: &PlannedWindow, accepted: usize, committed: usize) {
    stats.completion_tokens += committed as u64;
    stats.rounds += 1;
    stats.drafted += window.drafted as u64;
    stats.accepted += accepted as u64;
    stats.zero_depth += u64::from(window.drafted == 0);
    match window.source {
        Source::Drafter => stats.count_positions(window.drafted, accepted),
        Source::Copy => {
            stats.copied += window.drafted as u64;
            stats.copied_accepted += accepted as u64;
        }
    }
}
