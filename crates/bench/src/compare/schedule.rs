//! The order of runs: one discarded base, then base, this, this, base; again where a cell is slower.

use super::{Arm, Comparison, Plan, Role, Run, Series, SeriesRuns};
use crate::BenchError;
use crate::machine::Level;

const FIRST: [(Arm, Role); 5] = [
    (Arm::Base, Role::Discarded),
    (Arm::Base, Role::Counted),
    (Arm::This, Role::Counted),
    (Arm::This, Role::Counted),
    (Arm::Base, Role::Counted),
];
const AGAIN: [(Arm, Role); 4] =
    [(Arm::Base, Role::Rerun), (Arm::This, Role::Rerun), (Arm::This, Role::Rerun), (Arm::Base, Role::Rerun)];

/// What makes single runs.
pub trait Driver {
    /// Starts a fresh server of `arm`, runs all cells of `series` and ends it. What fails stands in the run.
    ///
    /// # Errors
    /// Only the user's wish to stop.
    fn run(&mut self, arm: Arm, series: &Series, role: Role) -> Result<Run, BenchError>;

    /// Tokens a second of base without drafts, one greedy stream; none where it failed.
    ///
    /// # Errors
    /// Only the user's wish to stop.
    fn control(&mut self) -> Result<Option<f64>, BenchError>;
}

/// Something that a comparison tells while it goes on.
#[derive(Debug)]
pub enum Event<'a> {
    /// The number of runs now expected in all.
    Expected(usize),
    /// A run is over.
    Run(&'a Run),
    /// A series is over, or the comparison.
    Progress(&'a Comparison),
}

/// Runs the whole plan. Once the user asks to stop, what is left is marked as not run.
///
/// # Errors
/// What `tell` returns.
pub fn compare(
    plan: &Plan,
    driver: &mut impl Driver,
    mut tell: impl FnMut(Event<'_>) -> Result<(), BenchError>,
) -> Result<Comparison, BenchError> {
    let all = plan.series();
    let mut expected = all.len() * FIRST.len();
    let mut comparison = Comparison::default();
    let mut stopped = false;
    tell(Event::Expected(expected))?;
    for series in all {
        let mut runs = SeriesRuns::new(series);
        let mut turn = Turn { plan, driver, runs: &mut runs, expected: &mut expected };
        let outcome = if stopped { Err(BenchError::Stopped) } else { turn.whole(&mut tell) };
        if let Err(error) = outcome {
            stopped = matches!(error, BenchError::Stopped);
            if !stopped {
                return Err(error);
            }
            runs.not_run = Some("stopped by the user".into());
        }
        comparison.series.push(runs);
        if !stopped {
            tell(Event::Progress(&comparison))?;
        }
    }
    Ok(comparison)
}

/// One series while it is run.
struct Turn<'a, D> {
    plan: &'a Plan,
    driver: &'a mut D,
    runs: &'a mut SeriesRuns,
    expected: &'a mut usize,
}

type Tell<'a> = dyn FnMut(Event<'_>) -> Result<(), BenchError> + 'a;

impl<D: Driver> Turn<'_, D> {
    fn whole(&mut self, tell: &mut Tell<'_>) -> Result<(), BenchError> {
        if !self.gate()? || !self.order(&FIRST, tell)? {
            return Ok(());
        }
        if self.runs.has_slower() {
            *self.expected += AGAIN.len();
            tell(Event::Expected(*self.expected))?;
            self.order(&AGAIN, tell)?;
        }
        Ok(())
    }

    /// Whether the control is fast enough, at the second try at last.
    fn gate(&mut self) -> Result<bool, BenchError> {
        let Some(least) = self.plan.gate else { return Ok(true) };
        for _ in 0..2 {
            let speed = self.driver.control()?.unwrap_or(0.0);
            self.runs.controls.push(speed);
            if speed >= least {
                return Ok(true);
            }
        }
        self.runs.not_run = Some(format!("the control stayed under {least} tokens a second"));
        Ok(false)
    }

    /// Makes runs in order; a failed one ends the series.
    fn order(&mut self, order: &[(Arm, Role)], tell: &mut Tell<'_>) -> Result<bool, BenchError> {
        for &(arm, role) in order {
            let mut run = self.driver.run(arm, &self.runs.series, role)?;
            if run.level() == Level::Heavy {
                run.role = Role::Throttled;
                self.runs.runs.push(run);
                run = self.driver.run(arm, &self.runs.series, role)?;
            }
            let problem = match (run.level(), &run.failure) {
                (_, Some(failure)) => Some(format!("a run of {arm} failed: {failure}")),
                (Level::Heavy, None) => {
                    run.role = Role::Throttled;
                    Some("the machine was held back by heat or power, also when run again".into())
                }
                _ => None,
            };
            tell(Event::Run(&run))?;
            self.runs.runs.push(run);
            if problem.is_some() {
                self.runs.not_run = problem;
                return Ok(false);
            }
        }
        Ok(true)
    }
}
