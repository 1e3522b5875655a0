//! Runs a measurement on a model before its lanes take requests, and leaves nothing behind.

use crate::{Ask, Clock, Drafter, Ingest, Logits, Sampling, Segment, Target, TargetError, Want};
use std::time::Duration;
use tokenfare_pricing::{
    Calibration, CalibrationOptions, Launch, Measurement, NoRoom, Room, Step, TableError, Tally,
    TimingsError, Took,
};

/// Why a measurement gave no table.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CalibrationError {
    /// The model drafts nothing, so there is nothing to price.
    #[error("the model has no drafter")]
    NoDrafter,
    /// No token to feed.
    #[error("a calibration text of 0 tokens, expected at least 1")]
    NoText,
    /// The model is too small.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// The model failed.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// What was timed makes no table.
    #[error(transparent)]
    Timings(#[from] TimingsError),
}

impl CalibrationError {
    /// Whether everything ran and the numbers were refused: a pass dearer than twice the one-row window.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Timings(TimingsError::Table(TableError::Implausible { .. })))
    }
}

/// A measurement, and what the engine counted meanwhile.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibrated {
    /// What was found.
    pub measurement: Measurement,
    /// What it took; the text's time is left to whoever made the text.
    pub tally: Tally,
}

/// What a measurement needs beside the model.
pub struct Calibrator<'a> {
    /// Token ids that prompts and windows are cut from; cut texts begin again at their start.
    pub text: &'a [u32],
    /// How it is made.
    pub options: CalibrationOptions,
    /// Where times come from.
    pub clock: &'a dyn Clock,
}

impl Calibrator<'_> {
    /// Times windows and passes of `model`. Its slots must be as new, and are so again afterwards, also after an error.
    ///
    /// # Errors
    /// A model that fails or is too small, and times that make no table.
    pub fn measure<M: Target + Drafter>(&self, model: &mut M) -> Result<Calibrated, CalibrationError> {
        let began = self.clock.now();
        let (mut runner, mut calibration) = self.runner(model)?;
        let used = calibration.slots();
        runner.model.enter();
        let outcome = runner.run_all(&mut calibration, began);
        runner.clear(used);
        outcome?;
        let whole = self.clock.now().saturating_sub(began);
        let tally = Tally { text: self.text.len(), whole, ..runner.tally };
        Ok(Calibrated { measurement: calibration.finish()?, tally })
    }

    /// Times one window of `rows` rows `runs` times over, after an untimed one: the machine's own noise.
    ///
    /// # Errors
    /// A model that fails or is too small.
    pub fn repeat<M: Target + Drafter>(
        &self,
        model: &mut M,
        rows: usize,
        runs: usize,
    ) -> Result<Vec<Duration>, CalibrationError> {
        let (mut runner, _) = self.runner(model)?;
        runner.model.enter();
        let times = runner.prefill(0).and_then(|()| {
            runner.window(Launch::Rows(rows))?;
            (0..runs).map(|_| runner.window(Launch::Rows(rows))).collect()
        });
        runner.clear(1);
        Ok(times?)
    }

    fn runner<'m, M: Target + Drafter>(
        &'m self,
        model: &'m mut M,
    ) -> Result<(Runner<'m, M>, Calibration), CalibrationError> {
        let info = model.info();
        if info.draft_block == 0 {
            return Err(CalibrationError::NoDrafter);
        }
        if self.text.is_empty() {
            return Err(CalibrationError::NoText);
        }
        let room = Room {
            slots: info.slots,
            context: info.context,
            window_rows: info.window_rows,
            launch_bound: info.launch_bound,
        };
        let calibration = Calibration::new(self.options, room)?;
        let runner = Runner {
            model,
            text: self.text,
            stretch: self.text.len() / calibration.slots(),
            clock: self.clock,
            logits: Logits::default(),
            sampling: Sampling::greedy(),
            last_rows: 0,
            tally: Tally::default(),
        };
        Ok((runner, calibration))
    }
}

/// The model under measurement.
struct Runner<'a, M> {
    model: &'a mut M,
    text: &'a [u32],
    /// Tokens of the text from one slot's start to the next one's.
    stretch: usize,
    clock: &'a dyn Clock,
    logits: Logits,
    sampling: Sampling,
    /// Rows of slot 0 in the last launch.
    last_rows: usize,
    tally: Tally,
}

impl<M: Target + Drafter> Runner<'_, M> {
    fn run_all(&mut self, calibration: &mut Calibration, began: Duration) -> Result<(), TargetError> {
        while let Some(step) = calibration.next(self.clock.now().saturating_sub(began)) {
            let took = self.run(&step)?;
            calibration.record(&step, took);
        }
        Ok(())
    }

    /// Makes the first `slots` slots as new and ends the measurement.
    fn clear(&mut self, slots: usize) {
        for slot in 0..slots {
            self.model.wipe(slot);
        }
        self.model.leave();
    }

    fn run(&mut self, step: &Step) -> Result<Took, TargetError> {
        let took = |whole| Took { whole, ingest: Duration::ZERO };
        match *step {
            Step::Prefill { slot } => self.prefill(slot).map(|()| Took::default()),
            Step::Window { launch, .. } => self.window(launch).map(took),
            Step::WarmPass => self.propose(Step::PROMPT_ROWS).map(took),
            Step::FirstIngest => {
                let (_, ingest) = self.ingest()?;
                self.drop_rows(&[0]);
                Ok(Took { whole: ingest, ingest })
            }
            Step::Pass { .. } => {
                let (position, ingest) = self.ingest()?;
                let pass = self.propose(position)?;
                self.drop_rows(&[0]);
                Ok(Took { whole: ingest + pass, ingest })
            }
        }
    }

    /// Tokens of a slot's stretch of the text.
    fn tokens(&self, slot: usize, from: usize, count: usize) -> Vec<u32> {
        let start = slot * self.stretch + from;
        (start..start + count).map(|at| self.text[at % self.text.len()]).collect()
    }

    fn prefill(&mut self, slot: usize) -> Result<(), TargetError> {
        let prompt = self.tokens(slot, 0, Step::PROMPT_ROWS);
        let began = self.clock.now();
        let mut start = 0;
        for piece in prompt.chunks(self.model.info().piece_rows.max(1)) {
            self.model.prefill(slot, start, piece, Want::Nothing, &mut self.logits)?;
            self.model.keep(slot, start + piece.len());
            self.model.ingest(&[Ingest { slot, start, row: 0, count: piece.len() }])?;
            start += piece.len();
            self.tally.prompt_rows += piece.len();
        }
        self.tally.prompt_time += self.clock.now().saturating_sub(began);
        Ok(())
    }

    /// Runs and throws away one launch of windows; gives the time of running it.
    fn window(&mut self, launch: Launch) -> Result<Duration, TargetError> {
        let rows = launch.windows();
        let windows: Vec<Vec<u32>> =
            rows.iter().enumerate().map(|(slot, &rows)| self.tokens(slot, Step::PROMPT_ROWS, rows)).collect();
        let segment = |(slot, tokens)| Segment { slot, start: Step::PROMPT_ROWS, tokens };
        let segments: Vec<Segment<'_>> = windows.iter().map(Vec::as_slice).enumerate().map(segment).collect();
        let expected = rows.iter().sum();
        self.model.prepare(expected)?;
        let began = self.clock.now();
        self.model.window(&segments, &mut self.logits)?;
        let took = self.clock.now().saturating_sub(began);
        let found = self.logits.rows();
        if found != expected {
            return Err(crate::engine::short("window", expected, found));
        }
        self.tally.launches += 1;
        self.tally.launch_time += took;
        self.last_rows = rows.first().copied().unwrap_or(0);
        self.drop_rows(&(0..rows.len()).collect::<Vec<_>>());
        Ok(took)
    }

    fn drop_rows(&mut self, slots: &[usize]) {
        for &slot in slots {
            self.model.drop_window(slot, Step::PROMPT_ROWS);
        }
    }

    /// Ingests rows of slot 0 in the last launch; gives the position after them and the time.
    fn ingest(&mut self) -> Result<(usize, Duration), TargetError> {
        let (start, count) = (Step::PROMPT_ROWS, self.last_rows.min(Step::INGESTED_ROWS));
        let began = self.clock.now();
        self.model.ingest(&[Ingest { slot: 0, start, row: 0, count }])?;
        let took = self.clock.now().saturating_sub(began);
        self.tally.launch_time += took;
        Ok((start + count, took))
    }

    /// Runs a pass for slot 0 whose pending token stands at `position`; gives its time.
    fn propose(&mut self, position: usize) -> Result<Duration, TargetError> {
        let token = self.tokens(0, position, 1)[0];
        let ask = Ask { slot: 0, position, token, sampling: &self.sampling };
        let began = self.clock.now();
        let found = self.model.propose(&[ask])?.len();
        let took = self.clock.now().saturating_sub(began);
        if found != 1 {
            return Err(crate::engine::short("propose", 1, found));
        }
        self.tally.launches += 1;
        self.tally.launch_time += took;
        Ok(took)
    }
}
