//! `bench prompt`: how fast cold prompts are fed, and whether a repeated one is kept.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};

use super::{Cell, CellRun, Part, Rep};
use crate::stop::Stop;
use crate::table::{self, number};
use crate::{BenchError, Client, Reply};

/// Lengths of the prompts before the longest.
const LENGTHS: [usize; 2] = [512, 2000];
/// Tokens of a reply.
const REPLY: usize = 8;
/// Tokens of the request that warms the server up, of a text of its own.
const WARM_UP: usize = 64;

/// What must hold of the server's `cached_tokens`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Require {
    /// Nothing.
    Nothing,
    /// It is told and as expected.
    Told,
}

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether first prompts must be told to be cold.
    pub cold: Require,
    /// Whether repeated prompts must be told to be reused.
    pub reuse: Require,
    /// Longest context, where the server does not state it.
    pub context: Option<usize>,
    /// What every text begins with, so that no server has seen it.
    pub nonce: String,
}

/// What was measured.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// A cell a length: the cold prompt's reply.
    pub cold: Vec<CellRun>,
    /// The same prompts repeated.
    pub repeated: Vec<CellRun>,
    /// What was not measured, and why.
    pub left_out: Vec<String>,
    /// What was required and does not hold.
    pub broken: Vec<String>,
}

/// A text of at least `words` words that begins with `nonce`.
fn text(nonce: &str, words: usize) -> String {
    let mut text = format!("{nonce}: ");
    for number in 0..words.div_ceil(8) {
        text += &format!("Line {number} of the list says what part {number} is for. ");
    }
    text
}

impl Options {
    /// Ids of `count` tokens of a text by the server's own `/tokenize`.
    fn ids(&self, client: &Client, label: &str, count: usize) -> Result<Vec<Value>, BenchError> {
        let text = text(&format!("{} {label}", self.nonce), count);
        // Servers name the text differently.
        let answer = client.post("/tokenize", &json!({"prompt": text, "content": text}))?;
        let mut ids = answer["tokens"].as_array().cloned().unwrap_or_default();
        if ids.len() < count {
            let found = format!("{} tokens", ids.len());
            let expected = "a list of tokens as long as the text's words";
            return Err(BenchError::Answer { what: "POST /tokenize".into(), expected, found });
        }
        ids.truncate(count);
        Ok(ids)
    }

    /// Runs every length on the server of `client`.
    ///
    /// # Errors
    /// A server without `/tokenize` or model; the user's wish to stop.
    pub fn run(&self, client: &Client, stop: &Stop) -> Result<Report, BenchError> {
        let (model, stated) = client.model()?;
        let mut report = Report::default();
        let context = self.context.or(stated);
        let longest = context.map(|context| context.saturating_sub(REPLY));
        let fits = |length: &usize| longest.is_none_or(|longest| *length <= longest);
        let mut lengths: Vec<usize> = LENGTHS.into_iter().filter(fits).collect();
        report.left_out.extend(
            LENGTHS
                .iter()
                .filter(|l| !fits(l))
                .map(|l| format!("a prompt of {l} tokens: the context is shorter")),
        );
        match longest {
            Some(longest) if !lengths.contains(&longest) => lengths.push(longest),
            Some(_) => {}
            None => report.left_out.push("the longest prompt: the server states no context".into()),
        }
        let warm_up = self.ids(client, "warm-up", WARM_UP)?;
        one(client, &model, &warm_up, stop)?.map_err(BenchError::Server)?;
        for length in lengths {
            let ids = self.ids(client, &length.to_string(), length)?;
            let cold = cell(length, one(client, &model, &ids, stop)?);
            let repeated = cell(length, one(client, &model, &ids, stop)?);
            report.check(self, &cold, &repeated);
            report.cold.push(cold);
            report.repeated.push(repeated);
        }
        Ok(report)
    }
}

fn cell(length: usize, reply: Result<Reply, String>) -> CellRun {
    let cell = Cell { part: Part::Prompt, load: length.to_string(), streams: 1, temperature: 0.0 };
    match reply {
        Ok(reply) => CellRun { cell, warm_up: None, reps: vec![Rep { replies: vec![reply] }], failure: None },
        Err(problem) => CellRun { cell, warm_up: None, reps: Vec::new(), failure: Some(problem) },
    }
}

fn one(
    client: &Client,
    model: &str,
    ids: &[Value],
    stop: &Stop,
) -> Result<Result<Reply, String>, BenchError> {
    stop.check()?;
    let body = json!({"model": model, "prompt": ids, "max_tokens": REPLY, "temperature": 0.0, "seed": 1234,
        "stream": true, "stream_options": {"include_usage": true}, "ignore_eos": true});
    let reply = client.stream("/v1/completions", &body, Instant::now()).map_err(|e| e.to_string());
    stop.check()?;
    Ok(reply)
}

fn reply(run: &CellRun) -> Option<&Reply> {
    run.reps.first()?.replies.first()
}

impl Report {
    fn check(&mut self, options: &Options, cold: &CellRun, repeated: &CellRun) {
        let cached = |run: &CellRun| reply(run).and_then(|r| r.cached_tokens);
        let told = |tokens: Option<u64>| tokens.map_or("not told".to_owned(), |n| n.to_string());
        let length = &cold.cell.load;
        let first = cached(cold);
        if options.cold == Require::Told && first != Some(0) {
            self.broken.push(format!("{length} tokens: expected 0 cached at first, found {}", told(first)));
        }
        let second = cached(repeated);
        if options.reuse == Require::Told && second.is_none_or(|n| n == 0) {
            let found = told(second);
            self.broken.push(format!("{length} tokens: expected some cached when repeated, found {found}"));
        }
        let hash = |run: &CellRun| reply(run).and_then(|r| r.token_sha256.clone());
        if let (Some(a), Some(b)) = (hash(cold), hash(repeated))
            && a != b
        {
            self.broken.push(format!("{length} tokens: the repeated prompt's reply has another hash"));
        }
    }

    /// Whether no cell failed and what was required holds.
    pub fn holds(&self) -> bool {
        let ran = |runs: &[CellRun]| runs.iter().all(|run| run.failure.is_none());
        self.broken.is_empty() && ran(&self.cold) && ran(&self.repeated)
    }

    /// Prompts as a table.
    pub fn text(&self) -> String {
        let head = ["prompt", "tok/s", "first token ms", "cached", "repeated: first token ms", "cached", ""];
        let ms = |run: &CellRun| number(reply(run).map(|r| millis(r.time_to_first_token())), 1);
        let cached = |run: &CellRun| {
            reply(run).and_then(|r| r.cached_tokens).map_or("-".to_owned(), |n| n.to_string())
        };
        let rows = self.cold.iter().zip(&self.repeated).map(|(cold, repeated)| {
            let speed = number(cold.speed().map(|s| s.median), 1);
            let remark = table::remark(if cold.failure.is_some() { cold } else { repeated });
            let load = cold.cell.load.clone();
            vec![load, speed, ms(cold), cached(cold), ms(repeated), cached(repeated), remark]
        });
        let mut text = table::markdown(&head, rows);
        self.left_out.iter().for_each(|line| text += &format!("not measured: {line}\n"));
        self.broken.iter().for_each(|line| text += &format!("does not hold: {line}\n"));
        text
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
