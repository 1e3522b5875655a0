//! One cell of a measurement: a load at a number of streams and a temperature.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::streams;
use crate::client::{Client, Counters, Reply};
use crate::load::{Ask, Length, Load, Seed, Verify};
use crate::stats::Spread;
use crate::stop::Stop;
use crate::{BenchError, verdict};

/// Tokens of the request that warms a cell up.
const WARM_UP: usize = 16;

/// Which measurement a cell belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Several streams of fixed length.
    Concurrent,
    /// Plain OpenAI requests.
    Openai,
    /// As concurrent, by servers without drafts.
    NoDrafts,
    /// Cold prompts.
    Prompt,
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Concurrent => "concurrent",
            Self::Openai => "openai",
            Self::NoDrafts => "no drafts",
            Self::Prompt => "prompt",
        })
    }
}

/// A cell's name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The measurement.
    pub part: Part,
    /// The load, or the length of the prompt.
    pub load: String,
    /// Streams at once.
    pub streams: usize,
    /// Temperature; 0 is greedy.
    pub temperature: f64,
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} x{} T{}", self.part, self.load, self.streams, self.temperature)
    }
}

/// One repetition: the replies of all streams.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rep {
    /// One reply a stream.
    pub replies: Vec<Reply>,
}

impl Rep {
    /// Tokens a second of all streams: the sum of `tokens - 1` over the time from the first piece of any to the end of all.
    pub fn aggregate(&self) -> Option<f64> {
        let first = self.replies.iter().map(|r| r.first).min()?;
        let last = self.replies.iter().map(|r| r.last).max()?;
        let tokens: u64 = self.replies.iter().map(|r| r.tokens.saturating_sub(1)).sum();
        let seconds = last.saturating_sub(first).as_secs_f64();
        (seconds > 0.0 && tokens > 0).then(|| tokens as f64 / seconds)
    }
}

/// What one run of a cell came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellRun {
    /// The cell.
    pub cell: Cell,
    /// The reply that warmed it up; only its hash counts.
    pub warm_up: Option<Reply>,
    /// Repetitions that were made.
    pub reps: Vec<Rep>,
    /// Why it ended early.
    pub failure: Option<String>,
}

impl CellRun {
    fn replies(&self) -> impl Iterator<Item = &Reply> {
        self.reps.iter().flat_map(|rep| &rep.replies)
    }

    /// Fewest text pieces of a reply.
    pub fn pieces(&self) -> usize {
        self.replies().map(|r| r.pieces).min().unwrap_or(0)
    }

    /// Tokens a second over the repetitions: of the prompt in prompt cells, else of all streams.
    pub fn speed(&self) -> Option<Spread> {
        match self.cell.part {
            Part::Prompt => Spread::of(self.replies().filter_map(prefill_speed)),
            _ => Spread::of(self.reps.iter().filter_map(Rep::aggregate)),
        }
    }

    /// Tokens a second of single streams.
    pub fn stream_speed(&self) -> Option<Spread> {
        Spread::of(self.replies().filter_map(Reply::speed))
    }

    /// Milliseconds to the first piece.
    pub fn first_token_ms(&self) -> Option<Spread> {
        Spread::of(self.replies().map(|r| r.time_to_first_token().as_secs_f64() * 1e3))
    }

    /// Milliseconds of a round, as the server tells them.
    pub fn ms_per_round(&self) -> Option<Spread> {
        Spread::of(self.replies().filter_map(|r| r.counters).map(|c| c.ms_per_round))
    }

    /// Rounds, drafts verified and drafts kept of all replies, if the server tells of every one.
    pub fn drafts(&self) -> Option<[u64; 3]> {
        let counted: Option<Vec<Counters>> = self.replies().map(|r| r.counters).collect();
        let counted = counted.filter(|list| !list.is_empty())?;
        let sum = |field: fn(&Counters) -> u64| counted.iter().map(field).sum();
        Some([sum(|c| c.rounds), sum(|c| c.drafted), sum(|c| c.accepted)])
    }

    /// Hashes by stream, repetition by repetition.
    pub fn hashes<'a>(&'a self) -> Vec<Vec<Option<&'a str>>> {
        let of = |rep: &'a Rep| rep.replies.iter().map(|r| r.token_sha256.as_deref()).collect();
        self.reps.iter().map(of).collect()
    }

    /// What the verdict looks at.
    pub fn measured(&self) -> verdict::Measured {
        let speed = self.speed().map(|s| s.median);
        match &self.failure {
            Some(_) => verdict::Measured::Failed,
            None if self.cell.part != Part::Prompt && self.pieces() < verdict::FEWEST_PIECES => {
                verdict::Measured::TooShort
            }
            None => speed.map_or(verdict::Measured::TooShort, verdict::Measured::Speed),
        }
    }
}

/// Tokens of the prompt that were fed a second.
fn prefill_speed(reply: &Reply) -> Option<f64> {
    let fed = reply.prompt_tokens? - reply.cached_tokens.unwrap_or(0).min(reply.prompt_tokens?);
    let seconds = reply.time_to_first_token().as_secs_f64();
    (seconds > 0.0 && fed > 0).then(|| fed as f64 / seconds)
}

/// How a cell is run.
#[derive(Debug, Clone)]
pub struct CellPlan {
    /// The measurement that it belongs to.
    pub part: Part,
    /// Streams at once.
    pub streams: usize,
    /// Tokens of a reply.
    pub tokens: usize,
    /// Repetitions.
    pub reps: usize,
    /// Temperature.
    pub temperature: f64,
    /// Seeds of the requests.
    pub seeds: Seeds,
    /// Where replies end.
    pub length: Length,
    /// Time between the starts of two streams.
    pub stagger: Duration,
}

/// Whether requests name seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seeds {
    /// Each stream its own.
    ByStream,
    /// None does.
    Unset,
}

impl CellPlan {
    /// What stream `stream` asks for.
    pub(crate) fn ask(&self, stream: usize) -> Ask {
        let seed = match self.seeds {
            Seeds::ByStream => Seed::OfStream(stream),
            Seeds::Unset => Seed::Unset,
        };
        let Self { tokens, temperature, length, .. } = *self;
        Ask { tokens, temperature, seed, length, verify: Verify::Any }
    }

    /// Runs the cell: one request to warm up, then the repetitions. A request that fails ends it, with the reason.
    ///
    /// # Errors
    /// The user's wish to stop.
    pub fn run(&self, client: &Client, model: &str, load: &Load, stop: &Stop) -> Result<CellRun, BenchError> {
        let cell = Cell {
            part: self.part,
            load: load.name.clone(),
            streams: self.streams,
            temperature: self.temperature,
        };
        let mut run = CellRun { cell, warm_up: None, reps: Vec::new(), failure: None };
        let warm_up = Ask { tokens: WARM_UP, ..self.ask(0) }.request(load, model);
        let requests: Vec<_> = (0..self.streams).map(|i| self.ask(i).request(load, model)).collect();
        let rounds = std::iter::once(vec![warm_up]).chain(std::iter::repeat_n(requests, self.reps));
        for (number, requests) in rounds.enumerate() {
            stop.check()?;
            let replies = streams::together(client, &requests, self.stagger);
            let replies: Result<Vec<Reply>, _> = replies.into_iter().collect();
            match replies {
                Ok(mut replies) if number == 0 => run.warm_up = replies.pop(),
                Ok(replies) => run.reps.push(Rep { replies }),
                Err(error) => {
                    stop.check()?;
                    run.failure = Some(error.to_string());
                    break;
                }
            }
        }
        Ok(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Counted;

    fn reply(first: u64, last: u64, tokens: u64) -> Reply {
        Reply {
            sent: Duration::ZERO,
            first: Duration::from_millis(first),
            last: Duration::from_millis(last),
            pieces: 9,
            tokens,
            counted: Counted::Usage,
            prompt_tokens: Some(100),
            cached_tokens: Some(20),
            token_sha256: Some("a".into()),
            finish_reason: None,
            counters: None,
        }
    }

    fn run(part: Part, reps: Vec<Rep>) -> CellRun {
        let cell = Cell { part, load: "code".into(), streams: 2, temperature: 0.0 };
        CellRun { cell, warm_up: None, reps, failure: None }
    }

    #[test]
    fn streams_are_summed_over_the_time_that_all_took() {
        let rep = Rep { replies: vec![reply(100, 600, 11), reply(200, 1100, 11)] };
        assert_eq!(rep.aggregate(), Some(20.0));
        let run = run(Part::Concurrent, vec![rep.clone(), Rep { replies: vec![reply(0, 500, 11)] }, rep]);
        assert_eq!(run.speed().map(|s| (s.median, s.min, s.max)), Some((20.0, 20.0, 20.0)));
        assert_eq!(run.measured(), verdict::Measured::Speed(20.0));
        assert_eq!(run.hashes(), [vec![Some("a"), Some("a")], vec![Some("a")], vec![Some("a"), Some("a")]]);
    }

    #[test]
    fn short_and_failed_cells_are_unmeasured() {
        let mut short = reply(0, 500, 11);
        short.pieces = 3;
        let mut run = run(Part::Openai, vec![Rep { replies: vec![short] }]);
        assert_eq!(run.measured(), verdict::Measured::TooShort);
        run.failure = Some("x".into());
        assert_eq!(run.measured(), verdict::Measured::Failed);
    }

    #[test]
    fn a_prompt_cell_counts_the_tokens_that_were_fed() {
        let run = run(Part::Prompt, vec![Rep { replies: vec![reply(400, 500, 1)] }]);
        assert_eq!(run.measured(), verdict::Measured::Speed(200.0));
    }
}
