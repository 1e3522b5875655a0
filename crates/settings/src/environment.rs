//! From pairs of names and texts to checked values, one a setting.

use crate::registry::name;
use crate::secret::{HIDDEN, Secret};
use crate::{
    DefaultValue, DepthRule, Form, Platform, Setting, SettingError, TableShape, UnknownSetting, registry,
};
use std::collections::BTreeMap;

const FAMILY: &str = "TF_DSV41_";

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The environment.
    Environment,
    /// The default of the platform.
    Default,
}

/// A setting with its value in force: a row of `tokenfare settings`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The setting.
    pub setting: &'static Setting,
    /// The value in force, as it is kept; `None` when there is none.
    pub value: Option<String>,
    /// Where it comes from.
    pub origin: Origin,
    /// The default on this device; `None` when there is none.
    pub default: Option<String>,
}

/// Checked values of every setting on one platform, in the registry's order.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    pub(crate) rows: Vec<Row>,
    secrets: BTreeMap<&'static str, Secret>,
    pub(crate) unknown: Vec<UnknownSetting>,
}

impl Environment {
    pub(crate) fn read(platform: Platform, given: BTreeMap<String, String>) -> Result<Self, SettingError> {
        let text = |name: &str| given.get(name).map(|t| t.trim()).filter(|t| !t.is_empty());
        let mut kept = BTreeMap::new();
        let mut secrets = BTreeMap::new();
        for setting in registry() {
            if let Some(text) = text(setting.name) {
                let value = setting.form.canonical(text).ok_or_else(|| SettingError::Malformed {
                    name: setting.name,
                    text: if setting.form == Form::Secret { HIDDEN.into() } else { shown(text) },
                    expected: setting.expected(platform),
                })?;
                if setting.form == Form::Secret {
                    secrets.insert(setting.name, Secret::new(value));
                    kept.insert(setting.name, HIDDEN.into());
                } else {
                    kept.insert(setting.name, value);
                }
            }
        }
        let word = |name| kept.get(name).map(String::as_str);
        let shape = word(name::CALIB_SHAPE).and_then(TableShape::from_word).unwrap_or(TableShape::Raw);
        let rule = word(name::DEPTH).and_then(DepthRule::from_word).unwrap_or(DepthRule::Cost);
        let cache = cache_folder(text("XDG_CACHE_HOME"), text("HOME"));
        let mut rows = Vec::with_capacity(registry().len());
        for setting in registry() {
            let default = match setting.default.on(platform) {
                DefaultValue::CacheFolder(place) => cache.as_ref().map(|folder| format!("{folder}/{place}")),
                other => other.resolve(shape, rule).map(String::from),
            };
            let given_value = kept.get(setting.name).cloned();
            let origin = if given_value.is_some() { Origin::Environment } else { Origin::Default };
            rows.push(Row { setting, value: given_value.or_else(|| default.clone()), origin, default });
        }
        Ok(Self { rows, secrets, unknown: unknown(given.keys()) })
    }

    pub(crate) fn secret(&self, name: &str) -> Option<Secret> {
        self.secrets.get(name).cloned()
    }

    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.rows.iter().find(|row| row.setting.name == name).and_then(|row| row.value.as_deref())
    }
}

/// The user's cache folder by the XDG rule: a relative XDG_CACHE_HOME does not count.
fn cache_folder(xdg: Option<&str>, home: Option<&str>) -> Option<String> {
    let absolute =
        xdg.filter(|path| path.starts_with('/')).map(|path| path.trim_end_matches('/').to_string());
    absolute.or_else(|| home.map(|path| format!("{}/.cache", path.trim_end_matches('/'))))
}

/// A value on one line.
fn shown(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

fn unknown<'a>(names: impl Iterator<Item = &'a String>) -> Vec<UnknownSetting> {
    let known = |name: &str| registry().iter().any(|s| s.name == name);
    names
        .filter(|name| name.starts_with(FAMILY) && !known(name))
        .filter_map(|name| {
            let distance = |s: &&Setting| strsim::damerau_levenshtein(name, s.name);
            let nearest = registry().iter().min_by_key(distance)?.name;
            Some(UnknownSetting { name: name.clone(), nearest })
        })
        .collect()
}
