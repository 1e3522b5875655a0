//! Measured acceptance against a drafter whose habits are known.

mod common;

use common::{config, prompt, request, sampled, start, warm};
use tokenfare_lanes::testkit::{Call, FakeConfig, Fault, Repeat, run};
use tokenfare_lanes::{AcceptanceError, AcceptanceRun, Copies, LanesConfig, Request};
use tokenfare_pricing::Acceptance;

fn measured(fake: FakeConfig, config: LanesConfig, requests: Vec<Request>) -> Vec<Acceptance> {
    let mut run = AcceptanceRun::new();
    let (lanes, _) = start(fake, run.configure(config));
    let replies = run.serve(&lanes.handle(), requests).expect("whole replies");
    replies.into_iter().map(|reply| reply.counts).collect()
}

/// Rounds, then verified, reached and kept drafts of each position.
fn counts(a: &Acceptance) -> (u64, Vec<[u64; 3]>) {
    let position = |j| {
        let count = a.position(j);
        [count.verified, count.reached, count.kept]
    };
    (a.rounds(), (0..a.positions()).map(position).collect())
}

#[test]
fn rounds_are_counted_up_to_the_last_token() {
    let fake = FakeConfig { right: vec![2], ..FakeConfig::default() };
    let found = measured(fake, config(), vec![request(prompt(1, 10), 11)]);
    // Tokens come as 1, 3, 3, 3, 3: of the third round four drafts lie before the end, of the last round one.
    let expected = vec![[4, 4, 4], [3, 3, 3], [3, 3, 0], [3, 0, 0], [2, 0, 0]];
    assert_eq!(found.iter().map(counts).collect::<Vec<_>>(), [(4, expected)]);
}

#[test]
fn each_request_has_its_own_counts_and_together_is_alone() {
    let requests = || -> Vec<Request> {
        let one = |i: u32| sampled(prompt(i, 5 + i as usize), 30, warm(0), Some(i.into()));
        (1..12).map(one).chain([request(prompt(1, 9), 0), request(prompt(2, 9), 1)]).collect()
    };
    let fake = FakeConfig { right: vec![3], ..FakeConfig::default() };
    let together = measured(fake.clone(), config(), requests());
    let mut run = AcceptanceRun::new();
    let (lanes, _) = start(fake, run.configure(config()));
    let alone: Vec<Acceptance> = requests()
        .into_iter()
        .flat_map(|request| run.serve(&lanes.handle(), vec![request]).expect("a whole reply"))
        .map(|reply| reply.counts)
        .collect();
    assert_eq!(together, alone);
    assert_eq!(alone.len(), 13);
    assert!(alone[..11].iter().all(|a| a.rounds() == 8 && a.at_least(3) == Some(7.0 / 8.0)), "{alone:?}");
    assert!(alone[11..].iter().all(|a| a.rounds() == 0), "{alone:?}");
}

#[test]
fn copies_off_copies_nothing_and_changes_nothing() {
    let repeat = Some(Repeat { period: 6, strength: 9.0 });
    let fake = FakeConfig { repeat, right: vec![0], ..FakeConfig::default() };
    let prompt = [prompt(1, 6), prompt(1, 6)].concat();
    let reply = |copies| {
        let (lanes, _) = start(fake.clone(), LanesConfig { copies, lookup_min: 3, ..config() });
        run(&lanes.handle(), request(prompt.clone(), 60))
    };
    let (on, off) = (reply(Copies::On), reply(Copies::Off));
    assert!(on.stats.copied.1 > 0 && off.stats.copied == (0, 0), "{:?} {:?}", on.stats, off.stats);
    assert!(on.same_reply(&off));
    let found = measured(fake.clone(), config(), vec![request(prompt.clone(), 60)]);
    assert_eq!((found[0].rounds(), found[0].kept()), (59, 0));
}

#[test]
fn a_reply_that_fails_is_an_error() {
    let mut run = AcceptanceRun::new();
    let (lanes, probe) = start(FakeConfig::default(), run.configure(config()));
    probe.fault(Call::Window, 1, Fault::Error);
    let failed = run.serve(&lanes.handle(), vec![request(prompt(1, 5), 9)]);
    assert!(matches!(failed, Err(AcceptanceError::Ended { request: 0, .. })), "{failed:?}");
    let refused = run.serve(&lanes.handle(), vec![request(prompt(1, 5), 9), request(Vec::new(), 9)]);
    assert!(matches!(refused, Err(AcceptanceError::Refused { request: 1, .. })), "{refused:?}");
}
