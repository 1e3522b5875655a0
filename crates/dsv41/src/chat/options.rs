//! How a conversation is encoded.

use std::fmt;
use std::str::FromStr;

/// How thorough the reasoning shall be, in 1..=100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Effort(u8);

impl Effort {
    /// `low`: 50.
    pub const LOW: Effort = Effort(50);
    /// `high`: 75, the default.
    pub const HIGH: Effort = Effort(75);
    /// `max`: 100.
    pub const MAX: Effort = Effort(100);

    /// The effort of this value, if it is in 1..=100.
    pub fn new(value: u64) -> Option<Self> {
        u8::try_from(value).ok().filter(|value| (1..=100).contains(value)).map(Self)
    }

    /// The value that the model is told.
    pub fn value(self) -> u8 {
        self.0
    }
}

impl Default for Effort {
    fn default() -> Self {
        Self::HIGH
    }
}

/// A word or number that is no effort.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected low, high, max or a whole number from 1 to 100, found {0:?}")]
pub struct EffortError(String);

impl FromStr for Effort {
    type Err = EffortError;

    fn from_str(text: &str) -> Result<Self, EffortError> {
        match text {
            "low" => Ok(Self::LOW),
            "high" => Ok(Self::HIGH),
            "max" => Ok(Self::MAX),
            other => other.parse().ok().and_then(Self::new).ok_or_else(|| EffortError(other.to_owned())),
        }
    }
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether the model reasons before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thinking {
    /// It answers at once.
    Off,
    /// It reasons with this effort.
    On(Effort),
}

/// What becomes of the reasoning of earlier turns. Only thinking conversations show any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PastReasoning {
    /// Only the reasoning after the last user turn is shown. A conversation with tools keeps all nevertheless.
    #[default]
    Drop,
    /// All reasoning is shown.
    Keep,
}

/// How a conversation is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChatOptions {
    /// Whether the model reasons.
    pub thinking: Thinking,
    /// What becomes of earlier reasoning.
    pub past_reasoning: PastReasoning,
}

impl Default for ChatOptions {
    fn default() -> Self {
        Self { thinking: Thinking::On(Effort::HIGH), past_reasoning: PastReasoning::Drop }
    }
}
