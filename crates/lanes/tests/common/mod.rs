//! What the suites share.
#![allow(dead_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokenfare_lanes::sampling::seed_of;
use tokenfare_lanes::testkit::{Collected, FakeConfig, FakeModel, FixedClock, Probe, Words, run};
use tokenfare_lanes::{Clock, Drafts, Lanes, LanesConfig, LanesHandle, Reply, Request, Sampling};
use tokenfare_pricing::{DepthConfig, Rule};

/// A prompt of `len` tokens below 26 that `seed` decides.
pub fn prompt(seed: u32, len: usize) -> Vec<u32> {
    (0..len as u32)
        .map(|i| (seed.wrapping_mul(7919) ^ i.wrapping_mul(2_654_435_761)) >> 7 & 0xff)
        .map(|x| x % 26)
        .collect()
}

/// Hot sampling with its own seed.
pub fn warm(seed: u64) -> Sampling {
    Sampling { temperature: 1.0, seed, ..Sampling::greedy() }
}

/// Filtered sampling with a bias.
pub fn filtered(seed: u64) -> Sampling {
    Sampling {
        temperature: 0.4,
        top_p: 0.9,
        top_k: 12,
        min_p: 0.01,
        seed,
        logit_bias: vec![(3, 1.5), (9, -2.0)],
    }
}

/// A greedy request.
pub fn request(prompt: Vec<u32>, max_new: usize) -> Request {
    Request::new(prompt, max_new, Box::new(Words::new()))
}

/// A sampled request; without a seed of its own it has the prompt's.
pub fn sampled(prompt: Vec<u32>, max_new: usize, sampling: Sampling, seed: Option<u64>) -> Request {
    let seed = seed.unwrap_or_else(|| seed_of(&prompt, "0"));
    let mut request = request(prompt, max_new);
    request.sampling = Sampling { seed, ..sampling };
    request
}

/// Settings with a clock that stands still and without kept prompts.
pub fn config() -> LanesConfig {
    LanesConfig { clock: Arc::new(FixedClock::default()), prompt_cache_bytes: 0, ..LanesConfig::default() }
}

/// [`config`] with a fixed depth.
pub fn fixed_depth(depth: usize) -> LanesConfig {
    LanesConfig { depth: DepthConfig { rule: Rule::Static { depth }, ..DepthConfig::default() }, ..config() }
}

/// An engine over a fake model.
pub fn start(fake: FakeConfig, config: LanesConfig) -> (Lanes, Probe) {
    let (model, probe) = FakeModel::new(fake);
    (Lanes::start(model, config).expect("a thread"), probe)
}

/// Validates and submits.
pub fn submit(lanes: &LanesHandle, request: Request) -> Reply {
    lanes.submit(request.validate(lanes.info()).expect("a valid request")).expect("room in the queue")
}

/// A fake whose drafts are always right.
pub fn always_right() -> FakeConfig {
    FakeConfig { right: vec![5], ..FakeConfig::default() }
}

/// The reply of a request served alone without drafts.
pub fn serial(fake: &FakeConfig, mut request: Request) -> Collected {
    let (lanes, _) = start(fake.clone(), LanesConfig { drafts: Drafts::Off, ..config() });
    request.draft = false;
    run(&lanes.handle(), request)
}

/// Checks that two replies agree in all that the contract covers.
#[track_caller]
pub fn assert_same(found: &Collected, expected: &Collected) {
    assert!(found.same_reply(expected), "found    {found:?}\nexpected {expected:?}");
}

/// A clock that moves by one millisecond whenever it is read.
#[derive(Default)]
pub struct TickingClock(AtomicU64);

impl Clock for TickingClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
    }
}
