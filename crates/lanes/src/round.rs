//! One round: verify, conclude, keep, draft.

use crate::conclude::{Conclusion, conclude};
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
    last: Duration,
}

impl Stopwatch {
    fn start(clock: Arc<dyn Clock>) -> Self {
        let last = clock.now();
        Self { clock, last }
    }

    /// Time since the last lap.
    fn lap(&mut self) -> Duration {
        let now = self.clock.now();
        let took = now.saturating_sub(self.last);
        self.last = now;
        took
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
            times.host += watch.lap();
            for &slot in &slots {
                if let Some(stream) = &mut self.lanes[slot] {
                    stream.times.rounds += times;
                    self.finish(slot, Finish::Failed(error.0.clone()));
                }
            }
        }
        times.host += watch.lap();
        for slot in slots {
            if let Some(stream) = &mut self.lanes[slot] {
                stream.times.rounds += times;
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
        let verify = watch.lap();
        times.read_back = self.model.read_back().min(verify);
        times.launch = verify - times.read_back;
        let (ends, drawing) = self.conclude_all(plan);
        let conclude = watch.lap();
        times.draw = drawing.min(conclude);
        times.conclude = conclude - times.draw;
        self.keep_all(plan, &ends)?;
        times.ingest = watch.lap();
        for (window, end) in plan.windows.iter().zip(ends) {
            if let Some(reason) = end {
                self.stream(window.slot).times.rounds += *times;
                self.finish(window.slot, reason);
            }
        }
        times.host += watch.lap();
        let slots: Vec<usize> = plan.windows.iter().map(|w| w.slot).collect();
        let asked = self.ask(&slots);
        times.pass = watch.lap();
        asked
    }

    /// Commits what each window's rows decide and delivers it; says which replies end, and why, and how long draws took.
    fn conclude_all(&mut self, plan: &RoundPlan) -> (Vec<Option<Finish>>, Duration) {
        let clock = self.shared.clock.clone();
        let now = clock.now();
        let mut drawing = Duration::ZERO;
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
            let held = std::mem::take(&mut stream.held);
            self.served += 1;
            stream.last_served = self.served;
            let (generation, drawer) = (&mut stream.generation, &mut self.drawer);
            let done = conclude(generation, &window.tokens, window.start, row, drawer, clock.as_ref());
            drawing += done.drawing;
            if let Some(next) = done.tokens.first().map(|t| t.id) {
                let cut = done.is_cut(rows);
                let accepted = done.accepted.min(window.drafted);
                let committed = done.tokens.len();
                let beyond = beyond(window, &held, &done);
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
                        accepted,
                        beyond,
                        finished: done.finish.is_some(),
                        generated: stream.generation.count(),
                        max_new: stream.generation.max_new,
                    });
                }
            }
            ends.push(done.finish);
        }
        self.depth.observe(&plan.priced, &outcomes);
        self.shared.show_prices(&self.depth);
        self.shared.stats().add_round(&round);
        (ends, drawing)
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

/// Whether the drafter's first unverified draft equals the token that came out there, where the window went so far.
fn beyond(window: &PlannedWindow, held: &Held, done: &Conclusion) -> Option<bool> {
    let drafted = matches!(window.source, Source::Drafter) && window.tokens.len() == 1 + window.drafted;
    let last = done.tokens.get(window.drafted).filter(|_| drafted)?;
    held.tokens.get(window.drafted).map(|&draft| draft == last.id)
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
