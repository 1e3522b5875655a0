//! Every reply is the same however it is served: real checkpoints on every CPU path of this machine.
//!
//! `TOKENFARE_EXACT=full` runs the whole matrix on every path and checkpoint; without it, the whole matrix runs on the
//! tiny checkpoint by the fastest f32 path, one way of each kind on its other paths, and the same on the mini checkpoint
//! by the fastest paths. Long prompts, where top-k selection and candidate blocks leave keys out, are served by the
//! fastest path alone, and by every path in full.
#![allow(clippy::unwrap_used, reason = "a failed test says enough")]

use std::collections::BTreeMap;
use std::path::{Path as FilePath, PathBuf};
use std::sync::{Arc, Mutex};

use tokenfare_cpu::{Cpu, CpuOptions, Path, PathChoice};
use tokenfare_device::NONE;
use tokenfare_dsv41::checkpoint::Checkpoint;
use tokenfare_dsv41::load::{Drafts, LoadOptions, load};
use tokenfare_dsv41::model::{CacheMode, Model, ModelOptions};
use tokenfare_dsv41::observer::Observer;
use tokenfare_dsv41::progress::Silent;
use tokenfare_dsv41::reply::{ReplyText, StopStrings};
use tokenfare_dsv41::tokenizer::{Tokenizer, token_map};
use tokenfare_lanes::testkit::{Breadth, Compared, Workload, exactness, exactness_of_prompts};
use tokenfare_lanes::{Logits, Report, Request, Sampling, Target, Want};

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
        rests_on_drafts_and_caches(&compared);
    }
}

/// Fails when the comparisons could have passed without a kept draft, a rejected one or a resumed prompt.
fn rests_on_drafts_and_caches(compared: &Compared) {
    assert!(compared.drafted > compared.accepted && compared.accepted > 0, "{compared:?}");
    assert!(compared.cached > 0, "{compared:?}");
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

/// Lengths at which selection leaves keys out: it takes 256 keys, of candidate blocks that hold 512.
const LONG: [usize; 3] = [600, 1100, 2000];

/// `len` tokens of held-out prompts of one domain, one after another.
fn long_prompt(domain: &str, len: usize) -> Vec<u32> {
    let file = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../../models/mini/heldout.json");
    let all: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let of_domain = all.as_array().unwrap().iter().filter(|p| p["domain"] == domain);
    let ids = of_domain.flat_map(|p| serde_json::from_value::<Vec<u32>>(p["prompt_ids"].clone()).unwrap());
    let prompt: Vec<u32> = std::iter::once(0).chain(ids.filter(|&id| id != 0)).take(len).collect();
    assert_eq!(prompt.len(), len, "{domain} has too few tokens");
    prompt
}

/// Each length greedy and sampled, and room to feed any of them as one piece.
fn long() -> (Bench, Workload) {
    let mut bench = Bench::new("models/mini", 2048);
    bench.options.piece_rows = LONG[2];
    let prompts = [("code", LONG[0]), ("prose", LONG[1]), ("code", LONG[2])];
    let requests = prompts.iter().flat_map(|&(domain, len)| {
        let prompt = long_prompt(domain, len);
        [Sampling::greedy(), warm(len as u64)].map(|sampling| bench.request(&prompt, 20, sampling, &[]))
    });
    let workload = Workload { requests: requests.collect() };
    (bench, workload)
}

/// What selecting layers chose, a row a position.
#[derive(Default)]
struct Selected {
    /// Keys selected.
    lists: BTreeMap<usize, Vec<Vec<u32>>>,
    /// Candidate blocks kept.
    blocks: Vec<Vec<u32>>,
}

#[derive(Clone, Default)]
struct Selections(Arc<Mutex<Selected>>);

impl Observer for Selections {
    fn selection(&mut self, layer: usize, top_k: usize, list: &[u32]) {
        let rows = list.chunks(top_k).map(|row| row.iter().copied().filter(|&key| key != NONE).collect());
        self.0.lock().unwrap().lists.entry(layer).or_default().extend(rows);
    }

    fn candidates(&mut self, _layer: usize, words: usize, mask: &[u32]) {
        let kept = |row: &[u32]| {
            (0..32 * words as u32).filter(|b| row[*b as usize / 32] >> (b % 32) & 1 == 1).collect()
        };
        self.0.lock().unwrap().blocks.extend(mask.chunks(words).map(kept));
    }
}

#[test]
fn long_prompts_bind_selection_and_candidates() {
    let (bench, _) = long();
    let config = Checkpoint::open(&bench.folder).unwrap().config().clone();
    let (top_k, block) = (config.index_top_k, config.candidate_block);
    let mut model = bench.model(Path::available()[0], 2);
    let seen = Selections::default();
    model.observe(Some(Box::new(seen.clone())));
    let tokens = long_prompt("code", LONG[2]);
    model.prefill(0, 0, &tokens, Want::Last, &mut Logits::default()).unwrap();
    let seen = seen.0.lock().unwrap();
    assert_eq!(seen.lists.keys().copied().collect::<Vec<_>>(), config.index_sources);
    for length in LONG {
        for (layer, lists) in &seen.lists {
            let available = length / config.ratios[*layer];
            let selected = lists[length - 1].len();
            assert!(
                selected == top_k && selected < available,
                "layer {layer} at {length}: {selected} of {available}"
            );
        }
        let kept = &seen.blocks[length - 1];
        let available = length.div_ceil(block);
        assert!(
            kept.len() == config.candidate_blocks && kept.len() < available,
            "{} of {available} blocks at {length}",
            kept.len()
        );
        let reader = &seen.lists[&8][length - 1];
        assert!(
            reader.iter().all(|key| kept.contains(&(key / block as u32))),
            "a key outside the candidates at {length}"
        );
        // Without candidates the source's own layer selects from every block.
        let source = &seen.lists[&config.candidate_source][length - 1];
        assert!(source != reader, "two layers selected alike at {length}");
    }
}

#[test]
fn exact_with_long_prompts() {
    let (bench, workload) = long();
    let full = wanted(Breadth::Covering) == Breadth::Full;
    let paths = Path::available();
    let (paths, pieces): (&[Path], &[usize]) = if full { (&paths, &[7, 333]) } else { (&paths[..1], &[61]) };
    for path in paths {
        let compared = exactness_of_prompts(|| bench.model(*path, 2), &workload, pieces)
            .unwrap_or_else(|e| panic!("{}: {e}", path.name()));
        println!("{}: {compared:?}", path.name());
        rests_on_drafts_and_caches(&compared);
        let resumed: usize = LONG.iter().map(|len| 2 * (len * 3 / 4 - 1 + len - 1)).sum();
        assert!(compared.cached >= resumed, "{compared:?}, expected {resumed} resumed tokens");
    }
}
