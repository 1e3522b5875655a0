//! Kept prompt states: what is resumed, what is kept, and that neither changes a reply.

mod common;

use common::{assert_same, config, prompt, request, sampled, serial, start, submit, warm};
use tokenfare_lanes::testkit::{Call, Collected, FakeConfig, Fault, Probe, collect, run};
use tokenfare_lanes::{Lanes, LanesConfig, Reply, Report, Request};

fn cached(bytes: usize) -> (Lanes, Probe) {
    start(FakeConfig::default(), LanesConfig { prompt_cache_bytes: bytes, ..config() })
}

fn turn(prompt: Vec<u32>) -> Request {
    sampled(prompt, 12, warm(0), Some(6))
}

fn fresh(request: Request) -> Collected {
    serial(&FakeConfig::default(), request)
}

#[test]
fn an_equal_prompt_resumes_one_token_before_its_end() {
    let (lanes, probe) = cached(1 << 20);
    let first = run(&lanes.handle(), turn(prompt(1, 40)));
    let again = run(&lanes.handle(), turn(prompt(1, 40)));
    assert_eq!((first.stats.cached_tokens, again.stats.cached_tokens), (0, 39));
    assert_same(&first, &fresh(turn(prompt(1, 40))));
    assert_same(&again, &first);
    let stats = lanes.handle().stats();
    assert_eq!((stats.cache_hits, stats.cache_misses, stats.cached_tokens), (1, 1, 39));
    assert_eq!(stats.cache_entries, 2);
    let rows = probe.rows();
    run(&lanes.handle(), Request { max_new: 1, ..turn(prompt(1, 40)) });
    assert_eq!(probe.rows() - rows, 1);
}

#[test]
fn the_next_turn_resumes_at_the_last_token_of_the_reply() {
    let (lanes, _) = cached(1 << 20);
    let mut history = prompt(2, 9);
    let mut resumed = Vec::new();
    for i in 0..4 {
        let mut request = turn(history.clone());
        // The second reply ends with a stop token in the middle of its drafts.
        if i == 1 {
            request.stop_tokens = fresh(turn(history.clone())).ids[5..6].to_vec();
        }
        let reply = run(&lanes.handle(), request);
        resumed.push(history.len() + reply.ids.len() - 1);
        assert_same(
            &reply,
            &fresh({
                let mut request = turn(history.clone());
                if i == 1 {
                    request.stop_tokens = fresh(turn(history.clone())).ids[5..6].to_vec();
                }
                request
            }),
        );
        assert_eq!(reply.stats.cached_tokens, if i == 0 { 0 } else { resumed[i - 1] });
        history.extend(&reply.ids);
        history.extend(prompt(50 + i as u32, 5));
    }
}

#[test]
fn a_shared_system_prompt_is_resumed_at_its_mark() {
    let (lanes, _) = cached(1 << 20);
    let system = prompt(3, 300);
    let with = |seed| {
        let mut request = turn([system.clone(), prompt(seed, 30)].concat());
        request.marks = vec![20, 100, 300];
        request
    };
    for (seed, expected) in [(10, 0), (11, 300), (12, 300)] {
        let found = run(&lanes.handle(), with(seed));
        assert_same(&found, &fresh(with(seed)));
        assert_eq!(found.stats.cached_tokens, expected, "seed {seed}");
    }
    // Of marks closer than 256 tokens the longer is kept, so nothing stands at 100.
    for (shared, expected) in [(299, 20), (100, 20), (19, 0)] {
        let found = run(&lanes.handle(), turn([&system[..shared], &[39, 1, 2]].concat()));
        assert_eq!(found.stats.cached_tokens, expected, "{shared} tokens shared");
    }
}

#[test]
fn a_failed_restore_is_dropped_and_the_prompt_fed_from_its_start() {
    let (lanes, probe) = cached(1 << 20);
    let first = run(&lanes.handle(), turn(prompt(4, 40)));
    probe.fault(Call::Restore, 0, Fault::Error);
    let again = run(&lanes.handle(), turn(prompt(4, 40)));
    assert_eq!((again.stats.cached_tokens, probe.count(Call::Restore)), (0, 1));
    assert_same(&again, &first);
    let third = run(&lanes.handle(), turn(prompt(4, 40)));
    assert_eq!((third.stats.cached_tokens, probe.count(Call::Restore)), (39, 2));
    assert_same(&third, &first);
    drop(lanes);
    assert_eq!((probe.occupied(), probe.violations()), (0, vec![]));
}

#[test]
fn a_failed_save_keeps_nothing_and_fails_nothing() {
    let (lanes, probe) = cached(1 << 20);
    for number in 0..2 {
        probe.fault(Call::Save, number, Fault::Error);
    }
    let first = run(&lanes.handle(), turn(prompt(5, 40)));
    assert_same(&first, &fresh(turn(prompt(5, 40))));
    assert_eq!(lanes.handle().stats().cache_entries, 0);
}

#[test]
fn any_budget_is_kept_to_and_changes_no_reply() {
    for budget in [0, 1, 200, 500, 1000, 3000] {
        let (lanes, probe) = cached(budget);
        for round in 0..3 {
            for seed in 0..4 {
                let found = run(&lanes.handle(), turn(prompt(seed, 20 + seed as usize)));
                assert_same(&found, &fresh(turn(prompt(seed, 20 + seed as usize))));
                let stats = lanes.handle().stats();
                assert!(stats.cache_bytes <= budget, "{stats:?}");
                assert_eq!(found.stats.cached_tokens > 0, budget == 3000 && round > 0);
            }
        }
        drop(lanes);
        assert_eq!((probe.occupied(), probe.violations()), (0, vec![]));
    }
}

#[test]
fn equal_prompts_submitted_together_are_fed_once() {
    let (lanes, probe) = cached(1 << 20);
    let handle = lanes.handle();
    let choice = |i| sampled(prompt(7, 64), 12, warm(0), Some(i));
    let replies: Vec<Reply> = (0..4).map(|i| submit(&handle, choice(i))).collect();
    let replies: Vec<Collected> = replies.into_iter().map(collect).collect();
    for (i, reply) in (0..).zip(&replies) {
        assert_same(reply, &fresh(choice(i)));
        assert_eq!(reply.stats.cached_tokens, if i == 0 { 0 } else { 63 });
    }
    assert_eq!(probe.count(Call::Restore), 3);
}

#[test]
fn undrafted_and_drafted_requests_resume_each_other() {
    let (lanes, probe) = cached(1 << 20);
    for draft in [false, true, false, true] {
        let found = run(&lanes.handle(), Request { draft, ..turn(prompt(8, 33)) });
        assert_same(&found, &fresh(turn(prompt(8, 33))));
        assert_eq!(found.stats.drafted > 0, draft);
    }
    drop(lanes);
    assert_eq!(probe.violations(), Vec::<String>::new());
}

#[test]
fn prompt_logprobs_read_every_row_whatever_is_kept() {
    let (lanes, _) = cached(1 << 20);
    let reported = || Request {
        report: Report { logprobs: None, prompt_logprobs: Some(1) },
        ..request(prompt(9, 40), 3)
    };
    let first = run(&lanes.handle(), reported());
    let again = run(&lanes.handle(), reported());
    assert_eq!((again.stats.cached_tokens, again.prompt_logprobs.as_ref().map(Vec::len)), (0, Some(39)));
    assert_eq!(first.prompt_logprobs, again.prompt_logprobs);
    assert_same(&again, &first);
}

#[test]
fn a_request_for_no_tokens_keeps_its_prompt() {
    let (lanes, probe) = cached(1 << 20);
    run(&lanes.handle(), request(prompt(10, 40), 0));
    assert_eq!((lanes.handle().stats().cache_entries, probe.count(Call::Save)), (1, 1));
    assert_eq!(run(&lanes.handle(), turn(prompt(10, 40))).stats.cached_tokens, 39);
    drop(lanes);
    assert_eq!(probe.violations(), Vec::<String>::new());
}
