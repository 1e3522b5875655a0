//! A stored table as a JSON file.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use tokenfare_lanes::Calibrated;
use tokenfare_pricing::{Candidate, CostTable, NO_ID, Shape, TableError, TableShape};

use super::identity::Identity;

/// The name of this engine in stored tables.
pub const ENGINE: &str = "tokenfare";
/// The form written, and the latest one read.
const FORMAT: u64 = 1;
/// A longer file is no table.
const LONGEST: u64 = 1 << 20;

/// A stored table. Other engines' files may lack what has a default here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredTable {
    /// The form of the file.
    #[serde(default = "first_format")]
    format: u64,
    /// Milliseconds by rows.
    verify: Vec<f64>,
    /// Milliseconds of a drafter pass.
    draft: f64,
    /// Milliseconds of each further stream in a launch.
    #[serde(default)]
    slot: f64,
    /// Who made it.
    #[serde(default)]
    pub engine: String,
    /// Whose it is; `0` for nobody's.
    #[serde(default = "no_id", deserialize_with = "id")]
    pub id: String,
    /// The id without the executable.
    #[serde(default)]
    pub base: String,
    meta: Meta,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Meta {
    shape: ShapeForm,
    /// UTC, as RFC 3339.
    #[serde(default)]
    time: String,
    #[serde(default)]
    method: Value,
    #[serde(default)]
    seconds: f64,
    #[serde(default)]
    prompt_tokens: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct ShapeForm {
    slots: usize,
    world: usize,
    #[serde(deserialize_with = "flag")]
    dspark: bool,
    context: usize,
}

fn first_format() -> u64 {
    FORMAT
}

fn no_id() -> String {
    NO_ID.to_owned()
}

/// A text, or the number 0 that stands for none.
fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(serde::de::Error::custom(format_args!("id: expected text or a number, found {other}"))),
    }
}

/// True and false, or 1 and 0.
fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Bool(on) => Ok(on),
        Value::Number(number) => Ok(number.as_f64() != Some(0.0)),
        other => Err(serde::de::Error::custom(format_args!("dspark: expected true or false, found {other}"))),
    }
}

/// Why a file is no table that can be read.
#[derive(Debug)]
pub enum Unreadable {
    /// The operating system's reason.
    Io(io::Error),
    /// What it is instead.
    Content(String),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(cause) => write!(f, "{cause}"),
            Self::Content(words) => f.write_str(words),
        }
    }
}

impl Unreadable {
    /// Whether there is no such file.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io(cause) if cause.kind() == io::ErrorKind::NotFound)
    }
}

impl StoredTable {
    /// A measured table for `shape`, made now.
    pub fn new(found: &Calibrated, shape: TableShape, identity: &Identity) -> Self {
        let (measured, options) = (&found.measurement, &found.measurement.options);
        let smoothing = match options.shape {
            Shape::Raw => "raw",
            Shape::Fit => "fit",
        };
        let method = json!({
            "reps": options.reps,
            "warm": options.warm,
            "stat": options.statistic.to_string(),
            "recheck": options.recheck,
            "shape": smoothing,
            "cycle": options.cycle,
            "deep": options.deep_reps,
        });
        let TableShape { slots, world, dspark, context } = shape;
        let meta = Meta {
            shape: ShapeForm { slots, world, dspark, context },
            time: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            method,
            seconds: found.tally.whole.as_secs_f64(),
            prompt_tokens: found.tally.text,
        };
        Self {
            format: FORMAT,
            verify: measured.table.verify().to_vec(),
            draft: measured.table.draft_ms(),
            slot: measured.table.slot_ms(),
            engine: ENGINE.to_owned(),
            id: identity.id.clone(),
            base: identity.base.clone(),
            meta,
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// What it is instead of a table of two rows or more, in a form of this version or before.
    pub fn read(path: &Path) -> Result<Self, Unreadable> {
        let wrong = |words: String| Err(Unreadable::Content(words));
        let kind = fs::metadata(path).map_err(Unreadable::Io)?;
        // A pipe would block the open, so the kind is looked at first.
        if !kind.is_file() {
            return wrong(format!(
                "{}, expected a file",
                if kind.is_dir() { "a folder" } else { "no regular file" }
            ));
        }
        if kind.len() > LONGEST {
            return wrong(format!("{} bytes, expected at most {LONGEST}", kind.len()));
        }
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(Unreadable::Io)?;
        file.take(LONGEST).read_to_end(&mut bytes).map_err(Unreadable::Io)?;
        let value: Value = match serde_json::from_slice(&bytes) {
            Ok(value) => value,
            Err(cause) => return wrong(format!("no JSON: {cause}")),
        };
        if let Some(format) = value.get("format")
            && format.as_u64().is_none_or(|format| format > FORMAT)
        {
            return wrong(format!("form {format} of a later version, expected at most {FORMAT}"));
        }
        if !value.is_object() {
            return wrong("no table: expected an object".into());
        }
        match serde_json::from_value::<Self>(value) {
            Ok(table) if table.verify.len() < 2 => wrong(TableError::Rows(table.verify.len()).to_string()),
            Ok(table) => Ok(table),
            Err(cause) => wrong(format!("no table: {cause}")),
        }
    }

    /// The text of the file.
    ///
    /// # Errors
    /// A number that JSON cannot hold.
    pub fn to_json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// The table, checked as a measured one is.
    ///
    /// # Errors
    /// Numbers that make no table.
    pub fn table(&self) -> Result<CostTable, TableError> {
        CostTable::new(&self.verify, self.draft, self.slot)
    }

    /// What it was measured for.
    pub fn shape(&self) -> TableShape {
        let ShapeForm { slots, world, dspark, context } = self.meta.shape;
        TableShape { slots, world, dspark, context }
    }

    /// What the choice among stored tables looks at. A time that cannot be read counts as the earliest.
    pub fn candidate(&self) -> Candidate<'_> {
        let made = humantime::parse_rfc3339_weak(&self.meta.time).ok();
        let made = made.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        let made = made.map_or(0, |since| since.as_micros() as u64);
        Candidate { shape: self.shape(), id: &self.id, rows: self.verify.len(), made }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<StoredTable, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        StoredTable::read(file.path()).map_err(|e| e.to_string())
    }

    const SHAPE: &str = r#"{"slots": 2, "world": 1, "dspark": 1, "context": 64}"#;

    #[test]
    fn files_of_other_engines_may_say_less() {
        let text = format!(
            r#"{{"verify": [2.0, 3.5], "draft": 0.5, "id": 0, "meta": {{"shape": {SHAPE}}}, "more": []}}"#
        );
        let table = read(&text).unwrap();
        assert_eq!((table.engine.as_str(), table.id.as_str(), table.base.as_str()), ("", "0", ""));
        assert_eq!(table.shape(), TableShape { slots: 2, world: 1, dspark: true, context: 64 });
        assert_eq!(table.table(), CostTable::new(&[2.0, 3.5], 0.5, 0.0));
        assert_eq!((table.candidate().made, table.candidate().rows), (0, 2));
    }

    #[test]
    fn what_is_no_table_is_told() {
        let cases = [
            ("", "no JSON: EOF while parsing a value at line 1 column 0".to_owned()),
            ("{\"verify\": [1.0,", "no JSON: EOF while parsing a value at line 1 column 16".to_owned()),
            ("[]", "no table: expected an object".to_owned()),
            ("{\"format\": 2}", "form 2 of a later version, expected at most 1".to_owned()),
            ("{\"format\": \"x\"}", "form \"x\" of a later version, expected at most 1".to_owned()),
            ("{\"draft\": 1}", "no table: missing field `verify`".to_owned()),
        ];
        for (text, words) in cases {
            assert_eq!(read(text).unwrap_err(), words);
        }
        let one = format!(r#"{{"verify": [2.0], "draft": 0.5, "meta": {{"shape": {SHAPE}}}}}"#);
        assert_eq!(read(&one).unwrap_err(), "a table of 1 rows, expected at least 2");
        assert!(read(&" ".repeat(LONGEST as usize + 1)).unwrap_err().ends_with("expected at most 1048576"));
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(StoredTable::read(folder.path()).unwrap_err().to_string(), "a folder, expected a file");
        assert!(StoredTable::read(&folder.path().join("none")).unwrap_err().is_missing());
    }
}
