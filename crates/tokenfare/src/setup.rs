//! From a checkpoint folder to a loaded model, on the device the user chose. The only place that names devices.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokenfare_cpu::{Cpu, CpuOptions, Path as CpuKernels, PathChoice};
use tokenfare_device::{Device, Reference};
use tokenfare_dsv41::calibration;
use tokenfare_dsv41::checkpoint::Checkpoint;
use tokenfare_dsv41::load::{self, LoadOptions, load};
use tokenfare_dsv41::model::{CacheMode, Model, ModelOptions};
use tokenfare_dsv41::tokenizer::{Tokenizer, token_map};
use tokenfare_lanes::{Calibrated, CalibrationError, Calibrator, Drafts, SystemClock};
use tokenfare_pricing::TableShape;
use tokenfare_settings::{CpuPath, Settings};

use crate::cli::{DeviceKind, EngineArgs};
use crate::costs::{self, Identity};
use crate::lanes_fit::{LanesFit, Parallel};
use crate::{drafter, progress};

/// Tokens of one prompt piece.
const PIECE_ROWS: usize = 256;
/// Worker threads that may be asked for: all of them wait for each other between the steps of a layer.
pub const MOST_THREADS: usize = 1024;
/// Rows of one verify window, all streams together.
pub const WINDOW_ROWS: usize = 64;

/// What a loaded model is for.
pub trait Purpose {
    /// What it gives.
    type Output;

    /// Uses the model.
    fn run<D: Device>(self, setup: &Setup<'_>, loaded: Loaded<D>) -> Result<Self::Output>;
}

/// A loaded model and how its number of slots came about.
pub struct Loaded<D: Device> {
    /// The model.
    pub model: Model<D>,
    /// What decided on its slots.
    pub fit: LanesFit,
}

/// An opened checkpoint, and how its model is to be loaded.
pub struct Setup<'a> {
    /// Flags.
    pub args: &'a EngineArgs,
    /// Settings.
    pub settings: &'a Settings,
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// Its tokenizer.
    pub tokenizer: Arc<Tokenizer>,
    /// How many slots the model gets.
    pub parallel: Parallel,
    /// Sizes of the model's state, of one slot until the weights are in memory.
    options: ModelOptions,
    /// When the opening began.
    pub started: Instant,
}

fn path(setting: CpuPath) -> PathChoice {
    match setting {
        CpuPath::Auto => PathChoice::Auto,
        CpuPath::Amx => PathChoice::Only(CpuKernels::Amx),
        CpuPath::Avx512 => PathChoice::Only(CpuKernels::Avx512),
        CpuPath::Avx2 => PathChoice::Only(CpuKernels::Avx2),
        CpuPath::Neon => PathChoice::Only(CpuKernels::Neon),
        CpuPath::Scalar => PathChoice::Only(CpuKernels::Scalar),
    }
}

/// The CPU device of the settings; 0 threads: one for each CPU that the process may use.
pub fn cpu(settings: &Settings, threads: usize, max_rows: usize) -> Result<Cpu> {
    Ok(Cpu::new(CpuOptions { path: path(settings.cpu_path), threads, max_rows })?)
}

impl<'a> Setup<'a> {
    /// Checks the flags and opens the checkpoint in `dir`.
    pub fn open(
        dir: &Path,
        args: &'a EngineArgs,
        settings: &'a Settings,
        parallel: Parallel,
    ) -> Result<Self> {
        let started = Instant::now();
        if args.exact_caches && args.device != DeviceKind::Reference {
            bail!("--exact-caches: only with --device reference");
        }
        if let Some(threads) = args.threads.filter(|threads| !(1..=MOST_THREADS).contains(threads)) {
            bail!("--threads {threads}: expected 1 to {MOST_THREADS}");
        }
        if !args.prompt_cache_gib.is_finite() || args.prompt_cache_gib < 0.0 {
            bail!("--prompt-cache-gib {}: expected a number from 0", args.prompt_cache_gib);
        }
        let checkpoint = Checkpoint::open(dir)?;
        if let Some(path) = &args.drafter {
            drafter::check(path, &checkpoint)?;
        }
        let config = checkpoint.config();
        let tokenizer = Arc::new(Tokenizer::open(dir, config.vocab)?);
        let context = args.context.unwrap_or(config.max_context);
        if context < 2 || context > config.max_context {
            bail!("--context {context}: expected 2 to the model's {}", config.max_context);
        }
        let options = ModelOptions {
            slots: 1,
            context,
            piece_rows: PIECE_ROWS.min(context),
            window_rows: WINDOW_ROWS,
            caches: if args.exact_caches { CacheMode::Exact } else { CacheMode::Trained },
        };
        Ok(Self { args, settings, checkpoint, tokenizer, parallel, options, started })
    }

    /// Loads the model on the user's device and hands it over.
    pub fn build<P: Purpose>(&self, purpose: P) -> Result<P::Output> {
        let max_rows = self.options.launch_rows(self.checkpoint.config());
        match self.args.device {
            DeviceKind::Auto | DeviceKind::Cpu => {
                let device = cpu(self.settings, self.args.threads.unwrap_or(0), max_rows)?;
                purpose.run(self, self.load(device)?)
            }
            DeviceKind::Reference => purpose.run(self, self.load(Reference::new(max_rows))?),
        }
    }

    /// Whether rounds verify drafts.
    pub fn drafts(&self) -> Drafts {
        let wanted = self.checkpoint.config().drafter.is_some() && !self.args.no_drafts;
        if wanted { Drafts::On } else { Drafts::Off }
    }

    /// What a cost table of a start with these lanes is for.
    pub fn shape(&self, fit: &LanesFit) -> TableShape {
        let dspark = self.drafts() == Drafts::On;
        TableShape { slots: fit.lanes, world: 1, dspark, context: self.options.context }
    }

    /// Hashes what stored tables of a device belong to.
    pub fn identity(&self, device: &str) -> Result<Identity> {
        let fingerprint = self.checkpoint.fingerprint()?;
        let drafts = self.drafts() == Drafts::On;
        Ok(Identity::new(device, drafts, &fingerprint, &costs::executable()?))
    }

    /// Times a cost table on a model that holds no stream.
    pub fn calibrate<D: Device>(&self, model: &mut Model<D>) -> Result<Calibrated, CalibrationError> {
        let began = Instant::now();
        let text = calibration::text(&self.tokenizer);
        let text_time = began.elapsed();
        let mut found = self.with_text(&text, |calibrator| calibrator.measure(model))?;
        found.tally.text_time = text_time;
        found.tally.whole += text_time;
        Ok(found)
    }

    /// Times one window over and over on a model that holds no stream.
    pub fn repeat<D: Device>(
        &self,
        model: &mut Model<D>,
        rows: usize,
        runs: usize,
    ) -> Result<Vec<Duration>, CalibrationError> {
        let text = calibration::text(&self.tokenizer);
        self.with_text(&text, |calibrator| calibrator.repeat(model, rows, runs))
    }

    fn with_text<T>(&self, text: &[u32], use_it: impl FnOnce(&Calibrator<'_>) -> T) -> T {
        let clock = SystemClock::new();
        use_it(&Calibrator { text, options: costs::options(&self.settings.calib), clock: &clock })
    }

    fn threads(&self) -> usize {
        self.args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
    }

    fn load<D: Device>(&self, mut device: D) -> Result<Loaded<D>> {
        let config = self.checkpoint.config();
        let bar = progress::bytes("loading");
        let loaded = load(
            &self.checkpoint,
            &mut device,
            &LoadOptions {
                drafter: match self.drafts() {
                    Drafts::On => load::Drafts::Load,
                    Drafts::Off => load::Drafts::Skip,
                },
                threads: self.threads(),
                progress: &|done, total| progress::advance(&bar, done, total),
            },
        );
        bar.finish_and_clear();
        let map = token_map(&self.tokenizer)?;
        if let Some(engram) = &config.engram
            && map.size as u64 != engram.compressed_vocab
        {
            bail!(
                "{}: the tokenizer gives {} Engram token classes, expected the {} of config.json (engram_compressed_vocab_size)",
                self.checkpoint.dir().display(),
                map.size,
                engram.compressed_vocab
            );
        }
        let weights = loaded?;
        // The free memory is looked at once the weights have taken theirs.
        let reserved = self.args.prompt_cache_bytes() as u64;
        let fit = self.parallel.choose(self.options.slot_bytes(config), reserved)?;
        let options = ModelOptions { slots: fit.lanes, ..self.options };
        Ok(Loaded { model: Model::new(device, weights, config, map.map, options)?, fit })
    }
}
