//! What the benches share: the mini checkpoint, its prompts and one reply.
#![allow(dead_code, reason = "each bench uses a part")]

use std::path::{Path, PathBuf};

use serde::Deserialize;
use tokenfare_cpu::{Cpu, CpuOptions, PathChoice};
use tokenfare_dsv41::checkpoint::Checkpoint;
use tokenfare_dsv41::load::{self, LoadOptions, load};
use tokenfare_dsv41::model::{CacheMode, Model, ModelOptions};
use tokenfare_dsv41::progress::Silent;
use tokenfare_dsv41::tokenizer::{Tokenizer, token_map};
use tokenfare_lanes::{Drafts, Event, Lanes, ReplyStats, Request};

/// A prompt and what kind of text it asks for.
#[derive(Deserialize)]
pub struct Prompt {
    pub domain: String,
    pub prompt_ids: Vec<u32>,
}

/// The mini checkpoint's folder.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/mini")
}

/// The prompts of a file that ships with the model.
pub fn prompts(file: &str) -> Vec<Prompt> {
    let bytes = std::fs::read(folder().join(file)).expect("the file ships with the model");
    serde_json::from_slice(&bytes).expect("a list of prompts")
}

/// The mini checkpoint on the CPU, with one slot; 0 threads are as many as there are CPUs.
pub fn model(drafts: Drafts, threads: usize) -> Model<Cpu> {
    open(&folder(), drafts, threads)
}

/// [`model`] of any checkpoint folder.
pub fn open(folder: &Path, drafts: Drafts, threads: usize) -> Model<Cpu> {
    open_sized(folder, drafts, threads, 1, 2048)
}

/// [`open`] with this many slots of this context.
pub fn open_sized(folder: &Path, drafts: Drafts, threads: usize, slots: usize, context: usize) -> Model<Cpu> {
    let checkpoint = Checkpoint::open(folder).expect("a checkpoint");
    let config = checkpoint.config();
    let options =
        ModelOptions { slots, context, piece_rows: 256, window_rows: 64, caches: CacheMode::Trained };
    let choice = CpuOptions { path: PathChoice::Auto, threads, max_rows: options.launch_rows(config) };
    let mut device = Cpu::new(choice).expect("a device");
    let drafter = if drafts == Drafts::On { load::Drafts::Load } else { load::Drafts::Skip };
    let loading = LoadOptions { drafter, threads: 2, progress: &Silent };
    let weights = load(&checkpoint, &mut device, &loading).expect("weights");
    let tokenizer = Tokenizer::open(folder, config.vocab).expect("a tokenizer");
    let map = token_map(&tokenizer).expect("a token map").map;
    Model::new(device, weights, config, map, options).expect("a model")
}

/// Runs a request to its end; gives its tokens and counts.
pub fn reply(lanes: &Lanes, request: Request) -> (Vec<u32>, ReplyStats) {
    let handle = lanes.handle();
    let request = request.validate(handle.info()).expect("a valid request");
    let mut reply = handle.submit(request).expect("room in the queue");
    let mut tokens = Vec::new();
    loop {
        match reply.blocking_next() {
            Some(Event::Tokens(committed)) => tokens.extend(committed.into_iter().map(|t| t.id)),
            Some(Event::Finished { stats, .. }) => return (tokens, *stats),
            Some(_) => {}
            None => panic!("the engine stopped"),
        }
    }
}

/// The middle value, the higher of two.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
