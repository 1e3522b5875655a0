//! From a checkpoint folder to running lanes, on the device the user chose. The only place that names devices.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use tokenfare_cpu::{Cpu, CpuOptions, Path, PathChoice};
use tokenfare_device::{Device, Reference};
use tokenfare_dsv41::checkpoint::Checkpoint;
use tokenfare_dsv41::config::Config;
use tokenfare_dsv41::load::{self, LoadOptions, load};
use tokenfare_dsv41::model::{CacheMode, Model, ModelOptions};
use tokenfare_dsv41::tokenizer::{Tokenizer, token_map};
use tokenfare_lanes::{Drafts, Lanes, LanesConfig};
use tokenfare_pricing::{CostTable, DepthConfig, Joint, Rule, Skip};
use tokenfare_settings::{CpuPath, DepthRule, DepthSettings, JointDepth, Platform, Settings};

use crate::cli::{DeviceKind, EngineArgs};
use crate::notice::notice;
use crate::progress;
use crate::watch::Watch;

/// Tokens of one prompt piece.
const PIECE_ROWS: usize = 256;
/// Worker threads that may be asked for: all of them wait for each other between the steps of a layer.
const MOST_THREADS: usize = 1024;
/// Rows of one verify window, all streams together.
const WINDOW_ROWS: usize = 64;

/// A loaded model behind its lanes.
pub struct Engine {
    /// The lanes.
    pub lanes: Lanes,
    /// The device in words.
    pub device: String,
    /// The checkpoint's tokenizer.
    pub tokenizer: Arc<Tokenizer>,
    /// The checkpoint's sizes.
    pub config: Config,
    /// Whether rounds verify drafts.
    pub drafts: Drafts,
    /// Seconds from the first read to lanes that take requests.
    pub loaded_s: f64,
}

/// The settings of the process for the device that will run.
pub fn settings(device: DeviceKind) -> Result<Settings> {
    let platform = match device {
        DeviceKind::Auto | DeviceKind::Cpu => Platform::Cpu,
        DeviceKind::Reference => Platform::Reference,
    };
    let mut variables = Vec::new();
    for (name, value) in std::env::vars_os() {
        // A name that is not Unicode cannot be one of ours.
        let Ok(name) = name.into_string() else { continue };
        match value.into_string() {
            Ok(value) => variables.push((name, value)),
            Err(value) if name.starts_with("TF_") => bail!("{name}={value:?}: expected Unicode"),
            Err(_) => {}
        }
    }
    let settings = Settings::read(platform, variables)?;
    for unknown in settings.unknown() {
        notice!("warning: {unknown}");
    }
    Ok(settings)
}

fn path(setting: CpuPath) -> PathChoice {
    match setting {
        CpuPath::Auto => PathChoice::Auto,
        CpuPath::Amx => PathChoice::Only(Path::Amx),
        CpuPath::Avx512 => PathChoice::Only(Path::Avx512),
        CpuPath::Avx2 => PathChoice::Only(Path::Avx2),
        CpuPath::Neon => PathChoice::Only(Path::Neon),
        CpuPath::Scalar => PathChoice::Only(Path::Scalar),
    }
}

/// The pricing rule of the settings.
pub fn depth(settings: &DepthSettings, max_rows: usize) -> DepthConfig {
    let rule = match settings.rule {
        DepthRule::Cost => Rule::Cost {
            cap: settings.draft_depth,
            skip: if settings.skip { Skip::On } else { Skip::Off },
            joint: match settings.joint {
                JointDepth::Together => Joint::Together,
                JointDepth::Separate => Joint::Separate,
            },
        },
        DepthRule::Static => Rule::Static { depth: settings.draft_depth },
    };
    DepthConfig { rule, copied_rows: max_rows, plain_streams: settings.plain_streams, row_cap: WINDOW_ROWS }
}

struct Setup<'a> {
    args: &'a EngineArgs,
    settings: &'a Settings,
    checkpoint: &'a Checkpoint,
    tokenizer: Arc<Tokenizer>,
    options: ModelOptions,
    watch: Watch,
    started: Instant,
}

impl Setup<'_> {
    fn threads(&self) -> usize {
        self.args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
    }

    fn start<D: Device>(
        self,
        mut device: D,
        adjust: impl FnOnce(LanesConfig) -> LanesConfig,
    ) -> Result<Engine> {
        let name = device.name();
        let config = self.checkpoint.config().clone();
        let wanted = config.drafter.is_some() && !self.args.no_drafts;
        let bar = progress::bytes("loading");
        let loaded = load(
            self.checkpoint,
            &mut device,
            &LoadOptions {
                drafter: if wanted { load::Drafts::Load } else { load::Drafts::Skip },
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
        let model = Model::new(device, loaded?, &config, map.map, self.options)?;
        let drafts = if wanted { Drafts::On } else { Drafts::Off };
        let cache_bytes = self.args.prompt_cache_gib * f64::from(1 << 30);
        let mut lanes = LanesConfig {
            drafts,
            depth: depth(&self.settings.depth, self.settings.copies.max_rows),
            table: CostTable::built_in(),
            lookup_min: self.settings.copies.lookup_min,
            piece_share: self.settings.piece_share,
            prompt_cache_bytes: cache_bytes as usize,
            ..LanesConfig::default()
        };
        let block = config.drafter.as_ref().filter(|_| wanted).map_or(0, |d| d.block);
        self.watch.attach(&mut lanes, block)?;
        let lanes = Lanes::start(model, adjust(lanes)).context("the engine's thread")?;
        let loaded_s = self.started.elapsed().as_secs_f64();
        Ok(Engine { lanes, device: name, tokenizer: self.tokenizer, config, drafts, loaded_s })
    }
}

/// Opens the checkpoint in `dir`, loads it and starts `slots` lanes.
pub fn start(dir: &std::path::Path, args: &EngineArgs, settings: &Settings, slots: usize) -> Result<Engine> {
    start_with(dir, args, settings, slots, |config| config)
}

/// [`start`] with lanes of another configuration than the settings give.
pub fn start_with(
    dir: &std::path::Path,
    args: &EngineArgs,
    settings: &Settings,
    slots: usize,
    adjust: impl FnOnce(LanesConfig) -> LanesConfig,
) -> Result<Engine> {
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
    let watch = Watch::open(&settings.logs)?;
    let checkpoint = Checkpoint::open(dir)?;
    let config = checkpoint.config();
    let tokenizer = Arc::new(Tokenizer::open(dir, config.vocab)?);
    let context = args.context.unwrap_or(config.max_context);
    if context < 2 || context > config.max_context {
        bail!("--context {context}: expected 2 to the model's {}", config.max_context);
    }
    let options = ModelOptions {
        slots,
        context,
        piece_rows: PIECE_ROWS.min(context),
        window_rows: WINDOW_ROWS,
        caches: if args.exact_caches { CacheMode::Exact } else { CacheMode::Trained },
    };
    let max_rows = options.launch_rows(config);
    let setup = Setup { args, settings, checkpoint: &checkpoint, tokenizer, options, watch, started };
    match args.device {
        DeviceKind::Auto | DeviceKind::Cpu => {
            let device = Cpu::new(CpuOptions {
                path: path(settings.cpu_path),
                threads: args.threads.unwrap_or(0),
                max_rows,
            })?;
            setup.start(device, adjust)
        }
        DeviceKind::Reference => setup.start(Reference::new(max_rows), adjust),
    }
}
