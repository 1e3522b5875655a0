//! What observers and the log see of drafts.

mod common;

use common::{
    TickingClock, always_right, config, fixed_depth, prompt, request, sampled, start, submit, warm,
};
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokenfare_lanes::testkit::{Call, FakeConfig, Repeat, collect, run};
use tokenfare_lanes::{
    DepthOracle, Explore, LanesConfig, Observer, ReplyStats, RoundChoice, RoundTimes, SamplingClass,
    TargetInfo, WindowCommit,
};
use tokenfare_pricing::Source;

#[derive(Default)]
struct Seen {
    choices: Vec<RoundChoice>,
    commits: Vec<WindowCommit>,
    times: Vec<(u64, Vec<u64>, RoundTimes)>,
    finished: Vec<(u64, ReplyStats)>,
}

#[derive(Clone, Default)]
struct Watch(Arc<Mutex<Seen>>);

impl Observer for Watch {
    fn choose(&mut self, choice: &RoundChoice) {
        self.0.lock().expect("no panic").choices.push(choice.clone());
    }
    fn commit(&mut self, commit: &WindowCommit) {
        self.0.lock().expect("no panic").commits.push(*commit);
    }
    fn times(&mut self, round: u64, requests: &[u64], times: &RoundTimes) {
        self.0.lock().expect("no panic").times.push((round, requests.to_vec(), *times));
    }
    fn finish(&mut self, request: u64, stats: &ReplyStats) {
        self.0.lock().expect("no panic").finished.push((request, stats.clone()));
    }
}

fn watched(config: LanesConfig) -> (Watch, LanesConfig) {
    let watch = Watch::default();
    (watch.clone(), LanesConfig { observer: Some(Box::new(watch)), ..config })
}

#[test]
fn observers_see_every_draft_choice_and_commit() {
    let (watch, config) = watched(fixed_depth(3));
    let (lanes, _) = start(always_right(), config);
    let reply = run(&lanes.handle(), sampled(prompt(1, 10), 9, warm(0), None));
    drop(lanes);
    let seen = watch.0.lock().expect("no panic");
    assert_eq!(reply.groups, [1, 4, 4]);
    let first = &seen.choices[0];
    assert_eq!((first.round, first.rows, first.others, first.windows.len()), (1, 4, 0, 1));
    let window = &first.windows[0];
    assert_eq!((window.slot, window.request, window.start, window.depth, window.most), (0, 1, 10, 3, 3));
    assert_eq!((window.class, window.source, window.explored), (SamplingClass::Warm, Source::Drafter, false));
    assert_eq!(window.confidence.len(), 5);
    let commits: Vec<_> =
        seen.commits.iter().map(|c| (c.round, c.rows, c.kept, c.drafted, c.generated, c.finished)).collect();
    assert_eq!(commits, [(1, 4, 4, 3, 5, false), (2, 4, 4, 3, 9, true)]);
    let kept: Vec<_> = seen.commits.iter().map(|c| (c.accepted, c.beyond)).collect();
    assert_eq!(kept, [(3, Some(true)), (3, Some(true))]);
    assert_eq!(seen.finished, [(1, reply.stats.clone())]);
    assert_eq!((window.matched, window.lambda), (0, 2.0 / (47.0 + 5.6)));
    assert_eq!(
        seen.times.iter().map(|t| (t.0, t.1.clone())).collect::<Vec<_>>(),
        [(1, vec![1]), (2, vec![1])]
    );
}

#[test]
fn observers_see_copied_drafts() {
    let (watch, config) = watched(LanesConfig { lookup_min: 3, ..config() });
    let repeat = Some(Repeat { period: 6, strength: 9.0 });
    let (lanes, _) = start(FakeConfig { repeat, right: vec![0], ..FakeConfig::default() }, config);
    let reply = run(&lanes.handle(), request([prompt(1, 6), prompt(1, 6)].concat(), 60));
    drop(lanes);
    let seen = watch.0.lock().expect("no panic");
    let windows = seen.choices.iter().flat_map(|c| &c.windows);
    let copied: usize = windows.filter(|w| w.source == Source::Copy).map(|w| w.depth).sum();
    assert_eq!(reply.stats.copied.0, copied);
    // Copies alone are ever right here, and they are worth long windows.
    assert_eq!(reply.stats.copied.1, reply.stats.accepted);
    assert!(reply.stats.rounds < 15, "{:?}", reply.stats);
}

#[test]
fn the_parts_of_a_round_add_up_to_it() {
    let clock = Arc::new(TickingClock::default());
    let (watch, config) = watched(LanesConfig { clock, ..fixed_depth(2) });
    let (lanes, _) = start(always_right(), config);
    let handle = lanes.handle();
    let replies = [1, 2].map(|seed| submit(&handle, sampled(prompt(seed, 10), 12, warm(0), None)));
    let replies = replies.map(collect);
    drop(lanes);
    let seen = watch.0.lock().expect("no panic");
    for reply in &replies {
        assert!(reply.stats.round_s > 0.0 && reply.stats.decode_s > 0.0 && reply.stats.prefill_s > 0.0);
    }
    // A reply's parts are those of its rounds; the pass of the round that ends it is not its own.
    for (request, stats) in &seen.finished {
        let rounds = seen.times.iter().filter(|t| t.1.contains(request));
        let total: Duration = rounds.map(|t| t.2.total()).sum();
        assert_eq!(stats.round_s, stats.round_times.total().as_secs_f64());
        assert!(stats.round_times.total() <= total && stats.round_times.plan > Duration::ZERO);
    }
    for (_, _, times) in &seen.times {
        // The fake's windows do not tell their read back apart.
        let told = times.parts().into_iter().filter(|part| part.0 != "read back");
        assert!(told.into_iter().all(|part| part.1 > Duration::ZERO), "{times:?}");
        assert_eq!(times.total(), times.parts().iter().map(|part| part.1).sum());
    }
}

#[test]
fn streams_take_turns_where_rows_are_scarce() {
    for window_rows in [1, 3, 4] {
        let info = TargetInfo { slots: 5, window_rows, ..FakeConfig::default().info };
        let (watch, config) = watched(LanesConfig { piece_share: 0, ..fixed_depth(0) });
        let (lanes, probe) = start(FakeConfig { info, ..FakeConfig::default() }, config);
        let (handle, mut others) = (lanes.handle(), Vec::new());
        probe.on_call(move |call, number| {
            if (call, number) == (Call::Prefill, 0) {
                others.extend((2..6).map(|seed| submit(&handle, request(prompt(seed, 5), 21))));
            }
        });
        run(&lanes.handle(), request(prompt(1, 5), 21));
        lanes.shutdown(Duration::from_secs(600));
        let seen = watch.0.lock().expect("no panic");
        let mut rounds = [0usize; 5];
        for choice in &seen.choices {
            assert!(choice.rows <= window_rows);
            choice.windows.iter().for_each(|w| rounds[w.slot] += 1);
            let (least, most) = (rounds.iter().min(), rounds.iter().max());
            assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{rounds:?}");
        }
        assert_eq!(rounds, [20; 5]);
    }
}

#[test]
fn exploring_rounds_verify_every_draft() {
    let (watch, config) = watched(LanesConfig { oracle: Some(Box::new(Explore { every: 4 })), ..config() });
    let (lanes, _) = start(FakeConfig { right: vec![0], ..FakeConfig::default() }, config);
    run(&lanes.handle(), request(prompt(1, 10), 30));
    drop(lanes);
    let seen = watch.0.lock().expect("no panic");
    for choice in &seen.choices {
        let window = &choice.windows[0];
        assert_eq!(window.explored, choice.round % 4 == 0);
        assert!(!window.explored || window.depth == window.most);
    }
    assert!(seen.choices.len() >= 28);
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_log_has_a_drafts_line_for_each_request_and_one_in_all() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .without_time()
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::set_global_default(subscriber).expect("the only subscriber");
    let (lanes, _) = start(
        always_right(),
        LanesConfig { family: "logged", prompt_cache_bytes: 1 << 20, ..fixed_depth(3) },
    );
    for _ in 0..2 {
        run(&lanes.handle(), request(prompt(1, 40), 9));
    }
    drop(lanes);
    let text = String::from_utf8(log.0.lock().expect("no panic").clone()).expect("text");
    // Other tests of this file log too; this engine's lines carry its own family.
    let lines: Vec<&str> = text.lines().filter(|l| l.contains("logged drafts")).collect();
    assert_eq!(lines.len(), 3, "{text}");
    let first = "request 1: 40 prompt tokens (0 cached), 9 tokens, logged drafts: 2 rounds, 6 accepted of 6 drafted, 0 zero-depth";
    assert!(lines[0].contains(first), "{text}");
    let facts = [
        "request=1 prompt_tokens=40 cached_tokens=0 completion_tokens=9 rounds=2 accepted=6 drafted=6 zero_depth=0",
        " queue_s=",
        " prefill_s=",
        " decode_s=",
    ];
    assert!(facts.iter().all(|fact| lines[0].contains(fact)), "{text}");
    assert!(lines[1].contains("request 2: 40 prompt tokens (39 cached)"), "{text}");
    let last = "logged drafts: 4 rounds, 12 accepted of 12 drafted, 0 zero-depth rounds=4 accepted=12 drafted=12 zero_depth=0";
    assert!(lines[2].ends_with(last), "{text}");
    assert!(text.contains("prompt 1: 40 tokens, resumed 0, the best of 0 kept states diverges at token 0"));
    assert!(text.contains("prompt 2: 40 tokens, resumed 39"));
}

#[test]
fn a_draft_that_was_not_verified_is_compared_with_the_token_that_came_out() {
    for (right, depth, expected) in [(3, 2, Some(true)), (2, 2, Some(false)), (1, 2, None), (0, 0, None)] {
        let (watch, config) = watched(fixed_depth(depth));
        let (lanes, _) = start(FakeConfig { right: vec![right], ..FakeConfig::default() }, config);
        run(&lanes.handle(), request(prompt(1, 10), 30));
        drop(lanes);
        let seen = watch.0.lock().expect("no panic");
        assert_eq!((seen.commits[0].accepted, seen.commits[0].beyond), (right.min(depth), expected));
    }
    let zero = LanesConfig { oracle: Some(Box::new(Zero)), ..config() };
    let (watch, config) = watched(zero);
    let (lanes, _) = start(always_right(), config);
    run(&lanes.handle(), request(prompt(1, 10), 5));
    drop(lanes);
    let seen = watch.0.lock().expect("no panic");
    let beyond: Vec<_> = seen.commits.iter().map(|c| c.beyond).collect();
    // The last round needs no drafts.
    assert_eq!(beyond, [Some(true), Some(true), Some(true), None]);
}

/// Verifies no draft, while passes go on.
struct Zero;

impl DepthOracle for Zero {
    fn depth(&mut self, _round: u64, _slot: usize, _most: usize) -> Option<usize> {
        Some(0)
    }
}
