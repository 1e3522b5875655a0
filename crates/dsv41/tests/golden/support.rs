//! Golden files, models over them, and what an observer saw.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use safetensors::{Dtype, SafeTensors};
use tokenfare_device::Device;
use tokenfare_dsv41::checkpoint::Checkpoint;
use tokenfare_dsv41::config::Config;
use tokenfare_dsv41::load::{Drafts, LoadOptions, load};
use tokenfare_dsv41::model::{CacheMode, Model, ModelOptions};
use tokenfare_dsv41::observer::{DraftPass, Observer};
use tokenfare_dsv41::progress::Silent;
use tokenfare_dsv41::tokenizer::{Tokenizer, token_map};
use tokenfare_lanes::{Logits, Segment, Target, Want};

/// Path of a file or folder of the repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// A JSON file of the repository.
pub fn json(path: &str) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(repository(path)).unwrap()).unwrap()
}

/// A field of a JSON object, as `T`.
pub fn field<T: serde::de::DeserializeOwned>(value: &serde_json::Value, name: &str) -> T {
    serde_json::from_value(value[name].clone()).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// A file of golden tensors.
pub struct Goldens(Vec<u8>);

impl Goldens {
    pub fn open(name: &str) -> Self {
        Self(std::fs::read(repository("fixtures/golden").join(name)).unwrap())
    }

    pub fn floats(&self, name: &str) -> Vec<f32> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let view = file.tensor(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(view.dtype(), Dtype::F32, "{name}");
        view.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    pub fn integers(&self, name: &str) -> Vec<i64> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let view = file.tensor(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        let data = view.data();
        match view.dtype() {
            Dtype::U8 => data.iter().map(|b| i64::from(*b)).collect(),
            Dtype::I16 => {
                data.chunks_exact(2).map(|b| i16::from_le_bytes(b.try_into().unwrap()).into()).collect()
            }
            Dtype::I32 => {
                data.chunks_exact(4).map(|b| i32::from_le_bytes(b.try_into().unwrap()).into()).collect()
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// Largest absolute difference; NaN counts as infinite.
pub fn distance(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let apart = |(a, b): (&f32, &f32)| {
        let d = (a - b).abs();
        if d.is_nan() { f32::INFINITY } else { d }
    };
    found.iter().zip(expected).map(apart).fold(0.0, f32::max)
}

/// Fails unless every value is within `most` of the golden one.
pub fn near(name: &str, found: &[f32], expected: &[f32], most: f32) {
    let apart = distance(found, expected);
    assert!(apart <= most, "{name}: {apart} apart, expected at most {most}");
}

/// Index of the first maximum.
pub fn argmax(row: &[f32]) -> u32 {
    let best = row.iter().enumerate().rev().max_by(|a, b| a.1.total_cmp(b.1));
    best.map(|(i, _)| i as u32).unwrap()
}

/// Sizes for the tiny checkpoint: its longest golden prompt fits one piece.
pub fn tiny_options(caches: CacheMode) -> ModelOptions {
    ModelOptions { slots: 4, context: 256, piece_rows: 200, window_rows: 16, caches }
}

/// Sizes for the mini checkpoint.
pub fn mini_options() -> ModelOptions {
    ModelOptions { slots: 2, context: 640, piece_rows: 128, window_rows: 16, caches: CacheMode::Trained }
}

/// Loads the checkpoint in `folder`, its configuration changed by `edit`, on the device that `device` makes.
pub fn model_with<D: Device>(
    folder: &str,
    options: ModelOptions,
    device: impl Fn(usize) -> D,
    edit: impl Fn(&mut Config),
) -> Model<D> {
    let folder = repository(folder);
    let checkpoint = Checkpoint::open(&folder).unwrap();
    let mut config = checkpoint.config().clone();
    edit(&mut config);
    let mut device = device(options.launch_rows(&config));
    let loading = LoadOptions { drafter: Drafts::Load, threads: 2, progress: &Silent };
    let weights = load(&checkpoint, &mut device, &loading).unwrap();
    let tokenizer = Tokenizer::open(&folder, config.vocab).unwrap();
    let map = token_map(&tokenizer).unwrap().map;
    Model::new(device, weights, &config, map, options).unwrap()
}

/// The tiny checkpoint.
pub fn tiny<D: Device>(caches: CacheMode, device: impl Fn(usize) -> D) -> Model<D> {
    model_with("fixtures/tiny", tiny_options(caches), device, |_| ())
}

/// A prompt of the tiny goldens.
pub fn prompt(name: &str) -> Vec<u32> {
    field(&json("fixtures/golden/golden.json")["prompts"], name)
}

/// Feeds tokens as one prompt piece and returns all their logits.
pub fn feed<D: Device>(model: &mut Model<D>, slot: usize, start: usize, tokens: &[u32]) -> Vec<f32> {
    let mut logits = Logits::default();
    model.prefill(slot, start, tokens, Want::All, &mut logits).unwrap();
    logits.values
}

/// Feeds one verify window and returns its logits.
pub fn verify<D: Device>(model: &mut Model<D>, slot: usize, start: usize, tokens: &[u32]) -> Vec<f32> {
    let mut logits = Logits::default();
    model.window(&[Segment { slot, start, tokens }], &mut logits).unwrap();
    logits.values
}

/// What an observer saw, launch after launch, by layer.
#[derive(Debug, Default)]
pub struct Seen {
    pub engram: BTreeMap<usize, Vec<u64>>,
    pub selections: BTreeMap<usize, Vec<u32>>,
    pub candidates: BTreeMap<usize, (usize, Vec<u32>)>,
    pub experts: BTreeMap<usize, Vec<u32>>,
    pub streams: BTreeMap<usize, Vec<f32>>,
    pub pre: BTreeMap<usize, Vec<f32>>,
    pub taps: Vec<f32>,
    pub drafts: Vec<DraftPass>,
}

/// An observer whose record stays with the test.
#[derive(Debug, Default, Clone)]
pub struct Recorder(pub Arc<Mutex<Seen>>);

impl Recorder {
    /// Attaches a fresh recorder.
    pub fn attach<D: Device>(model: &mut Model<D>) -> Self {
        let recorder = Self::default();
        model.observe(Some(Box::new(recorder.clone())));
        recorder
    }

    fn with(&self, record: impl FnOnce(&mut Seen)) {
        record(&mut self.0.lock().unwrap());
    }
}

impl Observer for Recorder {
    fn engram(&mut self, layer: usize, _columns: usize, rows: &[u64]) {
        self.with(|seen| seen.engram.entry(layer).or_default().extend(rows));
    }
    fn selection(&mut self, layer: usize, _top_k: usize, list: &[u32]) {
        self.with(|seen| seen.selections.entry(layer).or_default().extend(list));
    }
    fn candidates(&mut self, layer: usize, words: usize, mask: &[u32]) {
        self.with(|seen| {
            let (width, rows) = seen.candidates.entry(layer).or_default();
            *width = words;
            rows.extend(mask);
        });
    }
    fn experts(&mut self, layer: usize, _top_k: usize, experts: &[u32]) {
        self.with(|seen| seen.experts.entry(layer).or_default().extend(experts));
    }
    fn layer(&mut self, layer: usize, h: &[f32], pre: &[f32]) {
        self.with(|seen| {
            seen.streams.entry(layer).or_default().extend(h);
            seen.pre.entry(layer).or_default().extend(pre);
        });
    }
    fn taps(&mut self, _width: usize, taps: &[f32]) {
        self.with(|seen| seen.taps.extend(taps));
    }
    fn draft(&mut self, pass: &DraftPass) {
        self.with(|seen| seen.drafts.push(pass.clone()));
    }
}
