//! The registry of settings read from the environment.
//!
//! Each setting is one entry of [`registry()`]: its name, scope, accepted forms, defaults and meaning. The parser,
//! the refusals, the rows of `tokenfare settings` and the page on the environment are all made from it. This crate
//! never reads the environment: variables are handed in as pairs, and typed values come out.
//!
//! ```
//! use tokenfare_settings::{Platform, Settings};
//!
//! let environment = [("TF_DSV41_DRAFT_DEPTH", " 3 "), ("PATH", "/bin")];
//! let settings = Settings::read(Platform::Cpu, environment).unwrap();
//! assert_eq!(settings.depth.draft_depth, 3);
//!
//! let refusal = Settings::read(Platform::Cpu, [("TF_DSV41_DRAFT_DEPTH", "many")]).unwrap_err();
//! assert_eq!(
//!     refusal.to_string(),
//!     "TF_DSV41_DRAFT_DEPTH=\"many\": expected a whole number from 0 to 15 (unset or blank: 5 for cost, 3 for static)"
//! );
//! ```

mod choices;
mod default;
mod environment;
mod error;
mod form;
mod page;
mod platform;
mod registry;
mod secret;
mod settings;

pub use choices::{CalibSource, CpuPath, DepthRule, Experiment, JointDepth, TableShape, TimingStat};
pub use default::{DefaultValue, Defaults};
pub use environment::{Origin, Row};
pub use error::{SettingError, UnknownSetting};
pub use form::Form;
pub use page::environment_page;
pub use platform::{Platform, Scope};
pub use registry::{Setting, registry};
pub use secret::Secret;
pub use settings::{
    CalibSettings, CopySettings, DepthSettings, HubSettings, LogSettings, ServerSettings, Settings,
};
