//! Every reply is the same however it is served: real checkpoints on every CPU path of this machine.
//!
//! `TOKENFARE_EXACT=full` runs the whole matrix on every path and checkpoint; without it, the whole matrix runs on the
//! tiny checkpoint by the fastest f32 path, one way of each kind on its other paths, and the same on the mini checkpoint
//! by the fastest paths.
#![allow(clippy::unwrap_used, reason = "a failed test says enough")]

use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use tokenfare_cpu::{Cpu, CpuOptions, Path, PathChoice};
use tokenfare_dsv41::checkpoint::Checkpoint;
use tokenfare_dsv41::load::{Drafts, LoadOptions, load};
use tokenfare_dsv41::model::{CacheMode, Model, ModelOptions};
use tokenfare_dsv41::progress::Silent;
use tokenfare_dsv41::reply::{ReplyText, StopStrings};
use tokenfare_dsv41::tokenizer::{Tokenizer, token_map};
use tokenfare_lanes::testkit::{Breadth, Workload, exactness};
use tokenfare_lanes::{Report, Request, Sampling};

struct Bench {
    folder: PathBuf,
    tokenizer: Arc<Tokenizer>,
    map: Vec<u32>,
    options: ModelOptions,
}

impl Bench {
    fn new(folder: &str, context: usize) -> Self {
        let folder = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
        let vocab = Checkpoint::open(&folder).unwrap().config().vocab;
        let tokenizer = Arc::new(Tokenizer::open(&folder, vocab).unwrap());
        let map = token_map(&tokenizer).unwrap().map;
        let options =
            ModelOptions { slots: 8, context, piece_rows: 64, window_rows: 64, caches: CacheMode::Trained };
        Self { folder, tokenizer, map, options }
    }

    fn model(&self, path: Path, threads: usize) -> Model<Cpu> {
        let checkpoint = Checkpoint::open(&self.folder).unwrap();
        let config = checkpoint.config();
        let max_rows = self.options.launch_rows(config);
        let choice = CpuOptions { path: PathChoice::Only(path), threads, max_rows };
        let mut device = Cpu::new(choice).unwrap();
        let loading = LoadOptions { drafter: Drafts::Load, threads: 1, progress: &Silent };
        let weights = load(&checkpoint, &mut device, &loading).unwrap();
        Model::new(device, weights, config, self.map.clone(), self.options).unwrap()
    }

    fn request(
        &self,
        prompt: &[u32],
        max_new: usize,
        sampling: Sampling,
        stop: &[&str],
    ) -> Box<dyn Fn() -> Request> {
        let (tokenizer, prompt) = (self.tokenizer.clone(), prompt.to_vec());
        let stop: Vec<String> = stop.iter().map(|s| (*s).to_owned()).collect();
        Box::new(move || {
            let text = ReplyText::completion(tokenizer.clone(), StopStrings::new(stop.clone()).unwrap());
            let mut request = Request::new(prompt.clone(), max_new, Box::new(text));
            request.sampling = sampling.clone();
            request.stop_tokens = vec![1];
            request.report = Report { logprobs: Some(2), prompt_logprobs: None };
            request
        })
    }

    fn compare(&self, path: Path, threads: usize, workload: &Workload, breadth: Breadth) {
        let compared = exactness(|| self.model(path, threads), workload, breadth)
            .unwrap_or_else(|e| panic!("{}: {e}", path.name()));
        println!("{}, {breadth:?}: {compared:?}", path.name());
        assert!(compared.drafted > compared.accepted && compared.accepted > 0, "{compared:?}");
        assert!(compared.cached > 0, "{compared:?}");
    }
}

fn warm(seed: u64) -> Sampling {
    Sampling { temperature: 1.0, seed, ..Sampling::greedy() }
}

fn filtered(seed: u64) -> Sampling {
    Sampling {
        temperature: 0.7,
        top_p: 0.9,
        top_k: 20,
        min_p: 0.01,
        seed,
        logit_bias: vec![(40, 1.5), (90, -2.0)],
    }
}

fn golden_prompt(name: &str) -> Vec<u32> {
    let file = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden/golden.json");
    let golden: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    serde_json::from_value(golden["prompts"][name].clone()).unwrap()
}

/// Prompts that wrap the window of 16 and bind selection and candidates.
fn tiny() -> (Bench, Workload) {
    let bench = Bench::new("fixtures/tiny", 256);
    let (p7, p40, p200) = (golden_prompt("p7"), golden_prompt("p40"), golden_prompt("p200"));
    let requests = vec![
        bench.request(&p40, 24, Sampling::greedy(), &[]),
        bench.request(&p200[..110], 16, warm(7), &[]),
        bench.request(&p7, 20, filtered(11), &["e", "zz"]),
        bench.request(&p40[..33], 20, warm(7), &[]),
        bench.request(&p200[..150], 10, Sampling::greedy(), &[]),
    ];
    (bench, Workload { requests })
}

fn mini() -> (Bench, Workload) {
    let bench = Bench::new("models/mini", 512);
    let prompt = |text: &str| bench.tokenizer.encode(text).unwrap();
    let chat =
        |text: &str| prompt(&format!("<｜begin▁of▁sentence｜><｜User｜>{text}<｜Assistant｜></think>"));
    let long: String = (0..24).map(|i| format!("def add_{i}(a, b):\n    return a + b + {i}\n\n")).collect();
    let requests = vec![
        bench.request(&chat("What is a GPU?"), 40, Sampling::greedy(), &[]),
        bench.request(&chat("Write a fibonacci function"), 40, warm(5), &["return"]),
        bench.request(&prompt(&format!("<｜begin▁of▁sentence｜>{long}")), 24, filtered(3), &[]),
    ];
    (bench, Workload { requests })
}

fn wanted(default: Breadth) -> Breadth {
    if std::env::var("TOKENFARE_EXACT").is_ok_and(|v| v == "full") { Breadth::Full } else { default }
}

/// Paths of this machine: the fastest f32 path, then the others.
fn paths() -> (Path, Vec<Path>) {
    let mut all = Path::available();
    let at = all.iter().position(|path| *path != Path::Amx).expect("plain Rust is everywhere");
    let fastest = all.remove(at);
    (fastest, all)
}

#[test]
fn exact_on_the_tiny_checkpoint_by_the_fastest_path() {
    let (bench, workload) = tiny();
    bench.compare(paths().0, 1, &workload, Breadth::Full);
    bench.compare(paths().0, 2, &workload, wanted(Breadth::Covering));
}

#[test]
fn exact_on_the_tiny_checkpoint_by_the_other_paths() {
    let (bench, workload) = tiny();
    for path in paths().1 {
        bench.compare(path, 1, &workload, wanted(Breadth::Covering));
    }
}

#[test]
fn exact_on_the_mini_checkpoint() {
    let (bench, workload) = mini();
    let (fastest, mut others) = paths();
    if wanted(Breadth::Covering) == Breadth::Covering {
        others.retain(|path| *path == Path::Amx);
    }
    for path in [fastest].into_iter().chain(others) {
        bench.compare(path, 1, &workload, wanted(Breadth::Covering));
    }
}
