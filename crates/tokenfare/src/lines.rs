//! What a start says on standard error, for people or for programs.

use std::time::SystemTime;

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use crate::notice::notice;

/// How lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// It tells.
    Info,
    /// Something is not as it was asked for.
    Warning,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The command.
    Command,
    /// The model family.
    Family,
    /// The server, which speaks under its own name.
    Server,
}

/// One line, with the facts in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    level: Level,
    speaker: Speaker,
    text: String,
    fields: Map<String, Value>,
}

impl Line {
    /// A line of the command: `info: dsv41 <text>`.
    pub fn command(text: &str) -> Self {
        Self::new(Level::Info, Speaker::Command, format!("dsv41 {text}"))
    }

    /// A line of the model family: `info(dsv41): dsv41 <text>`.
    pub fn family(text: &str) -> Self {
        Self::new(Level::Info, Speaker::Family, format!("dsv41 {text}"))
    }

    /// A warning of the model family: `warning(dsv41): dsv41 <text>`.
    pub fn warning(text: &str) -> Self {
        Self::new(Level::Warning, Speaker::Family, format!("dsv41 {text}"))
    }

    /// A line of the server: `[tokenfare] <text>`.
    pub fn server(text: String) -> Self {
        Self::new(Level::Info, Speaker::Server, text)
    }

    fn new(level: Level, speaker: Speaker, text: String) -> Self {
        Self { level, speaker, text, fields: Map::new() }
    }

    /// Adds the facts of the text, an object.
    pub fn with(mut self, facts: Value) -> Self {
        if let Value::Object(facts) = facts {
            self.fields.extend(facts);
        }
        self
    }

    /// The line as it is written.
    pub fn render(&self, format: LogFormat) -> String {
        match format {
            LogFormat::Text => {
                let level = match self.level {
                    Level::Info => "info",
                    Level::Warning => "warning",
                };
                match self.speaker {
                    Speaker::Command => format!("{level}: {}", self.text),
                    Speaker::Family => format!("{level}(dsv41): {}", self.text),
                    Speaker::Server => format!("[tokenfare] {}", self.text),
                }
            }
            LogFormat::Json => {
                let level = match self.level {
                    Level::Info => "INFO",
                    Level::Warning => "WARN",
                };
                let mut fields = Map::from_iter([("message".to_owned(), json!(self.text))]);
                fields.extend(self.fields.clone());
                let timestamp = humantime::format_rfc3339_micros(SystemTime::now()).to_string();
                json!({"timestamp": timestamp, "level": level, "fields": fields}).to_string()
            }
        }
    }

    /// Writes the line to standard error.
    pub fn print(&self, format: LogFormat) {
        notice!("{}", self.render(format));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_who_speaks() {
        let text = |line: Line| line.render(LogFormat::Text);
        assert_eq!(text(Line::command("depth: x")), "info: dsv41 depth: x");
        assert_eq!(text(Line::family("calibration y")), "info(dsv41): dsv41 calibration y");
        assert_eq!(text(Line::warning("stored z")), "warning(dsv41): dsv41 stored z");
        assert_eq!(text(Line::server("serving".to_owned())), "[tokenfare] serving");
    }

    #[test]
    fn the_same_facts_are_fields() {
        let line = Line::warning("a").with(json!({"draft_ms": 4.5, "rows": [1, 2]}));
        let found: Value = serde_json::from_str(&line.render(LogFormat::Json)).unwrap();
        assert_eq!(found["level"], "WARN");
        assert_eq!(found["fields"], json!({"message": "dsv41 a", "draft_ms": 4.5, "rows": [1, 2]}));
        assert!(humantime::parse_rfc3339(found["timestamp"].as_str().unwrap()).is_ok());
    }
}
