//! A failing call of the model ends its own requests, and nobody else's.

mod common;

use common::{assert_same, config, prompt, request, sampled, serial, start, submit, warm};
use rstest::rstest;
use std::collections::BTreeSet;
use tokenfare_lanes::testkit::{Call, Collected, FakeConfig, Fault, collect, run};
use tokenfare_lanes::{Finish, LanesConfig, Reply, Request, RequestError, SubmitError, TargetInfo};

fn fake() -> FakeConfig {
    let info = TargetInfo { piece_rows: 8, slots: 3, ..FakeConfig::default().info };
    FakeConfig { info, ..FakeConfig::default() }
}

fn long(seed: u32) -> Request {
    sampled(prompt(seed, 20), 20, warm(0), Some(seed.into()))
}

#[rstest]
#[case(Call::Prefill)]
#[case(Call::Window)]
#[case(Call::Ingest)]
#[case(Call::Propose)]
fn exact_beside_a_request_that_fails_at_any_call(#[case] call: Call) {
    let expected: Vec<Collected> = (0..4).map(|seed| serial(&fake(), long(seed))).collect();
    for number in 0..12 {
        let (lanes, probe) = start(fake(), config());
        probe.fault(call, number, Fault::Error);
        let handle = lanes.handle();
        let replies: Vec<Reply> = (0..4).map(|seed| submit(&handle, long(seed))).collect();
        let mut failed = BTreeSet::new();
        for (i, reply) in replies.into_iter().enumerate() {
            let reply = collect(reply);
            if let Some(Finish::Failed(words)) = &reply.finish {
                assert_eq!(*words, format!("{call:?} fails on schedule"));
                assert!(expected[i].ids.starts_with(&reply.ids));
                failed.insert(i);
            } else {
                assert_same(&reply, &expected[i]);
            }
        }
        let reached = probe.count(call) > number;
        assert_eq!(!failed.is_empty(), reached, "{call:?} {number}");
        assert!(call != Call::Prefill || failed.len() <= 1);
        assert_eq!(handle.stats().failed, failed.len() as u64);
        for (seed, expected) in (0..4).zip(&expected) {
            assert_same(&run(&handle, long(seed)), expected);
        }
        drop(lanes);
        assert_eq!((probe.occupied(), probe.violations()), (0, vec![]));
    }
}

#[rstest]
#[case(Call::Prefill, 0)]
#[case(Call::Window, 1)]
#[case(Call::Propose, 2)]
#[case(Call::Save, 0)]
fn a_panic_of_the_model_ends_every_reply(#[case] call: Call, #[case] number: usize) {
    let (lanes, probe) = start(fake(), LanesConfig { prompt_cache_bytes: 1 << 20, ..config() });
    let handle = lanes.handle();
    probe.fault(call, number, Fault::Panic);
    let replies: Vec<_> = (0..6)
        .map(|seed| long(seed).validate(handle.info()).map(|valid| handle.submit(valid)))
        .filter_map(|submitted| submitted.ok().and_then(Result::ok))
        .collect();
    let words = Finish::Failed(format!("the engine stopped: {call:?} panics on schedule"));
    assert!(!replies.is_empty());
    for reply in replies {
        assert_eq!(collect(reply).finish.as_ref(), Some(&words));
    }
    let refused = long(9).validate(handle.info()).map(|valid| handle.submit(valid).map(drop));
    assert_eq!(refused, Ok(Err(SubmitError::Ended)));
    drop(lanes);
}

#[test]
fn exact_after_refused_requests() {
    let (lanes, _) = start(fake(), config());
    let handle = lanes.handle();
    let refuse = |request: Request| request.validate(handle.info()).map(drop);
    let neighbour = submit(&handle, long(1));
    assert_eq!(refuse(request(vec![], 4)), Err(RequestError::EmptyPrompt));
    assert_eq!(
        refuse(request(vec![1; 4096], 4)),
        Err(RequestError::ContextLength { tokens: 4096, context: 4096 })
    );
    assert_eq!(
        refuse(request(vec![1, 40], 4)),
        Err(RequestError::Token { field: "prompt", id: 40, vocab: 40 })
    );
    assert_same(&collect(neighbour), &serial(&fake(), long(1)));
    assert_same(&run(&handle, long(2)), &serial(&fake(), long(2)));
}

#[test]
fn a_reply_may_fill_the_context() {
    let info = TargetInfo { context: 50, ..fake().info };
    let fake = FakeConfig { info, ..fake() };
    let make = || sampled(prompt(3, 20), 400, warm(0), Some(3));
    let (lanes, probe) = start(fake.clone(), common::fixed_depth(5));
    let reply = run(&lanes.handle(), make());
    assert_eq!((reply.ids.len(), reply.finish.clone()), (30, Some(Finish::Length)));
    assert_same(&reply, &serial(&fake, make()));
    assert_eq!(probe.violations(), Vec::<String>::new());
}
