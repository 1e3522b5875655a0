//! Runs by real servers.

use std::time::{Duration, Instant};

use super::{Arm, ArmCommand, Driver, Plan, Role, Run, Series, Server};
use crate::machine::{Level, Processes, State};
use crate::run::{CellRun, Part};
use crate::stop::Stop;
use crate::{BenchError, Client};

/// Longest wait for a machine that is held back by heat before a run.
const COOL_DOWN: Duration = Duration::from_secs(300);
/// Pause between two looks at it.
const LOOK: Duration = Duration::from_secs(5);

/// Time for a server that answers to finish what it writes at its start.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// How long runs wait.
#[derive(Debug, Clone, Copy)]
pub struct Waiting {
    /// Before each server's start.
    pub settle: Duration,
    /// At most for a server to answer.
    pub start: Duration,
    /// At most for one reply.
    pub reply: Duration,
}

/// The servers of both arms, started anew for each run.
pub struct Servers<'a> {
    /// What is run.
    pub plan: &'a Plan,
    /// The command of base, then of this.
    pub arms: [ArmCommand; 2],
    /// The flag that turns drafts off.
    pub no_drafts: String,
    /// How long runs wait.
    pub waiting: Waiting,
    /// Key that the servers ask for.
    pub api_key: Option<String>,
    /// The user's wish to stop.
    pub stop: Stop,
    /// Who else uses the machine.
    pub processes: Processes,
}

impl Servers<'_> {
    fn sample(&mut self) -> State {
        State { busiest: self.processes.busiest(), ..State::now() }
    }

    /// The machine once it is not held back, or after the longest wait.
    fn cool(&mut self) -> Result<State, BenchError> {
        let begin = Instant::now();
        loop {
            let state = self.sample();
            if state.level < Level::Moderate || begin.elapsed() > COOL_DOWN {
                return Ok(state);
            }
            self.stop.sleep(LOOK)?;
        }
    }

    fn command(&self, arm: Arm, part: Part) -> ArmCommand {
        let [base, this] = &self.arms;
        let command = if arm == Arm::Base { base } else { this };
        if part == Part::NoDrafts { command.with(&self.no_drafts) } else { command.clone() }
    }

    fn cells(&self, series: &Series, server: &Server, run: &mut Run) -> Result<(), BenchError> {
        let client = Client::new(server.url(), self.api_key.clone(), self.waiting.reply)?;
        let (plan, stop) = (self.plan, &self.stop);
        let (model, _) = client.model()?;
        stop.sleep(LAST_WORDS)?;
        run.startup = server.log().lines().map(str::to_owned).collect();
        let loads = if series.part == Part::Openai { &plan.openai.loads } else { &plan.concurrent.loads };
        let cell = match series.part {
            Part::Prompt => {
                let report = plan.prompt.run(&client, stop)?;
                let failed = report.cold.iter().find_map(|cell| cell.failure.clone());
                run.failure = failed.or_else(|| report.broken.first().cloned());
                run.cells = report.cold;
                return Ok(());
            }
            Part::Openai => plan.openai.plan(series.temperature),
            part => plan.concurrent.plan(part, series.streams, series.temperature),
        };
        for load in loads {
            let done: CellRun = cell.run(&client, &model, load, stop)?;
            run.failure = done.failure.as_ref().map(|problem| format!("{}: {problem}", done.cell));
            run.cells.push(done);
            if run.failure.is_some() {
                return Ok(());
            }
        }
        run.pricing = client.get("/v1/pricing").ok();
        Ok(())
    }

    /// Starts a server, runs the series' cells and notes everything in `run`.
    fn fill(&self, command: &ArmCommand, series: &Series, run: &mut Run) -> Result<(), BenchError> {
        let mut server = match Server::start(command, self.waiting.start, &self.stop) {
            Ok(server) => server,
            Err(BenchError::Stopped) => return Err(BenchError::Stopped),
            Err(error) => {
                run.failure = Some(error.to_string());
                return Ok(());
            }
        };
        run.load_seconds = Some(server.load_time().as_secs_f64());
        match self.cells(series, &server, run) {
            Err(BenchError::Stopped) => return Err(BenchError::Stopped),
            Err(error) => run.failure = Some(error.to_string()),
            Ok(()) => {}
        }
        // A server that ended tells more than the connection that broke.
        if let (Some(problem), Some(ended)) = (&run.failure, server.failure_if_ended()) {
            run.failure = Some(format!("{problem}; {ended}"));
        }
        run.log = server.log();
        Ok(())
    }
}

impl Driver for Servers<'_> {
    fn run(&mut self, arm: Arm, series: &Series, role: Role) -> Result<Run, BenchError> {
        self.stop.sleep(self.waiting.settle)?;
        let start = self.cool()?;
        let mut run = Run {
            arm,
            role,
            cells: Vec::new(),
            failure: None,
            startup: Vec::new(),
            load_seconds: None,
            pricing: None,
            start,
            end: State::default(),
            log: String::new(),
        };
        self.fill(&self.command(arm, series.part), series, &mut run)?;
        run.end = self.sample();
        Ok(run)
    }

    fn control(&mut self) -> Result<Option<f64>, BenchError> {
        let series = Series { part: Part::NoDrafts, streams: 1, temperature: 0.0 };
        let run = self.run(Arm::Base, &series, Role::Discarded)?;
        Ok(run.cells.first().and_then(CellRun::speed).map(|speed| speed.median))
    }
}
