//! From settings and flags to running lanes.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tokenfare_device::Device;
use tokenfare_dsv41::config::Config;
use tokenfare_dsv41::tokenizer::Tokenizer;
use tokenfare_lanes::{Calibrated, CalibrationError, Drafts, Lanes, LanesConfig, Observer};
use tokenfare_pricing::{DepthConfig, Joint, Rule, Skip};
use tokenfare_settings::{
    CalibSource, DepthRule, DepthSettings, Form, JointDepth, Platform, Setting, Settings, registry,
};

use crate::cli::{DeviceKind, EngineArgs};
use crate::costs::{self, Costs, Identity};
use crate::lanes_fit::{LanesFit, Parallel};
use crate::notice::notice;
use crate::setup::{Loaded, Purpose, Setup, WINDOW_ROWS};
use crate::watch::Watch;

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
    /// What prices the drafts.
    pub costs: Costs,
    /// What decided on the number of lanes.
    pub fit: LanesFit,
    /// Seconds from the first read to lanes that take requests.
    pub loaded_s: f64,
}

/// The setting that `--draft-costs` stands for.
const CALIB: &str = "TF_DSV41_CALIB";

fn platform(device: DeviceKind) -> Platform {
    match device {
        DeviceKind::Auto | DeviceKind::Cpu => Platform::Cpu,
        DeviceKind::Reference => Platform::Reference,
    }
}

/// The settings of the process for the device that will run, with the source of the cost table that a flag names.
pub fn settings(device: DeviceKind, draft_costs: Option<&str>) -> Result<Settings> {
    let mut variables = Vec::new();
    for (name, value) in std::env::vars_os() {
        // A name that is not Unicode cannot be one of ours.
        let Ok(name) = name.into_string() else { continue };
        match value.into_string() {
            Ok(value) => variables.push((name, value)),
            Err(_) if setting(&name).is_some_and(|s| s.form == Form::Secret) => {
                bail!("{name}: expected Unicode")
            }
            Err(value) if name.starts_with("TF_") => bail!("{name}={value:?}: expected Unicode"),
            Err(_) => {}
        }
    }
    let platform = platform(device);
    let mut settings = Settings::read(platform, variables.clone())?;
    if let Some(flag) = draft_costs.map(str::trim).filter(|flag| !flag.is_empty()) {
        let setting = setting(CALIB).expect("the registry holds the source of costs");
        let Some(word) = setting.form.canonical(flag) else {
            bail!("--draft-costs \"{flag}\": expected {}", setting.expected(platform));
        };
        let given = variables.iter().rfind(|(name, _)| name == CALIB).map(|(_, text)| text.trim());
        if let Some(text) = given.filter(|text| !text.is_empty())
            && CalibSource::from_word(&word) != Some(settings.calib.source)
        {
            bail!("--draft-costs {flag} and {CALIB}={text} disagree: give one of them, or the same in both");
        }
        variables.push((CALIB.to_owned(), word));
        settings = Settings::read(platform, variables)?;
    }
    for unknown in settings.unknown() {
        notice!("warning: {unknown}");
    }
    Ok(settings)
}

fn setting(name: &str) -> Option<&'static Setting> {
    registry().iter().find(|setting| setting.name == name)
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

/// What the lanes of an engine are to be.
pub struct LanesPlan {
    /// How many.
    pub parallel: Parallel,
    /// Most requests waiting for one.
    pub queue: usize,
    /// Watches their rounds.
    pub observer: Option<Box<dyn Observer>>,
}

impl LanesPlan {
    /// So many lanes, with the usual queue and nobody who watches.
    pub fn of(lanes: usize) -> Self {
        Self { parallel: Parallel::Lanes(lanes), queue: LanesConfig::default().queue, observer: None }
    }
}

/// A model that is to be served from lanes, whose configuration `adjust` has the last word on.
struct Serve<A> {
    watch: Watch,
    plan: LanesPlan,
    adjust: A,
}

/// A model on the way to its lanes.
struct Starting<'a, D: Device> {
    setup: &'a Setup<'a>,
    loaded: &'a mut Loaded<D>,
}

impl<D: Device> costs::Start for Starting<'_, D> {
    fn measure(&mut self) -> Result<Calibrated, CalibrationError> {
        self.setup.calibrate(&mut self.loaded.model)
    }

    fn identity(&mut self) -> Result<Identity> {
        self.setup.identity(&self.loaded.model.device().name())
    }
}

impl<A: FnOnce(LanesConfig) -> LanesConfig> Purpose for Serve<A> {
    type Output = Engine;

    fn run<D: Device>(self, setup: &Setup<'_>, mut loaded: Loaded<D>) -> Result<Engine> {
        let Setup { args, settings, .. } = setup;
        let drafts = setup.drafts();
        let costs = match drafts {
            Drafts::Off => costs::without_drafts(&settings.calib),
            Drafts::On => {
                let shape = setup.shape(&loaded.fit);
                let request = costs::Request { calib: &settings.calib, platform: settings.platform, shape };
                request.choose(&mut Starting { setup, loaded: &mut loaded })
            }
        };
        let Loaded { model, fit } = loaded;
        let (device, config) = (model.device().name(), setup.checkpoint.config().clone());
        let mut lanes = LanesConfig {
            queue: self.plan.queue,
            drafts,
            depth: depth(&settings.depth, settings.copies.max_rows),
            table: costs.table.clone(),
            lookup_min: settings.copies.lookup_min,
            piece_share: settings.piece_share,
            prompt_cache_bytes: args.prompt_cache_bytes(),
            observer: self.plan.observer,
            ..LanesConfig::default()
        };
        let block = config.drafter.as_ref().filter(|_| drafts == Drafts::On).map_or(0, |d| d.block);
        self.watch.attach(&mut lanes, block)?;
        let lanes = Lanes::start(model, (self.adjust)(lanes)).context("the engine's thread")?;
        let tokenizer = setup.tokenizer.clone();
        let loaded_s = setup.started.elapsed().as_secs_f64();
        Ok(Engine { lanes, device, tokenizer, config, drafts, costs, fit, loaded_s })
    }
}

/// Opens the checkpoint in `dir`, loads it and starts its lanes.
pub fn start(dir: &Path, args: &EngineArgs, settings: &Settings, plan: LanesPlan) -> Result<Engine> {
    start_with(dir, args, settings, plan, |config| config)
}

/// [`start`] with lanes of another configuration than the settings give.
pub fn start_with(
    dir: &Path,
    args: &EngineArgs,
    settings: &Settings,
    plan: LanesPlan,
    adjust: impl FnOnce(LanesConfig) -> LanesConfig,
) -> Result<Engine> {
    let watch = Watch::open(&settings.logs)?;
    Setup::open(dir, args, settings, plan.parallel)?.build(Serve { watch, plan, adjust })
}
