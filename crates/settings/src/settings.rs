//! Typed values of every setting.

use crate::environment::Environment;
use crate::registry::name;
use crate::{
    CalibSource, CpuPath, DepthRule, Experiment, JointDepth, Platform, Row, Secret, SettingError, TableShape,
    TimingStat, UnknownSetting,
};
use std::path::PathBuf;

/// The settings in force.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The platform whose defaults hold.
    pub platform: Platform,
    /// The cost table and how it is measured.
    pub calib: CalibSettings,
    /// Draft depth.
    pub depth: DepthSettings,
    /// Copied drafts.
    pub copies: CopySettings,
    /// Logs and profiles.
    pub logs: LogSettings,
    /// Serving.
    pub server: ServerSettings,
    /// Percent of a prompt piece's time that running streams get between pieces, 0..=100.
    pub piece_share: u32,
    /// Downloads.
    pub hub: HubSettings,
    /// Opt-ins.
    pub experiments: Vec<Experiment>,
    /// Salt of the prompt-derived seed.
    pub seed_salt: String,
    /// Kernels of the CPU device.
    pub cpu_path: CpuPath,
    environment: Environment,
}

/// The cost table and how it is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalibSettings {
    /// Where the table comes from.
    pub source: CalibSource,
    /// Folder of stored tables; `None` when it is unset and the user has no home.
    pub dir: Option<PathBuf>,
    /// One stored table outright.
    pub file: Option<PathBuf>,
    /// How timed rows are smoothed.
    pub shape: TableShape,
    /// How runs of a window are combined.
    pub stat: TimingStat,
    /// Runs of a window of up to 8 rows.
    pub reps: usize,
    /// Untimed windows first.
    pub warm: usize,
    /// Row counts timed again at the end.
    pub recheck: usize,
    /// Row counts whose runs are interleaved.
    pub cycle: usize,
    /// Runs of a window of 9 rows and more.
    pub deep_reps: usize,
    /// Milliseconds that bound optional repeats.
    pub budget_ms: u64,
}

/// Draft depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DepthSettings {
    /// The rule.
    pub rule: DepthRule,
    /// The cap of the cost rule, or the fixed depth.
    pub draft_depth: usize,
    /// Whether a lone stream may verify no draft.
    pub skip: bool,
    /// How shared rounds are priced.
    pub joint: JointDepth,
    /// Live streams from which shared rounds draft nothing; 0 is never.
    pub plain_streams: usize,
}

/// Copied drafts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopySettings {
    /// Shortest match used.
    pub lookup_min: usize,
    /// Most rows of a copied window.
    pub max_rows: usize,
}

/// Logs and profiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// File of choices and commits.
    pub accept_log: Option<PathBuf>,
    /// Rounds from one of full depth to the next; 0 is never.
    pub explore: u64,
    /// Whether rounds are profiled.
    pub round_prof: bool,
}

/// Serving.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// Seconds of grace on SIGTERM.
    pub drain_s: u64,
    /// Seconds of silence before a comment line; 0 is never.
    pub sse_keepalive_s: u64,
    /// Seconds without progress after which the engine counts as hanging; 0 is never.
    pub stall_s: u64,
    /// A key that opens the API.
    pub api_key: Option<Secret>,
}

/// Downloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubSettings {
    /// Address of the hub.
    pub endpoint: String,
    /// Token for repositories that are not public.
    pub token: Option<Secret>,
}

impl Settings {
    /// Checks and types the settings among `variables` (names and texts; later ones win) for `platform`. Other
    /// variables are left alone, except that XDG_CACHE_HOME and HOME place the cache folder.
    pub fn read<K, V>(
        platform: Platform,
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, SettingError>
    where
        K: Into<String>,
        V: Into<String>,
    {
        let given = variables.into_iter().map(|(name, text)| (name.into(), text.into())).collect();
        let env = Environment::read(platform, given)?;
        Ok(Self {
            platform,
            calib: CalibSettings {
                source: word(&env, name::CALIB, CalibSource::from_word),
                dir: env.value(name::CALIB_DIR).map(PathBuf::from),
                file: env.value(name::CALIB_FILE).map(PathBuf::from),
                shape: word(&env, name::CALIB_SHAPE, TableShape::from_word),
                stat: word(&env, name::CALIB_STAT, TimingStat::from_word),
                reps: number(&env, name::CALIB_REPS) as usize,
                warm: number(&env, name::CALIB_WARM) as usize,
                recheck: number(&env, name::CALIB_RECHECK) as usize,
                cycle: number(&env, name::CALIB_CYCLE) as usize,
                deep_reps: number(&env, name::CALIB_DEEP_REPS) as usize,
                budget_ms: number(&env, name::CALIB_BUDGET_MS),
            },
            depth: DepthSettings {
                rule: word(&env, name::DEPTH, DepthRule::from_word),
                draft_depth: number(&env, name::DRAFT_DEPTH) as usize,
                skip: flag(&env, name::DRAFT_SKIP),
                joint: word(&env, name::DEPTH_JOINT, JointDepth::from_word),
                plain_streams: number(&env, name::PLAIN_STREAMS) as usize,
            },
            copies: CopySettings {
                lookup_min: number(&env, name::LOOKUP_MIN) as usize,
                max_rows: number(&env, name::MAX_ROWS) as usize,
            },
            logs: LogSettings {
                accept_log: env.value(name::ACCEPT_LOG).map(PathBuf::from),
                explore: number(&env, name::EXPLORE),
                round_prof: flag(&env, name::ROUND_PROF),
            },
            server: ServerSettings {
                drain_s: number(&env, name::DRAIN_S),
                sse_keepalive_s: number(&env, name::SSE_KEEPALIVE_S),
                stall_s: number(&env, name::STALL_S),
                api_key: env.secret(name::API_KEY),
            },
            hub: HubSettings {
                endpoint: env.value(name::HF_ENDPOINT).unwrap_or_default().into(),
                token: env.secret(name::HF_TOKEN),
            },
            piece_share: number(&env, name::PIECE_SHARE) as u32,
            experiments: experiments(&env),
            seed_salt: env.value(name::SEED_SALT).unwrap_or_default().into(),
            cpu_path: word(&env, name::CPU_PATH, CpuPath::from_word),
            environment: env,
        })
    }

    /// Every setting with its value in force, in the registry's order.
    pub fn rows(&self) -> &[Row] {
        &self.environment.rows
    }

    /// Variables that look like settings and are none, each worth one warning.
    pub fn unknown(&self) -> &[UnknownSetting] {
        &self.environment.unknown
    }
}

const CHECKED: &str = "the registry's forms accept only what the types hold, and defaults are of these forms";

fn word<T>(env: &Environment, name: &str, from_word: fn(&str) -> Option<T>) -> T {
    env.value(name).and_then(from_word).expect(CHECKED)
}

fn number(env: &Environment, name: &str) -> u64 {
    env.value(name).and_then(|text| text.parse().ok()).expect(CHECKED)
}

fn flag(env: &Environment, name: &str) -> bool {
    env.value(name) == Some("on")
}

fn experiments(env: &Environment) -> Vec<Experiment> {
    let list = env.value(name::EXPERIMENTAL).unwrap_or_default();
    let mut found: Vec<Experiment> = list.split(',').filter_map(Experiment::from_word).collect();
    found.dedup();
    found
}
