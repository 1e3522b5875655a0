//! The measurement as a machine that says what to run next.

use super::launch::{LONE_ROWS, Launch, PAIR_AS_ONE, PROMPT_ROWS, Room, WINDOW_ROWS, pair, timed_rows};
use super::measurement::{Measurement, NoRoom, Runs};
use super::options::CalibrationOptions;
use crate::TimingsError;
use std::collections::VecDeque;
use std::time::Duration;

/// Timed drafter passes.
const PASSES: usize = 5;
/// Rows of the last window that a pass ingests: a pending token and two kept drafts.
const INGESTED_ROWS: usize = 3;
/// Times that each window of the slot term is timed again.
const SLOT_TERM_RUNS: usize = 2;

/// What becomes of the time that a step took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Nothing: it warms up.
    Untimed,
    /// It is a run.
    Timed,
    /// It is kept where it is lower than the statistic of the runs.
    Recheck,
}

/// What to run next. Prompts stand at positions 0 and 1; windows follow them and are thrown away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Feed the prompt of [`Step::PROMPT_ROWS`] tokens to a slot, drafter context included.
    Prefill {
        /// The slot.
        slot: usize,
    },
    /// Run one launch of windows.
    Window {
        /// Which.
        launch: Launch,
        /// What its time is for.
        used: Use,
    },
    /// Run a drafter pass for slot 0 after its prompt, untimed.
    WarmPass,
    /// Ingest [`Step::INGESTED_ROWS`] rows of slot 0 in the last launch: the first ingest after the windows, whose
    /// time is reported and prices nothing.
    FirstIngest,
    /// Ingest those rows and run the drafter pass that follows them.
    Pass {
        /// What its time is for.
        used: Use,
    },
}

impl Step {
    /// Rows of a prompt.
    pub const PROMPT_ROWS: usize = PROMPT_ROWS;
    /// Most rows of one slot's window.
    pub const WINDOW_ROWS: usize = WINDOW_ROWS;
    /// Most rows that a pass ingests; fewer where the last window is shorter.
    pub const INGESTED_ROWS: usize = INGESTED_ROWS;

    fn is_timed(&self) -> bool {
        match self {
            Self::Prefill { .. } | Self::WarmPass => false,
            Self::FirstIngest => true,
            Self::Window { used, .. } | Self::Pass { used } => *used != Use::Untimed,
        }
    }
}

/// How long a step took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Took {
    /// All of it.
    pub whole: Duration,
    /// The ingest in it.
    pub ingest: Duration,
}

/// A measurement under way.
#[derive(Debug, Clone)]
pub struct Calibration {
    options: CalibrationOptions,
    room: Room,
    /// What always runs.
    mandatory: VecDeque<Step>,
    /// What runs while the budget lasts.
    repeats: VecDeque<Step>,
    runs: Runs,
}

impl Calibration {
    /// A measurement in this room.
    ///
    /// # Errors
    /// A context or launch without place for the prompt and two rows.
    pub fn new(options: CalibrationOptions, room: Room) -> Result<Self, NoRoom> {
        let rows = timed_rows(&room);
        if rows.len() < 2 {
            return Err(NoRoom { context: room.context, window_rows: room.window_rows });
        }
        let pair = pair(&room);
        let launches = launches(&rows, pair);
        let slots = launches.iter().map(|l| l.windows().len()).max().unwrap_or(1);
        let mut mandatory: VecDeque<Step> = (0..slots).map(|slot| Step::Prefill { slot }).collect();
        let warm = Launch::Rows(rows.iter().copied().filter(|&r| r <= LONE_ROWS).max().unwrap_or(1));
        let window = |used| move |launch| Step::Window { launch, used };
        mandatory.extend(std::iter::repeat_n(warm, options.warm).map(window(Use::Untimed)));
        mandatory.push_back(Step::WarmPass);
        mandatory.extend(launches.into_iter().map(window(Use::Timed)));
        mandatory.extend([Step::FirstIngest, Step::Pass { used: Use::Untimed }]);
        mandatory.extend(std::iter::repeat_n(Step::Pass { used: Use::Timed }, PASSES));
        if let Some(pair) = pair {
            let both = [PAIR_AS_ONE, pair].map(window(Use::Timed));
            mandatory.extend(std::iter::repeat_n(both, SLOT_TERM_RUNS).flatten());
        }
        let repeats = repeats(&options, &rows, &mandatory);
        let planned = mandatory.iter().chain(&repeats).filter(|step| step.is_timed()).count();
        Ok(Self { options, room, mandatory, repeats, runs: Runs::new(rows, slots, planned) })
    }

    /// The next step, `elapsed` after the start of the measurement; `None` when it is over.
    pub fn next(&mut self, elapsed: Duration) -> Option<Step> {
        if let Some(step) = self.mandatory.pop_front() {
            return Some(step);
        }
        if elapsed < self.options.budget { self.repeats.pop_front() } else { None }
    }

    /// Takes the time of a step.
    pub fn record(&mut self, step: &Step, took: Took) {
        if step.is_timed() {
            self.runs.record(step, took);
        }
    }

    /// Slots that the steps use, from 0 on.
    pub fn slots(&self) -> usize {
        self.runs.slots()
    }

    /// What the recorded times come to.
    ///
    /// # Errors
    /// Times that make no table, such as a pass dearer than twice the one-row window.
    pub fn finish(self) -> Result<Measurement, TimingsError> {
        self.runs.finish(self.options, self.room.launch_bound)
    }
}

/// Every launch once: rows ascending, the pair before the launches of two long windows.
fn launches(rows: &[usize], pair: Option<Launch>) -> Vec<Launch> {
    let (near, deep): (Vec<usize>, Vec<usize>) = rows.iter().partition(|&&r| r <= WINDOW_ROWS);
    let all = |rows: Vec<usize>| rows.into_iter().map(Launch::Rows);
    all(near).chain(pair).chain(all(deep)).collect()
}

/// What brings every row count to its number of runs: turns over the lone stream's rows first, in which cycled rows
/// run once and others as often as they still have to, then the deeper ones, then the rechecked ones.
fn repeats(options: &CalibrationOptions, rows: &[usize], mandatory: &VecDeque<Step>) -> VecDeque<Step> {
    let timed = |launch, used| Step::Window { launch, used };
    let missing = |&rows: &usize| {
        let step = timed(Launch::Rows(rows), Use::Timed);
        let planned = mandatory.iter().filter(|s| **s == step).count();
        (rows, options.reps(rows).saturating_sub(planned))
    };
    let missing: Vec<(usize, usize)> = rows.iter().map(missing).collect();
    let (mut turns, deeper): (Vec<_>, Vec<_>) =
        missing.into_iter().partition(|&(rows, _)| rows <= LONE_ROWS.max(options.cycle));
    let mut order = Vec::new();
    while turns.iter().any(|&(_, missing)| missing > 0) {
        for (rows, missing) in &mut turns {
            let runs = if *rows <= options.cycle { (*missing).min(1) } else { *missing };
            order.extend(std::iter::repeat_n(*rows, runs));
            *missing -= runs;
        }
    }
    order.extend(deeper.into_iter().flat_map(|(rows, missing)| std::iter::repeat_n(rows, missing)));
    let repeated = order.into_iter().map(|rows| timed(Launch::Rows(rows), Use::Timed));
    let rechecked = rows.iter().filter(|&&rows| rows <= options.recheck);
    repeated.chain(rechecked.map(|&rows| timed(Launch::Rows(rows), Use::Recheck))).collect()
}
