//! What the drafter proposes at every position of every reply.

use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use tokenfare_cpu::Cpu;
use tokenfare_dsv41::model::Model;
use tokenfare_lanes::{
    Ask, DepthOracle, Drafter, Drafts, Ingest, Lanes, LanesConfig, Logits, Proposal, SavedState, Segment,
    Target, TargetError, TargetInfo, Want,
};
use tokenfare_pricing::confidence;

use crate::options::Options;
use crate::{DRAWINGS, request, support};

/// The loads, with the kinds of prompt that belong to each.
const LOADS: [(&str, &[&str]); 2] = [("code", &["code", "code-raw"]), ("chat", &["chat"])];

/// A load and a way of drawing.
#[derive(Serialize, Deserialize)]
pub struct Cell {
    pub load: String,
    pub drawing: String,
    pub replies: Vec<Reply>,
}

/// One reply without any verified draft.
#[derive(Serialize, Deserialize)]
pub struct Reply {
    pub prompt: Vec<u32>,
    pub tokens: Vec<u32>,
    /// Entry `i`: the drafts for the positions after token `i`.
    pub drafts: Vec<Held>,
}

/// Drafts of one pass.
#[derive(Serialize, Deserialize)]
pub struct Held {
    pub tokens: Vec<u32>,
    /// As probabilities.
    pub confidence: Vec<f64>,
}

/// Passes everything on, and writes down proposals.
struct Recorder {
    model: Model<Cpu>,
    seen: Arc<Mutex<Vec<Held>>>,
}

impl Target for Recorder {
    fn info(&self) -> &TargetInfo {
        self.model.info()
    }
    fn prefill(
        &mut self,
        slot: usize,
        start: usize,
        tokens: &[u32],
        want: Want,
        logits: &mut Logits,
    ) -> Result<(), TargetError> {
        self.model.prefill(slot, start, tokens, want, logits)
    }
    fn window(&mut self, segments: &[Segment<'_>], logits: &mut Logits) -> Result<(), TargetError> {
        self.model.window(segments, logits)
    }
    fn keep(&mut self, slot: usize, len: usize) {
        self.model.keep(slot, len);
    }
    fn release(&mut self, slot: usize) {
        self.model.release(slot);
    }
    fn save(&mut self, slot: usize, len: usize) -> Result<SavedState, TargetError> {
        self.model.save(slot, len)
    }
    fn restore(&mut self, slot: usize, state: &SavedState) -> Result<(), TargetError> {
        self.model.restore(slot, state)
    }
    fn state_hash(&mut self, slot: usize) -> Result<u64, TargetError> {
        self.model.state_hash(slot)
    }
    fn enter(&mut self) {
        self.model.enter();
    }
    fn leave(&mut self) {
        self.model.leave();
    }
    fn prepare(&mut self, rows: usize) -> Result<(), TargetError> {
        self.model.prepare(rows)
    }
    fn drop_window(&mut self, slot: usize, len: usize) {
        self.model.drop_window(slot, len);
    }
    fn wipe(&mut self, slot: usize) {
        self.model.wipe(slot);
    }
}

impl Drafter for Recorder {
    fn ingest(&mut self, items: &[Ingest]) -> Result<(), TargetError> {
        self.model.ingest(items)
    }
    fn propose(&mut self, asks: &[Ask<'_>]) -> Result<Vec<Proposal>, TargetError> {
        let proposals = self.model.propose(asks)?;
        let mut seen = self.seen.lock().expect("nothing panics while it is held");
        seen.extend(proposals.iter().map(|p| Held {
            tokens: p.tokens.clone(),
            confidence: p.confidence.iter().map(|&logit| confidence(logit)).collect(),
        }));
        Ok(proposals)
    }
    fn reset(&mut self, slot: usize) {
        self.model.reset(slot);
    }
}

/// Verifies nothing, so that a pass runs at every position.
struct NoDepth;

impl DepthOracle for NoDepth {
    fn depth(&mut self, _round: u64, _slot: usize, _most: usize) -> Option<usize> {
        Some(0)
    }
}

fn record(options: &Options) -> Vec<Cell> {
    let seen: Arc<Mutex<Vec<Held>>> = Arc::default();
    let model = Recorder { model: support::model(Drafts::On, options.threads), seen: seen.clone() };
    let config = LanesConfig {
        oracle: Some(Box::new(NoDepth)),
        lookup_min: usize::MAX,
        prompt_cache_bytes: 0,
        ..LanesConfig::default()
    };
    let lanes = Lanes::start(model, config).expect("a thread");
    let mut cells = Vec::new();
    for (load, kinds) in LOADS {
        for (drawing, _) in DRAWINGS {
            let prompts = ["golden.json", "heldout.json"].into_iter().flat_map(support::prompts);
            let prompts = prompts.filter(|p| kinds.contains(&p.domain.as_str())).map(|p| p.prompt_ids);
            let empty = |prompt| Reply { prompt, tokens: Vec::new(), drafts: Vec::new() };
            let replies = prompts.map(empty).collect();
            let mut cell = Cell { load: load.into(), drawing: drawing.into(), replies };
            let length = options.length(&cell);
            for number in 0..cell.replies.len() {
                let (tokens, _) = support::reply(&lanes, request(&cell, number, length));
                cell.replies[number].tokens = tokens;
                cell.replies[number].drafts = std::mem::take(&mut *seen.lock().expect("no panic"));
            }
            eprintln!("recorded {load}, {drawing}");
            cells.push(cell);
        }
    }
    cells
}

/// Reads the trace file, or records every cell and writes it.
pub fn cells(options: &Options) -> Vec<Cell> {
    let Some(path) = &options.trace else { return record(options) };
    if let Ok(text) = std::fs::read(path) {
        return serde_json::from_slice(&text).expect("the trace file holds a trace");
    }
    let cells = record(options);
    let text = serde_json::to_vec(&cells).expect("a trace is plain data");
    std::fs::write(path, text).expect("the trace file can be written");
    cells
}
