//! Replies made together against the same replies made otherwise.

use serde::{Deserialize, Serialize};

use super::{CellPlan, CellRun, streams};
use crate::load::{Ask, Load, Verify};
use crate::stop::Stop;
use crate::{BenchError, Client};

/// How a reply is made for comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reference {
    /// Alone.
    Alone,
    /// Alone and one token a round.
    Serial,
}

/// How many replies have the tokens of their reference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exactness {
    /// Same hash.
    pub equal: usize,
    /// Other hash.
    pub unequal: usize,
    /// No reply or no hash, so nothing is shown.
    pub failed: usize,
}

impl Exactness {
    /// Counts one pair of hashes; a missing one is never equal to anything.
    pub fn count(&mut self, reference: Option<&str>, found: Option<&str>) {
        match (reference, found) {
            (Some(a), Some(b)) if a == b => self.equal += 1,
            (Some(_), Some(_)) => self.unequal += 1,
            _ => self.failed += 1,
        }
    }

    /// Adds other counts.
    pub fn add(&mut self, other: Self) {
        self.equal += other.equal;
        self.unequal += other.unequal;
        self.failed += other.failed;
    }

    /// Whether something was compared, and everything was equal.
    pub fn holds(&self) -> bool {
        self.equal > 0 && self.unequal == 0 && self.failed == 0
    }
}

impl std::fmt::Display for Exactness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} equal, {} unequal, {} failed", self.equal, self.unequal, self.failed)
    }
}

impl CellPlan {
    /// Makes each stream's reply once more by `reference`, and compares it with every repetition of `run`.
    ///
    /// # Errors
    /// The user's wish to stop.
    pub fn compare(
        &self,
        run: &CellRun,
        reference: Reference,
        server: (&Client, &str),
        load: &Load,
        stop: &Stop,
    ) -> Result<Exactness, BenchError> {
        let verify = match reference {
            Reference::Alone => Verify::Any,
            Reference::Serial => Verify::Serial,
        };
        let mut counts = Exactness::default();
        for stream in 0..self.streams {
            stop.check()?;
            let request = Ask { verify, ..self.ask(stream) }.request(load, server.1);
            let reply = streams::together(server.0, &[request], self.stagger).pop();
            let hash = reply.and_then(Result::ok).and_then(|r| r.token_sha256);
            for rep in run.hashes() {
                counts.count(hash.as_deref(), rep.get(stream).copied().flatten());
            }
        }
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_hash_is_never_a_pass() {
        let mut counts = Exactness::default();
        assert!(!counts.holds());
        counts.count(Some("a"), Some("a"));
        assert!(counts.holds());
        for pair in [(None, None), (Some("a"), None), (None, Some("a"))] {
            counts.count(pair.0, pair.1);
        }
        assert_eq!(counts, Exactness { equal: 1, unequal: 0, failed: 3 });
        assert!(!counts.holds());
        counts.count(Some("a"), Some("b"));
        assert_eq!(counts.to_string(), "1 equal, 1 unequal, 3 failed");
    }
}
