//! What a comparison saw, and what it says of each cell.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Arm, Series};
use crate::machine::{self, Level, State};
use crate::run::{Cell, CellRun, Part};
use crate::verdict::{self, Four, Hashes, Measured, Verdict};

/// What a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The first of a series, which warms the machine up; only its hashes count.
    Discarded,
    /// One of the four.
    Counted,
    /// One of the four that follow a slower cell.
    Rerun,
    /// Made on a machine held back by heat or power, and made once more; only its hashes count.
    Throttled,
}

/// One run of a series by a fresh server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Whose.
    pub arm: Arm,
    /// What for.
    pub role: Role,
    /// Its cells; fewer than the series has where it failed.
    pub cells: Vec<CellRun>,
    /// Why it ended early.
    pub failure: Option<String>,
    /// What the server wrote before its first request.
    pub startup: Vec<String>,
    /// Seconds from its start to its first answer.
    pub load_seconds: Option<f64>,
    /// What it tells of its prices.
    pub pricing: Option<Value>,
    /// The machine before.
    pub start: State,
    /// The machine after.
    pub end: State,
    /// Everything the server wrote; kept beside the raw numbers.
    #[serde(skip)]
    pub log: String,
}

impl Run {
    /// How far the machine was held back.
    pub fn level(&self) -> Level {
        machine::between(&self.start, &self.end)
    }
}

/// All runs of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeriesRuns {
    /// The series.
    pub series: Series,
    /// Its runs, in order.
    pub runs: Vec<Run>,
    /// Speeds of the control before it, if there is a gate.
    pub controls: Vec<f64>,
    /// Why runs are missing.
    pub not_run: Option<String>,
}

/// What is said of a cell.
#[derive(Debug, Clone, PartialEq)]
pub struct CellOutcome {
    /// The cell.
    pub cell: Cell,
    /// Its four runs.
    pub four: Four,
    /// Its four runs of a rerun, if its series had one.
    pub rerun: Option<Four>,
    /// Levels of the machine at the end of the four runs.
    pub levels: [Option<Level>; 4],
    /// What the hashes of all its runs say.
    pub hashes: Hashes,
}

/// Everything that was compared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Every series, in order; those that were not begun have no runs.
    pub series: Vec<SeriesRuns>,
}

impl SeriesRuns {
    pub(super) fn new(series: Series) -> Self {
        Self { series, runs: Vec::new(), controls: Vec::new(), not_run: None }
    }

    fn cells(&self) -> Vec<Cell> {
        let mut cells: Vec<Cell> = Vec::new();
        for run in self.runs.iter().flat_map(|run| &run.cells) {
            if !cells.contains(&run.cell) {
                cells.push(run.cell.clone());
            }
        }
        cells
    }

    fn runs_of(&self, role: Role, arm: Arm) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.role == role && run.arm == arm)
    }

    fn four(&self, role: Role, cell: &Cell) -> Four {
        let pair = |arm| {
            let mut pair = self.runs_of(role, arm).map(|run| {
                let found = run.cells.iter().find(|c| c.cell == *cell).map(CellRun::measured);
                found.unwrap_or(if run.failure.is_some() { Measured::Failed } else { Measured::Missing })
            });
            [pair.next().unwrap_or(Measured::Missing), pair.next().unwrap_or(Measured::Missing)]
        };
        Four { base: pair(Arm::Base), this: pair(Arm::This) }
    }

    /// Whether a cell of the four runs is slower, so that the series is run again.
    pub fn has_slower(&self) -> bool {
        self.cells().iter().any(|cell| self.four(Role::Counted, cell).verdict() == Verdict::Slower)
    }

    fn levels(&self) -> [Option<Level>; 4] {
        let mut base = self.runs_of(Role::Counted, Arm::Base).map(Run::level);
        let mut this = self.runs_of(Role::Counted, Arm::This).map(Run::level);
        [base.next(), this.next(), this.next(), base.next()]
    }
}

/// Whether two cells ask for the same replies: drafts change no token.
fn same_replies(a: &Cell, b: &Cell) -> bool {
    let part = |part| if part == Part::NoDrafts { Part::Concurrent } else { part };
    let key = |cell: &Cell| (part(cell.part), cell.streams, cell.temperature.to_bits());
    key(a) == key(b) && a.load == b.load
}

impl Comparison {
    /// Every cell that some run has, in order.
    pub fn outcomes(&self) -> Vec<CellOutcome> {
        let of_series = |series: &SeriesRuns| -> Vec<CellOutcome> {
            let again = series.runs.iter().any(|run| run.role == Role::Rerun);
            let outcome = |cell: Cell| CellOutcome {
                four: series.four(Role::Counted, &cell),
                rerun: again.then(|| series.four(Role::Rerun, &cell)),
                levels: series.levels(),
                hashes: self.hashes(&cell),
                cell,
            };
            series.cells().into_iter().map(outcome).collect()
        };
        self.series.iter().flat_map(of_series).collect()
    }

    /// What the hashes of all runs say of a cell, discarded and rerun ones and those without drafts included.
    fn hashes(&self, cell: &Cell) -> Hashes {
        let alike: Vec<&CellRun> =
            self.runs().flat_map(|run| &run.cells).filter(|run| same_replies(&run.cell, cell)).collect();
        let warm_ups = alike.iter().filter_map(|run| run.warm_up.as_ref());
        let warm_ups: Vec<Vec<Option<&str>>> = warm_ups.map(|r| vec![r.token_sha256.as_deref()]).collect();
        let reps = verdict::hashes(&alike.iter().flat_map(|run| run.hashes()).collect::<Vec<_>>());
        if warm_ups.is_empty() { reps } else { reps.max(verdict::hashes(&warm_ups)) }
    }

    /// Whether anything failed or was not run.
    pub fn is_whole(&self) -> bool {
        let whole = |s: &SeriesRuns| s.not_run.is_none() && s.runs.iter().all(|run| run.failure.is_none());
        self.series.iter().all(whole)
    }

    /// The worst of what the cells' hashes say.
    pub fn exactness(&self) -> Hashes {
        self.outcomes().iter().map(|outcome| outcome.hashes).max().unwrap_or(Hashes::Missing)
    }

    /// Every run.
    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        self.series.iter().flat_map(|series| &series.runs)
    }
}
