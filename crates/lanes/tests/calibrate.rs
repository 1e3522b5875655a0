//! A measurement of a model: what it times, what it leaves behind, and what its table changes.

mod common;

use common::{assert_same, config, prompt, sampled, serial, start, submit, warm};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokenfare_lanes::testkit::{
    Breadth, Call, FakeConfig, FakeModel, Fault, Workload, collect, exactness_priced, run,
};
use tokenfare_lanes::{
    Ask, Calibrated, CalibrationError, Calibrator, Clock, Drafter, Drafts, Ingest, Lanes, LanesConfig,
    LanesStats, Logits, Proposal, SavedState, Segment, Target, TargetError, TargetInfo, Want,
};
use tokenfare_pricing::{CalibrationOptions, CostTable, DepthConfig, Rule};

/// A clock that stands still until a model call moves it.
#[derive(Clone, Default)]
struct Hands(Arc<AtomicU64>);

impl Hands {
    fn forward(&self, us: u64) {
        self.0.fetch_add(us, Ordering::Relaxed);
    }
}

impl Clock for Hands {
    fn now(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

/// Microseconds of every call; a first ingest after a window costs eleven times the rest.
#[derive(Clone, Copy)]
struct Prices {
    window: fn(usize) -> u64,
    pass: u64,
    ingest: u64,
}

const PRICES: Prices = Prices { window: |rows| 20_000 + 1000 * rows as u64, pass: 4000, ingest: 600 };

/// A fake model on a clock of its own.
struct Timed {
    model: FakeModel,
    clock: Hands,
    prices: Prices,
    cold: bool,
    /// Rows and segments of every window.
    windows: Vec<(usize, usize)>,
    prepared: BTreeSet<usize>,
}

impl Timed {
    fn new(model: FakeModel, prices: Prices) -> Self {
        Self {
            model,
            clock: Hands::default(),
            prices,
            cold: false,
            windows: Vec::new(),
            prepared: BTreeSet::new(),
        }
    }
}

impl Target for Timed {
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
        self.clock.forward(7000);
        self.model.prefill(slot, start, tokens, want, logits)
    }
    fn window(&mut self, segments: &[Segment<'_>], logits: &mut Logits) -> Result<(), TargetError> {
        let rows = segments.iter().map(|s| s.tokens.len()).sum();
        self.windows.push((rows, segments.len()));
        self.cold = true;
        // A window of a row count that was never made ready is dearer.
        self.prepare(rows)?;
        self.clock.forward((self.prices.window)(rows) + 500 * (segments.len() as u64 - 1));
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
        if self.prepared.insert(rows) {
            self.clock.forward(5000);
        }
        self.model.prepare(rows)
    }
    fn drop_window(&mut self, slot: usize, len: usize) {
        self.model.drop_window(slot, len);
    }
    fn wipe(&mut self, slot: usize) {
        self.model.wipe(slot);
    }
}

impl Drafter for Timed {
    fn ingest(&mut self, items: &[Ingest]) -> Result<(), TargetError> {
        let dear =
            if std::mem::take(&mut self.cold) { 11 * (self.prices.pass + self.prices.ingest) } else { 0 };
        self.clock.forward(self.prices.ingest + dear);
        self.model.ingest(items)
    }
    fn propose(&mut self, asks: &[Ask<'_>]) -> Result<Vec<Proposal>, TargetError> {
        self.clock.forward(self.prices.pass);
        self.model.propose(asks)
    }
    fn reset(&mut self, slot: usize) {
        self.model.reset(slot);
    }
}

fn text() -> Vec<u32> {
    (0..200).map(|i| i * 7 % 40).collect()
}

fn measure(model: &mut Timed, options: CalibrationOptions) -> Result<Calibrated, CalibrationError> {
    let (text, clock) = (text(), model.clock.clone());
    Calibrator { text: &text, options, clock: &clock }.measure(model)
}

fn hashes(model: &mut impl Target) -> Vec<u64> {
    (0..model.info().slots).map(|slot| model.state_hash(slot).expect("a slot")).collect()
}

#[test]
fn every_window_is_timed_and_a_cold_first_ingest_is_no_pass() {
    let (model, probe) = FakeModel::new(FakeConfig::default());
    let mut model = Timed::new(model, PRICES);
    let before = hashes(&mut model);
    let Calibrated { measurement, tally } =
        measure(&mut model, CalibrationOptions::default()).expect("a table");
    let table = &measurement.table;
    assert_eq!((table.window_ms(1), table.window_ms(6), table.window_ms(16)), (21.0, 26.0, 36.0));
    assert_eq!((table.slot_ms(), table.window_ms(32)), (0.5, 52.0));
    assert_eq!((table.draft_ms(), measurement.ingest_ms, measurement.first_ms), (4.6, 0.6, 51.2));
    assert_eq!((measurement.slots, measurement.runs.planned, measurement.runs.timed), (2, 45, 45));
    // One untimed window, 36 timed ones and the pair's three; a pass after the prompt, an untimed and five timed ones.
    assert_eq!((tally.text, tally.prompt_rows, tally.launches), (200, 4, 1 + 36 + 3 + 7));
    assert_eq!((probe.count(Call::Window), probe.count(Call::Propose)), (40, 7));
    assert_eq!(tally.prompt_time, Duration::from_micros(2 * (7000 + 600)));
    // Ten row counts are made ready outside every timed run.
    assert_eq!(tally.whole, tally.prompt_time + tally.launch_time + Duration::from_millis(10 * 5));
    assert_eq!(model.windows[..3], [(6, 1), (1, 1), (2, 1)]);
    assert!(model.windows.contains(&(8, 2)) && model.windows.contains(&(17, 2)));
    assert_eq!((hashes(&mut model), probe.occupied(), probe.violations()), (before, 0, Vec::new()));
    assert_eq!(probe.calibrations(), (1, 1));
}

#[test]
fn a_budget_that_is_spent_drops_every_repeat_and_nothing_else() {
    let slow = Prices { window: |_| 150_000, pass: 10_000, ingest: 10 };
    let mut model = Timed::new(FakeModel::new(FakeConfig::default()).0, slow);
    let found = measure(&mut model, CalibrationOptions::default()).expect("a table");
    assert_eq!((found.measurement.runs.planned, found.measurement.runs.timed), (45, 21));
    let rows = [6, 1, 2, 3, 4, 5, 6, 8, 16, 8, 17, 32, 8, 8, 8, 8];
    assert_eq!(model.windows.iter().map(|w| w.0).collect::<Vec<_>>(), rows);
    assert_eq!(model.windows.iter().filter(|w| **w == (8, 2)).count(), 3);
}

#[test]
fn one_lane_has_no_pair_and_no_long_launches() {
    let info = TargetInfo { slots: 1, ..FakeConfig::default().info };
    let (model, probe) = FakeModel::new(FakeConfig { info, ..FakeConfig::default() });
    let mut model = Timed::new(model, PRICES);
    let found = measure(&mut model, CalibrationOptions::default()).expect("a table");
    assert_eq!((found.measurement.table.verify().len(), found.measurement.table.slot_ms()), (16, 0.0));
    assert!(model.windows.iter().all(|w| w.1 == 1 && w.0 <= 16));
    assert!(probe.violations().is_empty());
}

#[test]
fn small_pieces_and_short_texts_serve_too() {
    let info = TargetInfo { piece_rows: 1, ..FakeConfig::default().info };
    let (model, probe) = FakeModel::new(FakeConfig { info, ..FakeConfig::default() });
    let mut model = Timed::new(model, PRICES);
    let clock = model.clock.clone();
    let calibrator = Calibrator { text: &[3], options: CalibrationOptions::default(), clock: &clock };
    assert_eq!(calibrator.measure(&mut model).expect("a table").tally.prompt_rows, 4);
    assert!(probe.violations().is_empty());
}

#[test]
fn what_cannot_be_measured_is_told() {
    let fails = |info: TargetInfo, text: &[u32]| {
        let mut model = Timed::new(FakeModel::new(FakeConfig { info, ..FakeConfig::default() }).0, PRICES);
        let clock = model.clock.clone();
        let calibrator = Calibrator { text, options: CalibrationOptions::default(), clock: &clock };
        calibrator.measure(&mut model).expect_err("no table")
    };
    let info = FakeConfig::default().info;
    assert_eq!(fails(TargetInfo { draft_block: 0, ..info.clone() }, &[1]), CalibrationError::NoDrafter);
    assert_eq!(fails(info.clone(), &[]), CalibrationError::NoText);
    assert!(matches!(fails(TargetInfo { context: 3, ..info }, &[1]), CalibrationError::NoRoom(_)));
}

#[test]
fn a_pass_dearer_than_two_windows_is_a_refusal() {
    let dear = Prices { pass: 43_000, ..PRICES };
    let (model, probe) = FakeModel::new(FakeConfig::default());
    let mut model = Timed::new(model, dear);
    let error = measure(&mut model, CalibrationOptions::default()).expect_err("refused");
    assert!(error.is_refusal());
    let words = "a pass of 43.600 ms is dearer than twice its own 1-row window of 21.000 ms";
    assert_eq!(error.to_string(), words);
    assert_eq!((probe.occupied(), probe.calibrations()), (0, (1, 1)));
}

#[test]
fn a_failure_at_any_call_leaves_nothing_behind() {
    let calls =
        [(Call::Prefill, [0, 1]), (Call::Ingest, [0, 5]), (Call::Window, [0, 10]), (Call::Propose, [0, 6])];
    for (call, numbers) in calls {
        for number in numbers {
            let (model, probe) = FakeModel::new(FakeConfig::default());
            probe.fault(call, number, Fault::Error);
            let mut model = Timed::new(model, PRICES);
            let before = hashes(&mut model);
            let error = measure(&mut model, CalibrationOptions::default()).expect_err("a failure");
            assert_eq!(error.to_string(), format!("{call:?} fails on schedule"));
            assert!(!error.is_refusal());
            assert_eq!((hashes(&mut model), probe.violations()), (before, Vec::new()), "{call:?} {number}");
            assert_eq!(probe.calibrations(), (1, 1));
        }
    }
}

#[test]
fn a_window_is_repeated_for_the_noise_of_the_machine() {
    let (model, probe) = FakeModel::new(FakeConfig::default());
    let mut model = Timed::new(model, PRICES);
    let (text, clock) = (text(), model.clock.clone());
    let calibrator = Calibrator { text: &text, options: CalibrationOptions::default(), clock: &clock };
    let times = calibrator.repeat(&mut model, 4, 3).expect("times");
    assert_eq!((times, model.windows), (vec![Duration::from_micros(24_000); 3], vec![(4, 1); 4]));
    assert_eq!((probe.occupied(), probe.violations()), (0, Vec::new()));
}

#[test]
fn an_engine_over_a_measured_model_has_counted_nothing() {
    let (model, probe) = FakeModel::new(FakeConfig::default());
    let mut model = Timed::new(model, PRICES);
    let found = measure(&mut model, CalibrationOptions::default()).expect("a table");
    let lanes =
        Lanes::start(model, LanesConfig { table: found.measurement.table, ..config() }).expect("a thread");
    assert_eq!(lanes.handle().stats(), LanesStats::default());
    let request = || sampled(prompt(4, 12), 30, warm(3), None);
    assert_same(&run(&lanes.handle(), request()), &serial(&FakeConfig::default(), request()));
    drop(lanes);
    assert!(probe.violations().is_empty());
}

/// Tables as a machine may give them, and as no machine does.
fn odd_tables() -> Vec<CostTable> {
    let table = |verify: &[f64], draft, slot| CostTable::new(verify, draft, slot).expect("a table");
    let mut model = Timed::new(FakeModel::new(FakeConfig::default()).0, PRICES);
    let measured = measure(&mut model, CalibrationOptions::default()).expect("a table").measurement.table;
    vec![
        measured,
        table(&[1.0, 1.0], 2.0, 0.0),
        table(&[10.0, 1e6], 0.001, 900.0),
        table(&(1..=64).map(|r| f64::from(r * r)).collect::<Vec<_>>(), 1.0, 0.0),
        table(&[0.001; 32], 0.002, 1e6),
    ]
}

#[test]
fn exact_under_any_table() {
    let workload = Workload {
        requests: vec![
            Box::new(|| sampled(prompt(1, 20), 24, warm(1), None)),
            Box::new(|| sampled(prompt(2, 9), 24, warm(2), Some(5))),
            Box::new(|| common::request(prompt(3, 30), 24)),
        ],
    };
    for table in odd_tables() {
        let model = || FakeModel::new(FakeConfig::default()).0;
        let compared = exactness_priced(model, &workload, Breadth::Covering, &table);
        assert!(compared.unwrap_or_else(|e| panic!("{table}: {e}")).replies > 30);
    }
}

#[test]
fn a_table_changes_depths_and_no_token() {
    let fake = FakeConfig::default();
    let request = || sampled(prompt(7, 15), 60, warm(9), None);
    let expected = serial(&fake, request());
    let mut depths = Vec::new();
    for table in odd_tables() {
        let (lanes, probe) = start(fake.clone(), LanesConfig { table, ..config() });
        let found = run(&lanes.handle(), request());
        assert_same(&found, &expected);
        depths.push(found.stats.drafted);
        let pair = [submit(&lanes.handle(), request()), submit(&lanes.handle(), request())];
        pair.map(collect).iter().for_each(|found| assert_same(found, &expected));
        assert!(probe.violations().is_empty());
    }
    let static_depth = DepthConfig { rule: Rule::Static { depth: 0 }, ..DepthConfig::default() };
    let (lanes, _) = start(fake.clone(), LanesConfig { depth: static_depth, drafts: Drafts::On, ..config() });
    assert_same(&run(&lanes.handle(), request()), &expected);
    depths.sort_unstable();
    depths.dedup();
    assert!(depths.len() > 2, "{depths:?}");
}
