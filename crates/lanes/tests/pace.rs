//! How long running replies wait while a prompt is fed, by a clock that the model's work alone moves.

mod common;

use common::{assert_same, config, fixed_depth, prompt, request, serial, start, submit};
use rstest::rstest;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokenfare_lanes::testkit::{Call, FakeConfig, FakeModel, Probe, collect, run};
use tokenfare_lanes::{Clock, Lanes, LanesConfig, Reply, TargetInfo};

const PROMPT: usize = 3000;
/// Windows before the prompt comes.
const BEFORE: usize = 30;

/// What the model's calls cost, in microseconds.
#[derive(Clone, Copy)]
struct Costs {
    window: u64,
    piece: u64,
    row: u64,
}

struct WorkClock {
    probe: Probe,
    costs: Costs,
}

impl Clock for WorkClock {
    fn now(&self) -> Duration {
        let Self { probe, costs } = self;
        let count = |call| probe.count(call) as u64;
        let (windows, pieces, rows) = (count(Call::Window), count(Call::Prefill), probe.rows() as u64);
        Duration::from_micros(windows * costs.window + pieces * costs.piece + rows * costs.row)
    }
}

fn fake() -> FakeConfig {
    let fake = FakeConfig::default();
    FakeConfig { info: TargetInfo { piece_rows: 256, ..fake.info }, ..fake }
}

/// An engine that takes one draft or none a round, and its times at each window and rows before each piece.
fn watched(costs: Costs, piece_share: u32) -> (Lanes, Probe, Arc<WorkClock>) {
    let (model, probe) = FakeModel::new(fake());
    let clock = Arc::new(WorkClock { probe: probe.clone(), costs });
    let config = LanesConfig { clock: clock.clone(), piece_share, ..fixed_depth(0) };
    (Lanes::start(model, config).expect("a thread"), probe, clock)
}

/// Gaps between the windows of a running reply: the usual one, and those while a prompt is fed beside it.
fn gaps(costs: Costs, piece_share: u32) -> (Duration, Vec<Duration>) {
    let (lanes, probe, clock) = watched(costs, piece_share);
    let handle = lanes.handle();
    let (times, long) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(None::<Reply>)));
    let (to, late, watch) = (times.clone(), long.clone(), probe.clone());
    probe.on_call(move |call, number| {
        if call == Call::Window {
            to.lock().expect("no panic").push((clock.now(), watch.count(Call::Prefill)));
            if number == BEFORE {
                *late.lock().expect("no panic") = Some(submit(&handle, request(prompt(2, PROMPT), 3)));
            }
        }
    });
    let running = run(&lanes.handle(), request(prompt(1, 9), 1000));
    assert_same(&running, &serial(&fake(), request(prompt(1, 9), 1000)));
    let long = long.lock().expect("no panic").take().expect("it was submitted");
    assert_same(&collect(long), &serial(&fake(), request(prompt(2, PROMPT), 3)));
    drop(lanes);
    assert_eq!((probe.occupied(), probe.violations()), (0, vec![]));
    let times = times.lock().expect("no panic");
    let usual = times[BEFORE].0 - times[BEFORE - 1].0;
    let fed = times[times.len() - 1].1;
    let feeding = times.windows(2).filter(|pair| (1..fed).contains(&pair[0].1) && pair[1].1 > 1);
    (usual, feeding.map(|pair| pair[1].0 - pair[0].0).collect())
}

#[rstest]
#[case::as_dear_as_rows(Costs { window: 10_000, piece: 0, row: 500 })]
#[case::dear_launches(Costs { window: 10_000, piece: 6_000, row: 500 })]
#[case::cheap_rows(Costs { window: 10_000, piece: 1_000, row: 10 })]
fn exact_beside_a_long_prompt_with_no_gap_beyond_three_usual_ones(
    #[case] costs: Costs,
    #[values(25, 100)] share: u32,
) {
    let (usual, feeding) = gaps(costs, share);
    let most = feeding.iter().max().expect("the prompt is fed beside the reply");
    let mean = feeding.iter().sum::<Duration>() / feeding.len() as u32;
    assert!(*most <= 3 * usual && mean <= 3 * usual, "{most:?} at most, {mean:?} a gap, usually {usual:?}");
    // Short pieces are no shorter than they must be.
    assert!(costs.row == 10 || 2 * *most >= 3 * usual, "{most:?}, usually {usual:?}");
}

#[test]
fn a_prompt_alone_is_fed_in_whole_pieces() {
    let (lanes, probe, _) = watched(Costs { window: 10_000, piece: 0, row: 500 }, 25);
    run(&lanes.handle(), request(prompt(1, 9), 40));
    let before = probe.count(Call::Prefill);
    run(&lanes.handle(), request(prompt(2, PROMPT), 1));
    assert_eq!(probe.count(Call::Prefill) - before, PROMPT.div_ceil(256));
}

#[test]
fn without_a_share_whole_pieces_go_first() {
    let (lanes, probe) = start(fake(), LanesConfig { piece_share: 0, ..config() });
    let running = submit(&lanes.handle(), request(prompt(1, 9), 400));
    let long = submit(&lanes.handle(), request(prompt(2, PROMPT), 1));
    collect(running);
    collect(long);
    assert_eq!(probe.count(Call::Prefill), 1 + PROMPT.div_ceil(256));
}
