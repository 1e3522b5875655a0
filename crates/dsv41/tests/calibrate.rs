//! A measurement of real checkpoints: it leaves nothing behind, and its table changes no reply.
#![allow(clippy::unwrap_used, reason = "a failed test says enough")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokenfare_cpu::{Cpu, CpuOptions, PathChoice};
use tokenfare_dsv41::calibration;
use tokenfare_dsv41::checkpoint::Checkpoint;
use tokenfare_dsv41::load::{Drafts, LoadOptions, load};
use tokenfare_dsv41::model::{CacheMode, Model, ModelOptions};
use tokenfare_dsv41::observer::Observer;
use tokenfare_dsv41::progress::Silent;
use tokenfare_dsv41::tokenizer::{Tokenizer, token_map};
use tokenfare_lanes::testkit::{Breadth, Workload, exactness_priced, run};
use tokenfare_lanes::{
    Calibrator, Drafter, Ingest, Lanes, LanesConfig, LanesStats, Logits, NoText, Request, Sampling,
    SystemClock, Target, Want,
};
use tokenfare_pricing::{CalibrationOptions, CostTable};

const OPTIONS: ModelOptions =
    ModelOptions { slots: 3, context: 256, piece_rows: 64, window_rows: 64, caches: CacheMode::Trained };

struct Bench {
    model: Model<Cpu>,
    text: Vec<u32>,
}

fn bench() -> Bench {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny");
    let checkpoint = Checkpoint::open(&folder).unwrap();
    let config = checkpoint.config();
    let tokenizer = Tokenizer::open(&folder, config.vocab).unwrap();
    let choice = CpuOptions { path: PathChoice::Auto, threads: 1, max_rows: OPTIONS.launch_rows(config) };
    let mut device = Cpu::new(choice).unwrap();
    let loading = LoadOptions { drafter: Drafts::Load, threads: 1, progress: &Silent };
    let weights = load(&checkpoint, &mut device, &loading).unwrap();
    let map = token_map(&tokenizer).unwrap().map;
    let model = Model::new(device, weights, config, map, OPTIONS).unwrap();
    Bench { model, text: calibration::text(&tokenizer) }
}

fn options() -> CalibrationOptions {
    CalibrationOptions { budget: std::time::Duration::from_secs(60), ..CalibrationOptions::default() }
}

/// Measures until the machine's noise leaves the pass plausible.
fn measure(bench: &mut Bench) -> CostTable {
    let clock = SystemClock::new();
    let calibrator = Calibrator { text: &bench.text, options: options(), clock: &clock };
    loop {
        match calibrator.measure(&mut bench.model) {
            Ok(found) => {
                assert_eq!((found.measurement.slots, found.measurement.runs.timed), (2, 45));
                return found.measurement.table;
            }
            Err(error) => assert!(error.is_refusal(), "{error}"),
        }
    }
}

fn hashes(model: &mut Model<Cpu>) -> Vec<u64> {
    (0..OPTIONS.slots).map(|slot| model.state_hash(slot).unwrap()).collect()
}

fn request(seed: u64) -> Request {
    let mut request = Request::new((0..30).map(|i| i * 11 % 500).collect(), 30, Box::new(NoText));
    request.sampling = Sampling { temperature: 0.8, seed, ..Sampling::greedy() };
    request
}

#[test]
fn a_measurement_leaves_every_slot_as_new_and_no_reply_changed() {
    let (mut plain, mut measured) = (bench(), bench());
    let before = hashes(&mut measured.model);
    assert_eq!(before, vec![before[0]; OPTIONS.slots]);
    let table = measure(&mut measured);
    assert_eq!(table.verify().len(), 32);
    assert_eq!(hashes(&mut measured.model), before);
    assert_eq!(hashes(&mut plain.model), before);
    let clock = SystemClock::new();
    let repeated = Calibrator { text: &measured.text, options: options(), clock: &clock }
        .repeat(&mut measured.model, 4, 3)
        .unwrap();
    assert_eq!((repeated.len(), hashes(&mut measured.model)), (3, before));
    let plain = Lanes::start(plain.model, LanesConfig::default()).unwrap();
    let measured = Lanes::start(measured.model, LanesConfig { table, ..LanesConfig::default() }).unwrap();
    assert_eq!(measured.handle().stats(), LanesStats::default());
    for seed in 0..3 {
        let (a, b) = (run(&plain.handle(), request(seed)), run(&measured.handle(), request(seed)));
        assert!(a.same_reply(&b), "{a:?}\n{b:?}");
        assert_eq!(a.stats.cached_tokens, b.stats.cached_tokens);
    }
}

#[test]
fn a_wiped_slot_is_one_never_used_and_has_no_staged_piece() {
    let mut model = bench().model;
    let (new, mut logits) = (model.state_hash(0).unwrap(), Logits::default());
    model.prefill(0, 0, &[3, 4, 5], Want::Nothing, &mut logits).unwrap();
    model.ingest(&[Ingest { slot: 0, start: 0, row: 0, count: 3 }]).unwrap();
    assert_ne!(model.state_hash(0).unwrap(), new);
    let taken = model.state_hash(0).unwrap();
    model.window(&[tokenfare_lanes::Segment { slot: 0, start: 3, tokens: &[6, 7] }], &mut logits).unwrap();
    model.drop_window(0, 3);
    assert_eq!(model.state_hash(0).unwrap(), taken);
    model.ingest(&[Ingest { slot: 0, start: 3, row: 0, count: 2 }]).unwrap();
    model.wipe(0);
    assert_eq!(model.state_hash(0).unwrap(), new);
    let staged = model.ingest(&[Ingest { slot: 0, start: 3, row: 0, count: 2 }]).unwrap_err();
    assert_eq!(
        staged.0,
        "context of slot 0 at position 3: rows 0 + 2 of the last launch hold other positions"
    );
    model.wipe(99);
    assert_eq!(model.state_hash(0).unwrap(), new);
    for rows in [0, 65] {
        assert_eq!(model.prepare(rows).unwrap_err().0, format!("a window of {rows} rows, expected 1 to 64"));
    }
    model.prepare(5).unwrap();
    assert_eq!(model.state_hash(0).unwrap(), new);
}

struct Counting(Arc<AtomicUsize>);

impl Observer for Counting {
    fn taps(&mut self, _width: usize, _taps: &[f32]) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn observers_are_paused_while_costs_are_measured() {
    let mut bench = bench();
    let seen = Arc::new(AtomicUsize::new(0));
    bench.model.observe(Some(Box::new(Counting(seen.clone()))));
    measure(&mut bench);
    assert_eq!(seen.load(Ordering::Relaxed), 0);
    let mut logits = Logits::default();
    bench.model.prefill(0, 0, &[3, 4, 5], Want::Nothing, &mut logits).unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), 1);
}

#[test]
fn exact_under_measured_and_odd_tables() {
    let workload = Workload { requests: vec![Box::new(|| request(1)), Box::new(|| request(2))] };
    let mut first = bench();
    let odd = CostTable::new(&[1.0, 1e5, 1e5, 1e6], 2.0, 500.0).unwrap();
    let tables = [measure(&mut first), odd];
    for table in tables {
        let compared = exactness_priced(|| bench().model, &workload, Breadth::Covering, &table);
        assert!(compared.unwrap_or_else(|e| panic!("{table}: {e}")).replies > 20);
    }
}
