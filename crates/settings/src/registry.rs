//! The one table of settings.

use crate::choices::{CalibSource, CpuPath, DepthRule, Experiment, JointDepth, TableShape, TimingStat};
use crate::default::DefaultValue::{ByRule, ByShape, CacheFolder, Is, Unset};
use crate::{DefaultValue, Defaults, Form, Platform, Scope};

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The variable.
    pub name: &'static str,
    /// Where it has an effect.
    pub scope: Scope,
    /// What it accepts.
    pub form: Form,
    /// What holds without it.
    pub default: Defaults,
    /// What it does, in one line.
    pub meaning: &'static str,
    /// What is different on a platform, beyond the default.
    pub clauses: &'static [(Platform, &'static str)],
}

impl Setting {
    /// What the setting accepts and what holds without it, as a refusal on `platform` says it.
    pub fn expected(&self, platform: Platform) -> String {
        let forms = self.form.expected();
        match self.form {
            Form::Path => forms,
            _ => format!("{forms} (unset or blank: {})", self.default.describe(platform)),
        }
    }
}

const fn usual(value: DefaultValue) -> Defaults {
    Defaults { usual: value, except: &[] }
}

const fn setting(name: &'static str, form: Form, default: Defaults, meaning: &'static str) -> Setting {
    let scope = Scope::All;
    Setting { name, scope, form, default, meaning, clauses: &[] }
}

const fn number(from: u64, to: u64) -> Form {
    Form::Number { from, to }
}

/// Names of the settings.
pub(crate) mod name {
    pub const CALIB: &str = "TF_DSV41_CALIB";
    pub const CALIB_DIR: &str = "TF_DSV41_CALIB_DIR";
    pub const CALIB_FILE: &str = "TF_DSV41_CALIB_FILE";
    pub const CALIB_SHAPE: &str = "TF_DSV41_CALIB_SHAPE";
    pub const CALIB_STAT: &str = "TF_DSV41_CALIB_STAT";
    pub const CALIB_REPS: &str = "TF_DSV41_CALIB_REPS";
    pub const CALIB_WARM: &str = "TF_DSV41_CALIB_WARM";
    pub const CALIB_RECHECK: &str = "TF_DSV41_CALIB_RECHECK";
    pub const CALIB_CYCLE: &str = "TF_DSV41_CALIB_CYCLE";
    pub const CALIB_DEEP_REPS: &str = "TF_DSV41_CALIB_DEEP_REPS";
    pub const CALIB_BUDGET_MS: &str = "TF_DSV41_CALIB_BUDGET_MS";
    pub const DEPTH: &str = "TF_DSV41_DEPTH";
    pub const DRAFT_DEPTH: &str = "TF_DSV41_DRAFT_DEPTH";
    pub const DRAFT_SKIP: &str = "TF_DSV41_DRAFT_SKIP";
    pub const DEPTH_JOINT: &str = "TF_DSV41_DEPTH_JOINT";
    pub const PLAIN_STREAMS: &str = "TF_DSV41_PLAIN_STREAMS";
    pub const LOOKUP_MIN: &str = "TF_DSV41_LOOKUP_MIN";
    pub const MAX_ROWS: &str = "TF_DSV41_MAX_ROWS";
    pub const PIECE_SHARE: &str = "TF_DSV41_PIECE_SHARE";
    pub const EXPERIMENTAL: &str = "TF_EXPERIMENTAL";
    pub const ACCEPT_LOG: &str = "TF_DSV41_ACCEPT_LOG";
    pub const EXPLORE: &str = "TF_DSV41_EXPLORE";
    pub const ROUND_PROF: &str = "TF_DSV41_ROUND_PROF";
    pub const DRAIN_S: &str = "TF_DSV41_DRAIN_S";
    pub const SSE_KEEPALIVE_S: &str = "TF_DSV41_SSE_KEEPALIVE_S";
    pub const STALL_S: &str = "TF_DSV41_STALL_S";
    pub const API_KEY: &str = "TF_API_KEY";
    pub const SEED_SALT: &str = "TF_SEED_SALT";
    pub const CPU_PATH: &str = "TF_CPU_PATH";
    pub const HF_ENDPOINT: &str = "HF_ENDPOINT";
    pub const HF_TOKEN: &str = "HF_TOKEN";
}

/// Every setting, in the order in which they are listed and checked.
pub fn registry() -> &'static [Setting] {
    &REGISTRY
}

static REGISTRY: [Setting; 31] = [
    Setting {
        clauses: &[(Platform::Cuda, "a measured table is stored too")],
        ..setting(
            name::CALIB,
            Form::Word(CalibSource::WORDS),
            Defaults { usual: Is("default"), except: &[(Platform::Cuda, Is("cached"))] },
            "Where the table of draft costs comes from: built in, timed at every start (`measure`) or once (`stored`), or the best (`cached`) or newest (`real`) of the stored ones.",
        )
    },
    setting(
        name::CALIB_DIR,
        Form::Path,
        usual(CacheFolder("tokenfare/dsv41-calib")),
        "Folder of stored tables; without XDG_CACHE_HOME it is below ~/.cache.",
    ),
    setting(name::CALIB_FILE, Form::Path, usual(Unset), "One stored table outright; wins over the folder."),
    setting(
        name::CALIB_SHAPE,
        Form::Word(TableShape::WORDS),
        usual(Is("raw")),
        "How timed rows are smoothed: as timed, or on fitted lines; both non-decreasing.",
    ),
    setting(
        name::CALIB_STAT,
        Form::Word(TimingStat::WORDS),
        Defaults { usual: Is("min"), except: &[(Platform::Cuda, Is("median"))] },
        "How the runs of one window are combined.",
    ),
    setting(
        name::CALIB_REPS,
        number(1, 50),
        Defaults { usual: Is("3"), except: &[(Platform::Cuda, Is("5"))] },
        "Timed runs of a window of up to 8 rows.",
    ),
    setting(
        name::CALIB_WARM,
        number(0, 20),
        Defaults { usual: Is("1"), except: &[(Platform::Cuda, ByShape { raw: "3", fit: "2" })] },
        "Untimed windows before the timed ones.",
    ),
    setting(
        name::CALIB_RECHECK,
        number(0, 8),
        Defaults { usual: Is("0"), except: &[(Platform::Cuda, ByShape { raw: "4", fit: "2" })] },
        "Row counts timed again at the end, the lower time kept.",
    ),
    setting(
        name::CALIB_CYCLE,
        number(0, 8),
        usual(ByShape { raw: "4", fit: "0" }),
        "Row counts whose runs are interleaved.",
    ),
    setting(
        name::CALIB_DEEP_REPS,
        number(1, 50),
        usual(ByShape { raw: "5", fit: "3" }),
        "Timed runs of a window of 9 rows and more.",
    ),
    Setting {
        clauses: &[(Platform::Cuda, "checked and unused")],
        ..setting(
            name::CALIB_BUDGET_MS,
            number(0, 60_000),
            usual(Is("2000")),
            "Milliseconds that optional repeats may take, counted from the start of the measurement.",
        )
    },
    setting(
        name::DEPTH,
        Form::Word(DepthRule::WORDS),
        usual(Is("cost")),
        "The depth rule: by price, or always the same depth.",
    ),
    setting(
        name::DRAFT_DEPTH,
        number(0, 15),
        usual(ByRule { cost: "5", fixed: "3" }),
        "Most drafts of a drafter's window, or the fixed depth; 0 verifies no drafts at all, copies included.",
    ),
    setting(
        name::DRAFT_SKIP,
        Form::Flag,
        usual(Is("on")),
        "Whether a lone stream may verify no draft in a round where none pays.",
    ),
    setting(
        name::DEPTH_JOINT,
        Form::Word(JointDepth::WORDS),
        usual(Is("1")),
        "How the streams of a shared round are priced: 1 together, 0 each as if it were alone.",
    ),
    setting(
        name::PLAIN_STREAMS,
        number(0, 64),
        Defaults { usual: Is("0"), except: &[(Platform::Metal, Is("3"))] },
        "Shared rounds of at least this many live streams draft nothing; 0 is never.",
    ),
    setting(
        name::LOOKUP_MIN,
        number(1, 64),
        usual(Is("4")),
        "Shortest match that a continuation is copied from; matches are found by their last 3 tokens.",
    ),
    setting(
        name::MAX_ROWS,
        number(2, 16),
        usual(Is("16")),
        "Most rows of a window whose drafts are copied, the pending token included.",
    ),
    setting(
        name::PIECE_SHARE,
        number(0, 100),
        usual(Is("25")),
        "Percent of a prompt piece's time that running streams get between pieces; 0 feeds whole prompts first.",
    ),
    setting(
        name::EXPERIMENTAL,
        Form::List(Experiment::WORDS),
        usual(Unset),
        "Opt-ins; `deepseek` is needed on a device kind that no owner has qualified yet.",
    ),
    setting(
        name::ACCEPT_LOG,
        Form::Path,
        usual(Unset),
        "File that every choice of depth and what was kept is appended to, as JSON lines; `tokenfare replay` reads it.",
    ),
    setting(
        name::EXPLORE,
        number(0, 1_000_000),
        usual(Is("0")),
        "One round in this many verifies its full depth and is marked so in the accept log; 0 is never.",
    ),
    setting(
        name::ROUND_PROF,
        Form::Flag,
        usual(Is("off")),
        "Reports where the time of each round and each reply goes, in milliseconds.",
    ),
    setting(
        name::DRAIN_S,
        number(0, 3600),
        usual(Is("20")),
        "Seconds that running replies get to finish after SIGTERM.",
    ),
    setting(
        name::SSE_KEEPALIVE_S,
        number(0, 3600),
        usual(Is("15")),
        "Seconds of silence after which a streamed reply sends a comment line; 0 is never.",
    ),
    setting(
        name::STALL_S,
        number(0, 86_400),
        usual(Is("600")),
        "Seconds without progress of the engine after which waiting and running requests fail; 0 is never.",
    ),
    setting(
        name::API_KEY,
        Form::Secret,
        usual(Unset),
        "A key that opens the API, beside those of --api-key and --api-key-file; without any the API is open.",
    ),
    setting(
        name::SEED_SALT,
        Form::Text,
        usual(Is("0")),
        "Salt of the seed that is derived from the prompt when a request names none.",
    ),
    Setting {
        scope: Scope::Only(&[Platform::Cpu]),
        ..setting(
            name::CPU_PATH,
            Form::Word(CpuPath::WORDS),
            usual(Is("auto")),
            "Kernels of the CPU device; auto takes the fastest that the processor has.",
        )
    },
    setting(
        name::HF_ENDPOINT,
        Form::Text,
        usual(Is("https://huggingface.co")),
        "Address of the hub that `tokenfare pull` downloads from.",
    ),
    setting(
        name::HF_TOKEN,
        Form::Secret,
        usual(Unset),
        "Token for repositories of the hub that are not public.",
    ),
];
