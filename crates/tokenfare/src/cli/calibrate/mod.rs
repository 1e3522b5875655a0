//! `tokenfare calibrate`: what windows of drafts cost on this machine.

mod plot;
mod report;
mod spread;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use tokenfare_device::Device;
use tokenfare_lanes::{Calibrated, Drafts};
use tokenfare_pricing::TableShape;

use super::{EngineArgs, ModelArg};
use crate::costs::{self, Identity, measurement_lines};
use crate::engine;
use crate::files::{Existing, check_flag, write_whole};
use crate::lanes_fit::Parallel;
use crate::lines::LogFormat;
use crate::locate;
use crate::setup::{Loaded, Purpose, Setup};
use report::Report;
use spread::Noise;

/// Rows of the window whose repeats show the machine's own noise.
const NOISE_ROWS: usize = 4;
/// Statistics that the noise is taken over, each of as many runs as a window of the table has.
const NOISE_GROUPS: usize = 10;

/// How the result is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A table and a plot
    Text,
    /// One JSON object
    Json,
}

/// Arguments of `tokenfare calibrate`.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    #[command(flatten)]
    model: ModelArg,
    /// Replies decoded at once by the server that the table is for, as its own flag gives them
    #[arg(long, value_name = "auto|N", default_value = "auto")]
    parallel: Parallel,
    /// Measure so many times, each with the model loaded anew, and show how far entries move
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=50))]
    starts: u16,
    /// Store the last table where `TF_DSV41_CALIB=stored` reads it
    #[arg(long)]
    store: bool,
    /// Write the plot as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// How the result is written
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    engine: EngineArgs,
}

/// What one start measured.
pub(crate) struct Started {
    device: String,
    identity: Option<Identity>,
    shape: TableShape,
    found: Calibrated,
    noise: Vec<Duration>,
}

/// A model to be measured.
struct Measure {
    identify: bool,
}

impl Purpose for Measure {
    type Output = Started;

    fn run<D: Device>(self, setup: &Setup<'_>, loaded: Loaded<D>) -> Result<Started> {
        let Loaded { mut model, fit } = loaded;
        let found = setup.calibrate(&mut model)?;
        let rows = NOISE_ROWS.min(found.measurement.table.verify().len());
        let runs = NOISE_GROUPS * found.measurement.options.reps;
        let noise = setup.repeat(&mut model, rows, runs)?;
        let device = model.device().name();
        let identity = if self.identify { Some(setup.identity(&device)?) } else { None };
        Ok(Started { device, identity, shape: setup.shape(&fit), found, noise })
    }
}

/// Runs the command.
pub fn calibrate(args: CalibrateArgs) -> Result<()> {
    if args.engine.no_drafts {
        bail!("--no-drafts: calibrate times drafts");
    }
    let settings = engine::settings(args.engine.device, None)?;
    let dir = locate::model(args.model.model.as_deref())?;
    let setup = Setup::open(&dir, &args.engine, &settings, args.parallel)?;
    if setup.drafts() == Drafts::Off {
        bail!("{}: the checkpoint has no drafter, so there is nothing to time", dir.display());
    }
    check_flag("--svg", args.svg.as_deref())?;
    let mut starts = Vec::new();
    for _ in 0..args.starts {
        starts.push(setup.build(Measure { identify: args.store })?);
    }
    let Some(last) = starts.last() else { bail!("--starts 0: expected at least 1") };
    let stored = match &last.identity {
        Some(identity) => {
            let request =
                costs::Request { calib: &settings.calib, platform: settings.platform, shape: last.shape };
            Some(request.store(&last.found, identity)?)
        }
        None => None,
    };
    let end = |last: bool| match &stored {
        Some(path) if last => format!("stored {}", path.display()),
        _ => "not stored".to_owned(),
    };
    for (number, start) in starts.iter().enumerate() {
        let lines = measurement_lines(&start.found, &end(number + 1 == starts.len()));
        lines.iter().for_each(|line| line.print(LogFormat::Text));
    }
    if let Some(path) = &args.svg {
        write_whole(path, plot::svg(&last.found.measurement.table)?.as_bytes(), Existing::Replace)
            .map_err(|cause| anyhow::anyhow!("--svg {}: {cause}", path.display()))?;
    }
    let statistic = last.found.measurement.options.statistic;
    let noise = Noise::of(&last.noise, last.found.measurement.options.reps, statistic);
    let report = Report { device: &last.device, starts: &starts, noise, stored: stored.as_deref() };
    let text = match args.output {
        Output::Text => report.text(),
        Output::Json => report.json().to_string() + "\n",
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}
