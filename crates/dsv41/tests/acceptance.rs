//! How many drafts the mini model's drafter has kept: exact counts on the paths that keep inputs in f32, so that any
//! change of the drafter shows. `TOKENFARE_EXACT=full` counts on every such path of this machine.
#![allow(clippy::unwrap_used, reason = "a failed test says enough")]

mod edit;

use std::path::Path as FilePath;

use edit::Folder;
use rstest::rstest;
use serde::Deserialize;
use tokenfare_cpu::{Cpu, CpuOptions, Path, PathChoice};
use tokenfare_dsv41::checkpoint::Checkpoint;
use tokenfare_dsv41::load::{Drafts, LoadOptions, load};
use tokenfare_dsv41::model::{CacheMode, Model, ModelOptions};
use tokenfare_dsv41::progress::Silent;
use tokenfare_dsv41::tokenizer::{Tokenizer, token_map};
use tokenfare_lanes::sampling::seed_of;
use tokenfare_lanes::{AcceptanceRun, Lanes, LanesConfig, NoText, Request, Sampling};
use tokenfare_pricing::{Acceptance, CONFIDENCE_BINS};

/// Tokens of a reply.
const TOKENS: usize = 48;
/// Every eighth held-out prompt: two of each domain.
const STEP: usize = 8;
const BLOCK: usize = 5;

#[derive(Deserialize)]
struct Prompt {
    prompt_ids: Vec<u32>,
}

/// Counts at one temperature.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Counts {
    temperature: f64,
    rounds: u64,
    /// Drafts reached and kept at each position.
    positions: [[u64; 2]; BLOCK],
    /// Drafts verified and kept in each bin of confidence.
    bins: [[u64; 2]; CONFIDENCE_BINS],
}

impl Counts {
    fn of(temperature: f64, counts: &Acceptance) -> Self {
        let position = |j| [counts.position(j).reached, counts.position(j).kept];
        let bin = |b| [counts.bin(b).verified, counts.bin(b).kept];
        Self {
            temperature,
            rounds: counts.rounds(),
            positions: std::array::from_fn(position),
            bins: std::array::from_fn(bin),
        }
    }
}

const RECORDED: [Counts; 2] = [
    Counts {
        temperature: 0.0,
        rounds: 165,
        positions: [[165, 92], [89, 50], [50, 32], [30, 16], [16, 10]],
        bins: [[44, 0], [344, 29], [227, 62], [90, 44], [82, 65]],
    },
    Counts {
        temperature: 1.0,
        rounds: 209,
        positions: [[209, 82], [80, 39], [39, 24], [21, 9], [8, 4]],
        bins: [[100, 2], [410, 27], [302, 42], [115, 35], [78, 52]],
    },
];

fn model(folder: &FilePath, path: Path) -> Model<Cpu> {
    let checkpoint = Checkpoint::open(folder).unwrap();
    let config = checkpoint.config();
    let options =
        ModelOptions { slots: 8, context: 512, piece_rows: 200, window_rows: 64, caches: CacheMode::Trained };
    let max_rows = options.launch_rows(config);
    let mut device = Cpu::new(CpuOptions { path: PathChoice::Only(path), threads: 2, max_rows }).unwrap();
    let loading = LoadOptions { drafter: Drafts::Load, threads: 2, progress: &Silent };
    let weights = load(&checkpoint, &mut device, &loading).unwrap();
    let map = token_map(&Tokenizer::open(folder, config.vocab).unwrap()).unwrap().map;
    Model::new(device, weights, config, map, options).unwrap()
}

/// Counts of the recorded replies, with the checkpoint in `folder`.
fn count(folder: &FilePath, path: Path) -> Vec<Counts> {
    let prompts: Vec<Prompt> =
        serde_json::from_slice(&std::fs::read(folder.join("heldout.json")).unwrap()).unwrap();
    let mut run = AcceptanceRun::new();
    let lanes = Lanes::start(model(folder, path), run.configure(LanesConfig::default())).unwrap();
    let counted = RECORDED.iter().map(|recorded| {
        let request = |prompt: &Prompt| {
            let ids = prompt.prompt_ids.clone();
            let seed = seed_of(&ids, "0");
            let mut request = Request::new(ids, TOKENS, Box::new(NoText));
            request.sampling = Sampling { temperature: recorded.temperature, seed, ..Sampling::greedy() };
            request.stop_tokens = vec![1];
            request
        };
        let requests = prompts.iter().step_by(STEP).map(request).collect();
        let mut all = Acceptance::default();
        run.serve(&lanes.handle(), requests).unwrap().iter().for_each(|reply| all.add(&reply.counts));
        Counts::of(recorded.temperature, &all)
    });
    counted.collect()
}

fn mini() -> std::path::PathBuf {
    FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../../models/mini")
}

/// Paths that keep inputs in f32, the fastest first.
fn f32_paths() -> Vec<Path> {
    Path::available().into_iter().filter(|path| *path != Path::Amx).collect()
}

#[test]
fn acceptance_is_what_was_recorded() {
    let full = std::env::var("TOKENFARE_EXACT").is_ok_and(|v| v == "full");
    let paths = f32_paths();
    for path in if full { &paths[..] } else { &paths[..1] } {
        assert_eq!(count(&mini(), *path), RECORDED, "{}", path.name());
    }
}

/// Gives one tensor the values of another.
fn take(folder: &Folder, tensor: &str, from: &str) {
    folder.overwrite(tensor, 0, &folder.data(from));
}

/// Moves the first `by` bytes of each row of `width` bytes to its end.
fn rotate(folder: &Folder, tensor: &str, width: usize, by: usize) {
    let mut data = folder.data(tensor);
    data.chunks_exact_mut(width).for_each(|row| row.rotate_left(by));
    folder.overwrite(tensor, 0, &data);
}

fn another_block(folder: &Folder) {
    take(folder, "mtp.1.attn_norm.weight", "mtp.0.attn_norm.weight");
}

fn taps_in_another_order(folder: &Folder) {
    rotate(folder, "mtp.0.main_proj.weight", 3 * 384, 384);
    rotate(folder, "mtp.0.main_proj.scale", 3 * 12, 12);
}

fn markov_halves_exchanged(folder: &Folder) {
    let embed = folder.data("mtp.2.markov_head.embed.weight");
    take(folder, "mtp.2.markov_head.embed.weight", "mtp.2.markov_head.head.weight");
    folder.overwrite("mtp.2.markov_head.head.weight", 0, &embed);
}

fn confidence_inputs_exchanged(folder: &Folder) {
    let bytes = folder.data("mtp.2.confidence_head.proj.weight").len();
    rotate(folder, "mtp.2.confidence_head.proj.weight", bytes, bytes * 384 / (384 + 64));
}

#[rstest]
#[case(another_block)]
#[case(taps_in_another_order)]
#[case(markov_halves_exchanged)]
#[case(confidence_inputs_exchanged)]
fn a_drafter_loaded_wrongly_has_another_acceptance(#[case] change: fn(&Folder)) {
    let folder = Folder::mini();
    change(&folder);
    let found = count(folder.path(), f32_paths()[0]);
    println!("{found:?}");
    assert!(found.iter().zip(&RECORDED).all(|(found, recorded)| found != recorded), "{found:?}");
    // The target is whole: what it commits a round is all that changed.
    let committed = |c: &Counts| c.rounds + c.positions.iter().map(|p| p[1]).sum::<u64>();
    assert!(found.iter().zip(&RECORDED).all(|(f, r)| committed(f).abs_diff(committed(r)) <= 8), "{found:?}");
}
