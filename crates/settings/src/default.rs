//! Values of settings that nobody set.

use crate::{DepthRule, Platform, TableShape};

/// What holds when a setting is unset or blank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultValue {
    /// This value.
    Is(&'static str),
    /// By `TF_DSV41_CALIB_SHAPE`.
    ByShape {
        /// For raw.
        raw: &'static str,
        /// For fit.
        fit: &'static str,
    },
    /// By `TF_DSV41_DEPTH`.
    ByRule {
        /// For cost.
        cost: &'static str,
        /// For static.
        fixed: &'static str,
    },
    /// A place below the user's cache folder.
    CacheFolder(&'static str),
    /// No value.
    Unset,
}

impl DefaultValue {
    /// The value for a shape and a rule; `None` where there is none or it depends on the user's folders.
    pub fn resolve(self, shape: TableShape, rule: DepthRule) -> Option<&'static str> {
        match self {
            Self::Is(value) => Some(value),
            Self::ByShape { raw, fit } => Some(if shape == TableShape::Raw { raw } else { fit }),
            Self::ByRule { cost, fixed } => Some(if rule == DepthRule::Cost { cost } else { fixed }),
            Self::CacheFolder(_) | Self::Unset => None,
        }
    }

    /// The value in words.
    pub fn describe(self) -> String {
        match self {
            Self::Is(value) => value.into(),
            Self::ByShape { raw, fit } => format!("{raw} for raw, {fit} for fit"),
            Self::ByRule { cost, fixed } => format!("{cost} for cost, {fixed} for static"),
            Self::CacheFolder(place) => format!("$XDG_CACHE_HOME/{place}"),
            Self::Unset => "none".into(),
        }
    }
}

/// The default of a setting on every platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defaults {
    /// On platforms that are not named below.
    pub usual: DefaultValue,
    /// Platforms that differ.
    pub except: &'static [(Platform, DefaultValue)],
}

impl Defaults {
    /// The default on `platform`.
    pub fn on(self, platform: Platform) -> DefaultValue {
        self.except.iter().find(|e| e.0 == platform).map_or(self.usual, |e| e.1)
    }

    /// The default on `platform` in words, naming it where platforms differ.
    pub fn describe(self, platform: Platform) -> String {
        let value = self.on(platform).describe();
        if self.except.is_empty() { value } else { format!("{value} on {platform}") }
    }
}
