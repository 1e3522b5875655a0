//! Typed access to the fields of a JSON object, with errors that name the field.

use serde_json::{Map, Value};

/// The largest accepted single size: far above any real one, so that products of two fit 64 bits.
const LARGEST: usize = 1 << 24;

/// Why a `config.json` is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The text is not JSON.
    #[error("expected a JSON object, found {0}")]
    Json(String),
    /// The checkpoint is of another architecture.
    #[error("architectures: expected {expected}, found {found}")]
    Architecture {
        /// The accepted name.
        expected: &'static str,
        /// The names in the file.
        found: String,
    },
    /// A field is missing, has another type or a value that cannot be served.
    #[error("{field}: expected {expected}, found {found}")]
    Field {
        /// The field with its section, such as `text_config.hidden_size`.
        field: String,
        /// What is accepted.
        expected: String,
        /// What the file holds.
        found: String,
    },
}

pub(super) type Result<T> = std::result::Result<T, ConfigError>;

/// One object of the file.
#[derive(Clone, Copy)]
pub(super) struct Section<'a> {
    name: &'a str,
    map: &'a Map<String, Value>,
}

impl<'a> Section<'a> {
    pub(super) fn root(value: &'a Value) -> Result<Self> {
        match value {
            Value::Object(map) => Ok(Self { name: "", map }),
            other => Err(ConfigError::Json(shown(other))),
        }
    }

    /// The object at `key`; `name` is the path that errors show.
    pub(super) fn section(&self, key: &str, name: &'a str) -> Result<Section<'a>> {
        match self.map.get(key) {
            Some(Value::Object(map)) => Ok(Section { name, map }),
            other => Err(self.wrong(key, "an object", found(other))),
        }
    }

    /// The object at `key`, unless it is absent or null.
    pub(super) fn optional(&self, key: &str, name: &'a str) -> Result<Option<Section<'a>>> {
        match self.map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(_) => self.section(key, name).map(Some),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key)
    }

    pub(super) fn wrong(&self, key: &str, expected: impl Into<String>, found: String) -> ConfigError {
        let field = if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) };
        ConfigError::Field { field, expected: expected.into(), found }
    }

    /// A failed check on the value that the file holds at `key`.
    pub(super) fn refuse(&self, key: &str, expected: impl Into<String>) -> ConfigError {
        self.wrong(key, expected, found(self.map.get(key)))
    }

    /// A whole number in `least..=most`.
    pub(super) fn integer(&self, key: &str, least: u64, most: u64) -> Result<u64> {
        let value = self.map.get(key).and_then(Value::as_u64);
        value
            .filter(|v| (least..=most).contains(v))
            .ok_or_else(|| self.refuse(key, format!("a whole number from {least} to {most}")))
    }

    /// A size from 1 to [`LARGEST`].
    pub(super) fn size(&self, key: &str) -> Result<usize> {
        self.integer(key, 1, LARGEST as u64).map(|v| v as usize)
    }

    /// A size that is a multiple of `unit`.
    pub(super) fn multiple(&self, key: &str, unit: usize) -> Result<usize> {
        let size = self.size(key)?;
        if size % unit == 0 { Ok(size) } else { Err(self.refuse(key, format!("a multiple of {unit}"))) }
    }

    /// A token id below `vocab`.
    pub(super) fn token(&self, key: &str, vocab: usize) -> Result<u32> {
        let value = self.map.get(key).and_then(Value::as_u64);
        value
            .filter(|v| *v < vocab as u64)
            .map(|v| v as u32)
            .ok_or_else(|| self.refuse(key, format!("a token id below vocab_size {vocab}")))
    }

    /// A list of whole numbers.
    pub(super) fn list(&self, key: &str) -> Result<Vec<u64>> {
        let refuse = || self.refuse(key, "a list of whole numbers");
        let list = self.map.get(key).and_then(Value::as_array).ok_or_else(refuse)?;
        list.iter().map(|v| v.as_u64().ok_or_else(refuse)).collect()
    }

    /// Layer numbers, ascending and below `layers`.
    pub(super) fn layer_ids(&self, key: &str, layers: usize) -> Result<Vec<usize>> {
        let list = self.list(key)?;
        if list.is_sorted_by(|a, b| a < b) && list.iter().all(|l| *l < layers as u64) {
            Ok(list.into_iter().map(|l| l as usize).collect())
        } else {
            Err(self.refuse(key, format!("ascending layer numbers below num_hidden_layers {layers}")))
        }
    }

    /// A finite number above 0 in f32.
    pub(super) fn positive(&self, key: &str) -> Result<f32> {
        let value = self.non_negative(key)?;
        if value > 0.0 { Ok(value) } else { Err(self.refuse(key, "a number above 0")) }
    }

    /// A finite number of at least 0 in f32.
    pub(super) fn non_negative(&self, key: &str) -> Result<f32> {
        let value = self.map.get(key).and_then(Value::as_f64).map(|v| v as f32);
        value
            .filter(|v| v.is_finite() && *v >= 0.0)
            .ok_or_else(|| self.refuse(key, "a finite number, 0 or above"))
    }

    pub(super) fn flag(&self, key: &str) -> Result<bool> {
        self.map.get(key).and_then(Value::as_bool).ok_or_else(|| self.refuse(key, "true or false"))
    }

    /// A field with a single accepted value.
    pub(super) fn only(&self, key: &str, accepted: Value) -> Result<()> {
        match self.map.get(key) {
            Some(value) if *value == accepted => Ok(()),
            _ => Err(self.refuse(key, shown(&accepted))),
        }
    }
}

fn found(value: Option<&Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), shown)
}

/// A value as an error shows it, cut to a readable length.
pub(super) fn shown(value: &Value) -> String {
    const MOST: usize = 80;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}
