//! Queueing, cancelling, joining and ending, while every other reply stays the same.

mod common;

use common::{
    TickingClock, always_right, assert_same, config, fixed_depth, prompt, request, sampled, serial, start,
    submit, warm,
};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokenfare_lanes::testkit::{Call, Collected, FakeConfig, Probe, collect, run};
use tokenfare_lanes::{
    Canceller, Event, Finish, LanesConfig, LanesHandle, Priority, Reply, Report, Request, SubmitError,
    TargetInfo,
};
use tokenfare_pricing::DepthConfig;

fn with_info(change: impl FnOnce(&mut TargetInfo)) -> FakeConfig {
    let mut fake = FakeConfig::default();
    change(&mut fake.info);
    fake
}

fn long(seed: u32) -> Request {
    sampled(prompt(seed, 40), 30, warm(0), Some(seed.into()))
}

/// Submits `requests` from the engine's own thread just before call `number` of a kind, so that the moment is exact.
fn submit_at(
    probe: &Probe,
    lanes: &LanesHandle,
    at: (Call, usize),
    make: fn() -> Vec<Request>,
) -> Arc<Mutex<Vec<Reply>>> {
    let replies = Arc::new(Mutex::new(Vec::new()));
    let (lanes, out) = (lanes.clone(), replies.clone());
    probe.on_call(move |call, number| {
        if (call, number) == at {
            let submitted = make().into_iter().map(|r| submit(&lanes, r));
            out.lock().expect("no panic").extend(submitted);
        }
    });
    replies
}

fn collect_all(replies: &Mutex<Vec<Reply>>) -> Vec<Collected> {
    std::mem::take(&mut *replies.lock().expect("no panic")).into_iter().map(collect).collect()
}

#[test]
fn exact_when_streams_join_at_any_round() {
    let fake = FakeConfig::default();
    let expected: Vec<Collected> = (1..4).map(|seed| serial(&fake, long(seed))).collect();
    for at in 0..8 {
        let (lanes, probe) = start(fake.clone(), config());
        let joined = submit_at(&probe, &lanes.handle(), (Call::Window, at), || vec![long(2), long(3)]);
        let first = run(&lanes.handle(), long(1));
        assert_same(&first, &expected[0]);
        let joined = collect_all(&joined);
        assert_eq!(joined.len(), 2);
        assert_same(&joined[0], &expected[1]);
        assert_same(&joined[1], &expected[2]);
        drop(lanes);
        assert_eq!((probe.occupied(), probe.violations()), (0, vec![]));
    }
}

#[test]
fn exact_beside_a_neighbour_cancelled_at_any_call() {
    let fake = with_info(|info| info.piece_rows = 8);
    let expected: Vec<Collected> = (1..4).map(|seed| serial(&fake, long(seed))).collect();
    for call in [Call::Prefill, Call::Window, Call::Ingest, Call::Propose] {
        for at in 0..16 {
            let (lanes, probe) = start(fake.clone(), LanesConfig { prompt_cache_bytes: 1 << 20, ..config() });
            let handle = lanes.handle();
            let switch = Arc::new(OnceLock::<Canceller>::new());
            let canceller = switch.clone();
            probe.on_call(move |c, n| {
                if (c, n) == (call, at) {
                    canceller.wait().cancel();
                }
            });
            let replies = [1, 2, 3].map(|seed| submit(&handle, long(seed)));
            switch.get_or_init(|| replies[1].canceller());
            let [first, victim, third] = replies.map(collect);
            assert_same(&first, &expected[0]);
            assert_same(&third, &expected[2]);
            assert!(expected[1].ids.starts_with(&victim.ids));
            assert!(matches!(victim.finish, Some(Finish::Cancelled | Finish::Length)), "{:?}", victim.finish);
            assert_same(&run(&handle, long(2)), &expected[1]);
            drop(lanes);
            assert_eq!((probe.occupied(), probe.violations()), (0, vec![]));
        }
    }
}

#[test]
fn a_cancel_stops_a_prompt_before_its_next_piece() {
    let (lanes, probe) = start(with_info(|info| info.piece_rows = 4), config());
    let handle = lanes.handle();
    let switch = Arc::new(OnceLock::<Canceller>::new());
    let canceller = switch.clone();
    probe.on_call(move |call, number| {
        if (call, number) == (Call::Prefill, 3) {
            canceller.wait().cancel();
        }
    });
    let reply = submit(&handle, long(1));
    switch.get_or_init(|| reply.canceller());
    let reply = collect(reply);
    assert_eq!((reply.finish, reply.prefilled, reply.ids), (Some(Finish::Cancelled), 0, vec![]));
    assert_eq!((probe.count(Call::Prefill), probe.rows()), (4, 16));
    assert_eq!(handle.stats().cancelled, 1);
}

#[test]
fn dropping_a_reply_frees_its_lane() {
    let (lanes, probe) = start(with_info(|info| info.slots = 1), config());
    let handle = lanes.handle();
    let mut gone = submit(&handle, request(prompt(1, 4), 4000));
    assert!(matches!(gone.blocking_next(), Some(Event::Prefilled { cached: 0, prompt_logprobs: None })));
    drop(gone);
    assert_same(&run(&handle, long(2)), &serial(&FakeConfig::default(), long(2)));
    assert_eq!((handle.stats().cancelled, handle.stats().finished), (1, 1));
    drop(lanes);
    assert_eq!(probe.violations(), Vec::<String>::new());
}

#[test]
fn foreground_requests_are_served_before_background_ones() {
    let (lanes, probe) = start(
        with_info(|info| info.slots = 1),
        LanesConfig { clock: Arc::new(TickingClock::default()), ..config() },
    );
    let waiting = submit_at(&probe, &lanes.handle(), (Call::Prefill, 0), || {
        let classes =
            [Priority::Background, Priority::Foreground, Priority::Background, Priority::Foreground];
        classes.into_iter().map(|priority| Request { priority, ..long(5) }).collect()
    });
    run(&lanes.handle(), long(1));
    let waited: Vec<f64> = collect_all(&waiting).iter().map(|r| r.stats.queue_s).collect();
    let mut order: Vec<usize> = (0..4).collect();
    order.sort_by(|&a, &b| waited[a].total_cmp(&waited[b]));
    assert_eq!(order, [1, 3, 0, 2], "{waited:?}");
}

#[test]
fn a_full_queue_refuses_and_a_cancelled_one_makes_room() {
    let (lanes, probe) = start(with_info(|info| info.slots = 1), LanesConfig { queue: 2, ..config() });
    let refused = Arc::new(Mutex::new(Vec::new()));
    let (handle, out) = (lanes.handle(), refused.clone());
    let mut waiting = Vec::new();
    probe.on_call(move |call, number| {
        if (call, number) == (Call::Prefill, 0) {
            for seed in 0..3 {
                let valid = long(seed).validate(handle.info()).expect("a valid request");
                match handle.submit(valid) {
                    Ok(reply) => waiting.push(reply),
                    Err(error) => out.lock().expect("no panic").push(error),
                }
            }
            assert_eq!(handle.stats().waiting, 2);
            waiting.clear();
        }
    });
    run(&lanes.handle(), long(1));
    assert_eq!(*refused.lock().expect("no panic"), [SubmitError::QueueFull { limit: 2 }]);
    run(&lanes.handle(), long(2));
    let stats = lanes.handle().stats();
    assert_eq!((stats.waiting, stats.running, stats.finished, stats.cancelled), (0, 0, 2, 2));
}

#[test]
fn shutdown_finishes_what_it_has_within_its_grace() {
    let (lanes, _) = start(FakeConfig::default(), config());
    let handle = lanes.handle();
    let reply = submit(&handle, long(1));
    handle.close();
    assert!(!handle.is_open());
    let refused = long(2).validate(handle.info()).map(|valid| handle.submit(valid).map(drop));
    assert_eq!(refused, Ok(Err(SubmitError::ShuttingDown)));
    lanes.shutdown(Duration::from_secs(600));
    assert_same(&collect(reply), &serial(&FakeConfig::default(), long(1)));
}

#[test]
fn stopping_cancels_running_and_waiting_replies() {
    let (lanes, _) = start(with_info(|info| info.slots = 1), config());
    let handle = lanes.handle();
    let replies: Vec<Reply> = (0..3).map(|seed| submit(&handle, request(prompt(seed, 4), 4000))).collect();
    lanes.shutdown(Duration::ZERO);
    for reply in replies {
        assert_eq!(collect(reply).finish, Some(Finish::Cancelled));
    }
    assert_eq!(handle.stats().cancelled, 3);
}

#[test]
fn a_request_for_no_tokens_only_evaluates_its_prompt() {
    let (lanes, probe) = start(FakeConfig::default(), config());
    let reply = run(&lanes.handle(), request(prompt(1, 20), 0));
    assert_eq!((reply.prefilled, reply.ids.len(), reply.finish), (1, 0, Some(Finish::Length)));
    assert_eq!(reply.stats.token_sha256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_eq!((probe.rows(), probe.count(Call::Window), probe.count(Call::Propose)), (20, 0, 0));
}

#[test]
fn exact_prompt_logprobs_in_any_pieces() {
    let fake = FakeConfig::default();
    let expected = run(
        &start(fake.clone(), config()).0.handle(),
        Request { report: Report { logprobs: Some(2), prompt_logprobs: None }, ..long(4) },
    );
    let whole: Vec<u32> = [prompt(4, 40), expected.ids.clone()].concat();
    for piece_rows in [1, 3, 16, usize::MAX] {
        let (lanes, _) = start(fake.clone(), LanesConfig { piece_rows, ..config() });
        let report = Report { logprobs: None, prompt_logprobs: Some(2) };
        let reply = run(&lanes.handle(), Request { report, ..request(whole.clone(), 0) });
        let found = reply.prompt_logprobs.unwrap_or_default();
        assert_eq!(found.len(), whole.len() - 1);
        assert_eq!(found.iter().map(|l| l.id).collect::<Vec<_>>(), whole[1..]);
        // A token's log-probability is the same whether it was generated or read.
        assert_eq!(found[39..], expected.logprobs);
    }
}

#[test]
fn exact_over_sixty_four_repeats_of_one_workload() {
    let fake = FakeConfig::default();
    let (lanes, probe) = start(fake.clone(), LanesConfig { prompt_cache_bytes: 4000, ..config() });
    let handle = lanes.handle();
    // Seeded and unseeded side by side, and one seed over two prompts and twice over one.
    let make = |i: usize| match i {
        0 => sampled(prompt(1, 20), 12, warm(0), Some(7)),
        1 => sampled(prompt(1, 20), 12, warm(0), None),
        2 => sampled(prompt(2, 9), 12, warm(0), Some(7)),
        3 => sampled(prompt(2, 9), 12, common::filtered(0), Some(7)),
        _ => sampled(prompt(1, 20), 12, warm(0), Some(7)),
    };
    let expected: Vec<Collected> = (0..5).map(|i| serial(&fake, make(i))).collect();
    assert!(expected[0].same_reply(&expected[4]) && !expected[0].same_reply(&expected[1]));
    for _ in 0..64 {
        let replies: Vec<Reply> = (0..5).map(|i| submit(&handle, make(i))).collect();
        for (reply, expected) in replies.into_iter().zip(&expected) {
            assert_same(&collect(reply), expected);
        }
    }
    assert_eq!(handle.stats().finished, 320);
    drop(lanes);
    assert_eq!((probe.occupied(), probe.violations()), (0, vec![]));
}

#[test]
fn plain_rounds_draft_nothing() {
    let depth = DepthConfig { plain_streams: 2, ..DepthConfig::default() };
    let (lanes, probe) = start(always_right(), LanesConfig { depth, piece_share: 0, ..config() });
    let others = submit_at(&probe, &lanes.handle(), (Call::Prefill, 0), || vec![long(2)]);
    let first = run(&lanes.handle(), long(1));
    let second = collect_all(&others).remove(0);
    for reply in [&first, &second] {
        assert_eq!((reply.stats.rounds, reply.stats.zero_depth, reply.stats.drafted), (29, 29, 0));
    }
    assert_eq!(probe.count(Call::Propose), 1);
    let alone = run(&lanes.handle(), long(1));
    assert!(alone.same_reply(&first) && alone.stats.accepted > 15, "{:?}", alone.stats);
}

#[test]
fn running_streams_get_rounds_between_the_pieces_of_a_prompt() {
    for (piece_share, between) in [(0, 0), (25, 1)] {
        let fake = with_info(|info| info.piece_rows = 4);
        let (lanes, probe) = start(fake, LanesConfig { piece_share, ..fixed_depth(0) });
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (handle, log) = (lanes.handle(), calls.clone());
        let mut joined = Vec::new();
        probe.on_call(move |call, number| {
            if (call, number) == (Call::Window, 0) {
                joined.push(submit(&handle, long(2)));
            }
            log.lock().expect("no panic").push(call);
        });
        assert_eq!(run(&lanes.handle(), request(prompt(1, 4), 60)).ids.len(), 60);
        let calls = calls.lock().expect("no panic");
        let pieces: Vec<usize> = (0..calls.len()).filter(|&i| calls[i] == Call::Prefill).collect();
        assert_eq!(pieces.len(), 1 + 10);
        for pair in pieces[1..].windows(2) {
            let rounds = calls[pair[0]..pair[1]].iter().filter(|&&call| call == Call::Window).count();
            assert_eq!(rounds, between);
        }
    }
}

#[test]
fn counts_add_up() {
    let (lanes, _) = start(always_right(), fixed_depth(3));
    let reply = run(&lanes.handle(), Request { prompt: prompt(3, 10), ..request(vec![1], 13) });
    assert_eq!(reply.groups, [1, 4, 4, 4]);
    let s = &reply.stats;
    assert_eq!((s.rounds, s.drafted, s.accepted, s.copied, s.zero_depth), (3, 9, 9, (0, 0), 0));
    let t = lanes.handle().stats();
    assert_eq!(
        (t.rounds, t.drafted, t.accepted, t.launches, t.completion_tokens, t.prompt_tokens),
        (3, 9, 9, 3, 13, 10)
    );
    assert_eq!(t.positions.iter().map(|p| (p.reached, p.kept)).collect::<Vec<_>>(), [(3, 3); 3]);
}
