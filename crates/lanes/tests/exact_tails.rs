//! Everything that cuts a reply cuts it inside a multi-token commit exactly where serial decoding would.

mod common;

use common::{always_right, assert_same, config, fixed_depth, prompt, sampled, serial, start, warm};
use rstest::rstest;
use tokenfare_lanes::testkit::{Bound, Collected, Words, run};
use tokenfare_lanes::{Finish, Lanes, LanesHandle, Report, Request, Sampling, TextEnd, ThinkingBudget};

/// Longest reply; commits of six tokens begin at 1, 7 and 13.
const LONG: usize = 20;

fn plain(sampling: &Sampling) -> Request {
    let mut request = sampled(prompt(21, 9), LONG, sampling.clone(), Some(77));
    request.report = Report { logprobs: Some(2), prompt_logprobs: None };
    request
}

/// Engines at every depth; drafts are always right, so depth `d` commits `d + 1` tokens a round.
fn engines() -> Vec<Lanes> {
    (0..=5)
        .map(|depth| start(always_right(), fixed_depth(depth)).0)
        .chain([start(always_right(), config()).0])
        .collect()
}

/// Serves a request at every depth and checks each reply against the serial one, which it returns.
fn served(engines: &[LanesHandle], make: &dyn Fn() -> Request) -> Collected {
    let expected = serial(&always_right(), make());
    for lanes in engines {
        let found = run(lanes, make());
        assert_same(&found, &expected);
        let counts = (found.stats.reasoning_tokens, found.stats.completion_tokens, found.ids.len());
        assert!(
            counts.0 <= counts.1 && counts.1 == counts.2 && counts.2 == found.logprobs.len(),
            "{counts:?}"
        );
        assert_eq!(found.groups.iter().sum::<usize>(), found.ids.len());
    }
    expected
}

#[rstest]
#[case::greedy(Sampling::greedy())]
#[case::sampled(warm(0))]
fn exact_ends_at_every_offset_of_a_draft_commit(#[case] sampling: Sampling) {
    let engines = engines();
    let handles: Vec<LanesHandle> = engines.iter().map(Lanes::handle).collect();
    let whole = served(&handles, &|| plain(&sampling));
    assert_eq!((whole.ids.len(), whole.finish.clone()), (LONG, Some(Finish::Length)));
    let deep = run(&handles[5], plain(&sampling));
    assert_eq!(deep.groups, [1, 6, 6, 6, 1]);
    let letters: String = whole.ids.iter().map(|&id| Words::letter(id)).collect();

    for n in 0..LONG {
        let id = whole.ids[n];
        let first = whole.ids.iter().position(|&i| i == id).unwrap_or(n);

        let capped = served(&handles, &|| Request { max_new: n + 1, ..plain(&sampling) });
        assert_eq!((&capped.ids[..], capped.finish), (&whole.ids[..=n], Some(Finish::Length)));

        let stopped = served(&handles, &|| Request { stop_tokens: vec![id], ..plain(&sampling) });
        assert_eq!((&stopped.ids[..], stopped.finish), (&whole.ids[..=first], Some(Finish::Stop)));
        assert_eq!(stopped.content, letters[..first]);

        // The stop token is also the last one that the cap allows.
        let both =
            served(&handles, &|| Request { stop_tokens: vec![id], max_new: first + 1, ..plain(&sampling) });
        assert_eq!((&both.ids[..], both.finish), (&whole.ids[..=first], Some(Finish::Stop)));

        for len in 1..=3.min(n + 1) {
            let stop = &letters[n + 1 - len..=n];
            let at = letters.find(stop).unwrap_or(n);
            let cut = served(&handles, &|| Request {
                text: Box::new(Words::with_stops(&[stop])),
                max_new: at + len,
                ..plain(&sampling)
            });
            assert_eq!(cut.ids, whole.ids[..at + len]);
            assert_eq!(cut.content, letters[..at]);
            assert_eq!(cut.finish, Some(Finish::Text(TextEnd::StopString(stop.to_owned()))));
        }

        let bound = || Words::bound(Bound::new(3, n + 1));
        let grammar = served(&handles, &|| Request { text: Box::new(bound()), ..plain(&sampling) });
        assert_eq!((grammar.ids.len(), grammar.finish), (n + 1, Some(Finish::Text(TextEnd::Grammar))));
        assert!(grammar.ids.iter().enumerate().all(|(i, &id)| !(id as usize + i).is_multiple_of(3)));
    }
}

#[rstest]
#[case::greedy(Sampling::greedy())]
#[case::sampled(warm(0))]
fn exact_thinking_budget_at_every_offset_of_a_draft_commit(#[case] mut sampling: Sampling) {
    let engines = engines();
    let handles: Vec<LanesHandle> = engines.iter().map(Lanes::handle).collect();
    // Only the budget opens or closes the reasoning.
    sampling.logit_bias = vec![(38, -100.0), (39, -100.0)];
    for tokens in 0..LONG + 2 {
        let make = || Request {
            thinking: Some(ThinkingBudget { tokens, close: 39 }),
            text: Box::new(Words::thinking(38, 39)),
            ..plain(&sampling)
        };
        let reply = served(&handles, &make);
        assert_eq!(reply.ids.iter().position(|&id| id == 39), (tokens < LONG).then_some(tokens));
        assert_eq!(reply.stats.reasoning_tokens, LONG.min(tokens + 1));
        assert_eq!(reply.reasoning.len(), tokens.min(LONG));
        assert_eq!(reply.content.len(), LONG.saturating_sub(tokens + 1));
        assert_eq!(reply.finish, Some(Finish::Length));
    }
}

#[test]
fn a_forced_token_is_not_counted_as_a_draft() {
    let (lanes, _) = start(always_right(), fixed_depth(5));
    let mut request = sampled(prompt(21, 9), 8, warm(0), Some(77));
    request.sampling.logit_bias = vec![(38, -100.0), (39, -100.0)];
    request.thinking = Some(ThinkingBudget { tokens: 1, close: 39 });
    request.text = Box::new(Words::thinking(38, 39));
    let reply = run(&lanes.handle(), request);
    // The first token spends the budget; the next round commits the closing token and one more.
    assert_eq!(reply.groups, [1, 2, 5]);
    assert_eq!((reply.stats.rounds, reply.stats.drafted, reply.stats.accepted), (2, 4, 4));
    assert_eq!((reply.stats.zero_depth, reply.stats.reasoning_tokens), (1, 2));
}

#[test]
fn a_grammar_that_allows_nothing_fails_its_request_alone() {
    let (lanes, probe) = start(always_right(), config());
    let handle = lanes.handle();
    let mut stuck = plain(&Sampling::greedy());
    stuck.text = Box::new(Words::bound(Bound::new(1, 5)));
    let neighbour = common::submit(&handle, plain(&warm(0)));
    let stuck = run(&handle, stuck);
    assert_eq!(stuck.finish, Some(Finish::Failed("the grammar allows no token at position 9".into())));
    let neighbour = tokenfare_lanes::testkit::collect(neighbour);
    assert_same(&neighbour, &serial(&always_right(), plain(&warm(0))));
    drop(lanes);
    assert_eq!((probe.occupied(), probe.violations()), (0, vec![]));
}
