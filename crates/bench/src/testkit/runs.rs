//! Runs without servers and without a clock: speeds are made of a known effect and known noise.

use std::time::Duration;

use serde_json::json;

use crate::BenchError;
use crate::client::{Counted, Reply};
use crate::compare::{Arm, Driver, Plan, Role, Run, Series};
use crate::machine::{Level, State};
use crate::run::{Cell, CellRun, Part, Rep};

/// Tokens of a simulated reply.
const TOKENS: u64 = 128;
/// Milliseconds of a round of one token, before noise.
const ROUND: f64 = 10.0;

/// Makes the runs of a comparison.
pub struct SimulatedRuns<'a> {
    /// What is run.
    pub plan: &'a Plan,
    /// Share of a round that this sleeps in addition.
    pub added: f64,
    /// Greatest share by which noise moves a run.
    pub noise: f64,
    /// Number of the reply, over all runs, in which one token is another one.
    pub flipped: Option<usize>,
    /// Levels of runs, in order; nominal behind the end.
    pub levels: Vec<Level>,
    /// Numbers of the runs that fail.
    pub failing: Vec<usize>,
    /// Speeds of controls, in order.
    pub controls: Vec<f64>,
    /// Whose runs were made, and what for.
    pub made: Vec<(Arm, Role)>,
    replies: usize,
    random: u64,
}

impl<'a> SimulatedRuns<'a> {
    /// Runs of equal arms without noise.
    pub fn new(plan: &'a Plan, seed: u64) -> Self {
        Self {
            plan,
            added: 0.0,
            noise: 0.0,
            flipped: None,
            levels: Vec::new(),
            failing: Vec::new(),
            controls: Vec::new(),
            made: Vec::new(),
            replies: 0,
            random: seed,
        }
    }

    /// The replies made so far.
    pub fn replies(&self) -> usize {
        self.replies
    }

    /// The next number from -1 to 1, by the splitmix64 generator.
    fn uniform(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as f64 / u64::MAX as f64 * 2.0 - 1.0
    }

    fn reply(&mut self, arm: Arm, key: &str) -> Reply {
        let added = if arm == Arm::This { self.added } else { 0.0 };
        let round = ROUND * (1.0 + added) * (1.0 + self.noise * self.uniform());
        let flipped = self.flipped == Some(self.replies);
        self.replies += 1;
        let first = Duration::from_millis(50);
        Reply {
            sent: Duration::ZERO,
            first,
            last: first + Duration::from_secs_f64(round * (TOKENS - 1) as f64 / 1e3),
            pieces: TOKENS as usize,
            tokens: TOKENS,
            counted: Counted::Usage,
            prompt_tokens: Some(512),
            cached_tokens: Some(0),
            token_sha256: Some(if flipped { format!("{key}, but for one token") } else { key.to_owned() }),
            finish_reason: Some("length".into()),
            counters: None,
        }
    }

    fn cell(&mut self, arm: Arm, series: &Series, load: &str) -> CellRun {
        let Series { part, streams, temperature } = *series;
        let reps = if part == Part::Prompt { 1 } else { self.plan.concurrent.reps };
        let mut rep = |_| Rep {
            replies: (0..streams).map(|i| self.reply(arm, &format!("{load} {temperature} {i}"))).collect(),
        };
        let reps = (0..reps).map(&mut rep).collect();
        let warm_up =
            (part != Part::Prompt).then(|| self.reply(arm, &format!("{load} {temperature}, short")));
        CellRun {
            cell: Cell { part, load: load.to_owned(), streams, temperature },
            warm_up,
            reps,
            failure: None,
        }
    }
}

impl Driver for SimulatedRuns<'_> {
    fn run(&mut self, arm: Arm, series: &Series, role: Role) -> Result<Run, BenchError> {
        let loads: &[&str] = match series.part {
            Part::Concurrent | Part::NoDrafts => &["code", "chat"],
            Part::Openai => &["fibonacci-raw", "gpu-chat-no-think"],
            Part::Prompt => &["512", "2000"],
        };
        let number = self.made.len();
        self.made.push((arm, role));
        let failure = self.failing.contains(&number).then(|| "the server ended".to_owned());
        let level = self.levels.get(number).copied().unwrap_or(Level::Nominal);
        let state = State { level, ..State::default() };
        let loads = if failure.is_some() { &loads[..1] } else { loads };
        Ok(Run {
            arm,
            role,
            cells: loads.iter().map(|load| self.cell(arm, series, load)).collect(),
            failure,
            startup: vec![format!("{arm} serves at http://127.0.0.1:80")],
            load_seconds: Some(1.0),
            pricing: Some(json!({"table": {"verify_ms": [10.0, 11.0, 12.0]}})),
            start: state.clone(),
            end: state,
            log: format!("{arm} serves at http://127.0.0.1:80"),
        })
    }

    fn control(&mut self) -> Result<Option<f64>, BenchError> {
        Ok((!self.controls.is_empty()).then(|| self.controls.remove(0)))
    }
}
