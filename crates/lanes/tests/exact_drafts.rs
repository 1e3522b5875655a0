//! Drafted = undrafted, concurrent = solo, resumed = fresh, chunked = whole.

mod common;

use common::{filtered, prompt, request, sampled, warm};
use std::cell::RefCell;
use tokenfare_lanes::testkit::{Bound, Breadth, FakeConfig, FakeModel, Probe, Repeat, Words, exactness};
use tokenfare_lanes::testkit::{Compared, Workload};
use tokenfare_lanes::{Request, Sampling, TargetInfo, ThinkingBudget};

/// Ways in which the suite serves each request.
const SERVINGS: usize = 49;

fn workload() -> Workload {
    let mut requests: Vec<Box<dyn Fn() -> Request>> = Vec::new();
    for i in 0..4u32 {
        let len = 3 + 11 * i as usize;
        requests.push(Box::new(move || request(prompt(i, len), 40)));
        requests.push(Box::new(move || sampled(prompt(i, len), 40, warm(0), Some(i.into()))));
        requests.push(Box::new(move || sampled(prompt(i, len), 40, filtered(0), None)));
    }
    // Equal seeds over different prompts, and an equal request twice.
    for _ in 0..2 {
        requests.push(Box::new(|| sampled(prompt(9, 20), 30, warm(0), Some(1))));
    }
    requests.push(Box::new(|| {
        let mut r = sampled(prompt(10, 30), 60, warm(0), Some(5));
        r.report.logprobs = Some(3);
        r.stop_tokens = vec![7, 31];
        r.text = Box::new(Words::with_stops(&["ab", "xyz", "q"]));
        r
    }));
    requests.push(Box::new(|| {
        let mut r = request(prompt(11, 8), 50);
        r.report.logprobs = Some(0);
        r.thinking = Some(ThinkingBudget { tokens: 9, close: 39 });
        r.text = Box::new(Words::thinking(38, 39));
        r
    }));
    requests.push(Box::new(|| {
        let mut r = sampled(prompt(12, 17), 50, filtered(0), Some(8));
        r.text = Box::new(Words::bound(Bound::new(3, 33)));
        r
    }));
    requests.push(Box::new(|| {
        let mut r = sampled(prompt(13, 5), 25, warm(0), Some(3));
        r.draft = false;
        r
    }));
    Workload { requests }
}

/// Runs the suite over a fake, and checks that no model it made saw a breach of its contract.
fn exact(fake: &FakeConfig, workload: &Workload) -> Compared {
    let probes: RefCell<Vec<Probe>> = RefCell::default();
    let model = || {
        let (model, probe) = FakeModel::new(fake.clone());
        probes.borrow_mut().push(probe);
        model
    };
    let compared = exactness(model, workload, Breadth::Full).unwrap_or_else(|e| panic!("{e}"));
    for probe in probes.into_inner() {
        assert_eq!(probe.violations(), Vec::<String>::new());
        assert_eq!(probe.occupied(), 0);
    }
    compared
}

#[test]
fn exact_with_drafts_on_every_schedule() {
    let compared = exact(&FakeConfig::default(), &workload());
    assert_eq!(compared.replies, workload().requests.len() * SERVINGS);
    assert!(compared.accepted > 10_000 && compared.drafted > compared.accepted, "{compared:?}");
    assert!(compared.cached > 500, "{compared:?}");
}

#[test]
fn exact_with_right_drafts_and_with_wrong_drafts() {
    for right in [5, 0] {
        let compared = exact(&FakeConfig { right: vec![right], ..FakeConfig::default() }, &workload());
        assert_eq!(compared.accepted == 0, right == 0, "{compared:?}");
    }
}

#[test]
fn exact_with_copied_drafts() {
    let repeat = Some(Repeat { period: 6, strength: 7.5 });
    let compared = exact(&FakeConfig { repeat, ..FakeConfig::default() }, &workload());
    assert!(compared.copied > 1_000, "{compared:?}");
}

#[test]
fn exact_with_drafts_in_tight_windows() {
    // Fewer rows than lanes: streams take turns, and windows share what is left.
    for (slots, window_rows) in [(8, 3), (8, 9), (3, 64), (1, 1)] {
        let info = TargetInfo { slots, window_rows, ..FakeConfig::default().info };
        let compared = exact(&FakeConfig { info, ..FakeConfig::default() }, &workload());
        assert_eq!(compared.replies, workload().requests.len() * SERVINGS);
    }
}

#[test]
fn exact_on_a_model_without_drafts() {
    let info = TargetInfo { draft_block: 0, ..FakeConfig::default().info };
    let compared = exact(&FakeConfig { info, ..FakeConfig::default() }, &workload());
    assert_eq!((compared.drafted, compared.copied), (0, 0));
}

#[test]
fn sampled_drafts_are_kept_as_often_as_greedy_ones() {
    // The drafter draws with the reply's own keys, so an ideal drafter is right at any temperature.
    for sampling in [Sampling::greedy(), warm(4), filtered(4)] {
        let (lanes, _) = common::start(common::always_right(), common::fixed_depth(5));
        let reply =
            tokenfare_lanes::testkit::run(&lanes.handle(), sampled(prompt(3, 9), 61, sampling, Some(4)));
        assert_eq!((reply.stats.rounds, reply.stats.drafted, reply.stats.accepted), (10, 50, 50));
        assert_eq!(reply.groups, [[1].as_slice(), &[6; 10]].concat());
    }
}
