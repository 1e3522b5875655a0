//! Decode speed of the mini checkpoint on the CPU at one stream, with drafts against without.
//!
//! `cargo bench -p tokenfare-dsv41 --bench mini_decode [-- ROUNDS]`. Both engines live side by side and take turns,
//! prompt by prompt, so that what else the machine does falls on both. Greedy, up to 64 tokens a reply.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tokenfare_cpu::{Cpu, CpuOptions, PathChoice};
use tokenfare_dsv41::checkpoint::Checkpoint;
use tokenfare_dsv41::load::{self, LoadOptions, load};
use tokenfare_dsv41::model::{CacheMode, Model, ModelOptions};
use tokenfare_dsv41::progress::Silent;
use tokenfare_dsv41::tokenizer::{Tokenizer, token_map};
use tokenfare_lanes::{Drafts, Event, Lanes, LanesConfig, NoText, ReplyStats, Request};

const TOKENS: usize = 64;

#[derive(Deserialize)]
struct Prompt {
    domain: String,
    prompt_ids: Vec<u32>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/mini")
}

fn prompts(file: &str) -> Vec<Prompt> {
    let bytes = std::fs::read(folder().join(file)).expect("the file ships with the model");
    serde_json::from_slice(&bytes).expect("a list of prompts")
}

fn engine(drafts: Drafts) -> Lanes {
    let checkpoint = Checkpoint::open(&folder()).expect("the mini checkpoint");
    let config = checkpoint.config();
    let options = ModelOptions {
        slots: 1,
        context: 2048,
        piece_rows: 256,
        window_rows: 64,
        caches: CacheMode::Trained,
    };
    let choice = CpuOptions { path: PathChoice::Auto, threads: 0, max_rows: options.launch_rows(config) };
    let mut device = Cpu::new(choice).expect("a device");
    let drafter = if drafts == Drafts::On { load::Drafts::Load } else { load::Drafts::Skip };
    let loading = LoadOptions { drafter, threads: 2, progress: &Silent };
    let weights = load(&checkpoint, &mut device, &loading).expect("weights");
    let tokenizer = Tokenizer::open(&folder(), config.vocab).expect("a tokenizer");
    let map = token_map(&tokenizer).expect("a token map").map;
    let model = Model::new(device, weights, config, map, options).expect("a model");
    let config = LanesConfig { drafts, prompt_cache_bytes: 0, ..LanesConfig::default() };
    Lanes::start(model, config).expect("a thread")
}

fn reply(lanes: &Lanes, prompt: &[u32]) -> ReplyStats {
    let handle = lanes.handle();
    let mut request = Request::new(prompt.to_vec(), TOKENS, Box::new(NoText));
    request.stop_tokens = vec![1];
    let request = request.validate(handle.info()).expect("a valid request");
    let mut reply = handle.submit(request).expect("room in the queue");
    loop {
        match reply.blocking_next() {
            Some(Event::Finished { stats, .. }) => return *stats,
            Some(_) => {}
            None => panic!("the engine stopped"),
        }
    }
}

/// Tokens and seconds of one domain in one round.
#[derive(Default, Clone, Copy)]
struct Sum {
    tokens: usize,
    seconds: f64,
    rounds: usize,
}

impl Sum {
    fn add(&mut self, stats: &ReplyStats) {
        self.tokens += stats.completion_tokens - 1;
        self.seconds += stats.decode_s;
        self.rounds += stats.rounds;
    }

    fn speed(self) -> f64 {
        self.tokens as f64 / self.seconds
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let turns = std::env::args().filter_map(|a| a.parse().ok()).next().unwrap_or(5);
    let engines = [engine(Drafts::Off), engine(Drafts::On)];
    let mut sets: BTreeMap<String, Vec<Vec<u32>>> = BTreeMap::new();
    for p in prompts("golden.json") {
        sets.entry(format!("golden {}", p.domain)).or_default().push(p.prompt_ids);
    }
    for p in prompts("heldout.json") {
        sets.entry(format!("held-out {}", p.domain)).or_default().push(p.prompt_ids);
    }
    println!("{:<20} {:>10} {:>10} {:>7} {:>12}", "prompts", "without", "with", "ratio", "tokens/round");
    for (name, set) in &sets {
        let mut speeds = [Vec::new(), Vec::new()];
        let mut kept = Sum::default();
        for turn in 0..turns {
            let mut sums = [Sum::default(); 2];
            for (i, prompt) in set.iter().enumerate() {
                let first = (turn + i) % 2;
                let mut hashes = Vec::new();
                for e in [first, 1 - first] {
                    let stats = reply(&engines[e], prompt);
                    if stats.completion_tokens > 1 {
                        sums[e].add(&stats);
                    }
                    hashes.push(stats.token_sha256);
                }
                assert_eq!(hashes[0], hashes[1], "{name}: drafts changed a reply");
            }
            for e in [0, 1] {
                speeds[e].push(sums[e].speed());
            }
            kept = sums[1];
        }
        let ratios = speeds[1].iter().zip(&speeds[0]).map(|(with, without)| with / without).collect();
        let [without, with] = speeds.map(median);
        let depth = kept.tokens as f64 / kept.rounds as f64;
        println!("{name:<20} {without:>10.1} {with:>10.1} {:>7.2} {depth:>12.2}", median(ratios));
    }
}
