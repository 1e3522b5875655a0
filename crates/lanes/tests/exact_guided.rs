//! Grammars, reasoning and tool calls inside multi-token commits: everything is where serial decoding has it.

mod common;

use common::{always_right, assert_same, config, fixed_depth, prompt, sampled, serial, start, warm};
use rstest::rstest;
use tokenfare_lanes::testkit::{Bound, Collected, CollectedCall, Words, run};
use tokenfare_lanes::{Finish, Lanes, LanesHandle, Report, Request, Sampling, Text, TextEnd};

const LONG: usize = 20;

fn plain(sampling: &Sampling) -> Request {
    let mut request = sampled(prompt(21, 9), LONG, sampling.clone(), Some(77));
    request.report = Report { logprobs: Some(3), prompt_logprobs: None };
    request
}

fn engines() -> Vec<Lanes> {
    let depths = (0..=5).map(|depth| start(always_right(), fixed_depth(depth)).0);
    depths.chain([start(always_right(), config()).0]).collect()
}

/// Serves a text at every depth and checks each reply against the serial one, which it returns.
fn served(engines: &[LanesHandle], sampling: &Sampling, text: &dyn Fn() -> Box<dyn Text>) -> Collected {
    let make = || Request { text: text(), ..plain(sampling) };
    let expected = serial(&always_right(), make());
    for lanes in engines {
        let found = run(lanes, make());
        assert_same(&found, &expected);
        assert_eq!((found.stats.completion_tokens, found.logprobs.len()), (found.ids.len(), found.ids.len()));
        assert!(found.stats.reasoning_tokens <= found.stats.completion_tokens);
    }
    expected
}

#[rstest]
#[case::greedy(Sampling::greedy())]
#[case::sampled(warm(0))]
fn exact_grammar_after_a_reasoning_that_ends_at_every_offset(#[case] sampling: Sampling) {
    let engines = engines();
    let handles: Vec<LanesHandle> = engines.iter().map(Lanes::handle).collect();
    let whole = served(&handles, &sampling, &|| Box::new(Words::new()));
    let mut ended = 0;
    for n in 0..LONG {
        // Whatever comes at this offset closes the reasoning, inside a commit of accepted drafts.
        let close = whole.ids[n];
        let at = whole.ids.iter().position(|&id| id == close).unwrap_or(n);
        for len in [1, 2, 5, 30] {
            let text = || Words::thinking(u32::MAX, close).and_bound(Bound::new(3, len));
            let reply = served(&handles, &sampling, &|| Box::new(text()));
            assert_eq!(reply.ids[..=at], whole.ids[..=at]);
            assert_eq!((reply.stats.reasoning_tokens, reply.reasoning.len()), (at + 1, at));
            let answer = &reply.ids[at + 1..];
            assert!(answer.iter().enumerate().all(|(i, &id)| !(id as usize + i).is_multiple_of(3)));
            let complete = at + 1 + len <= LONG;
            let expected = if complete { Finish::Text(TextEnd::Grammar) } else { Finish::Length };
            assert_eq!(reply.finish, Some(expected));
            ended += usize::from(complete);
        }
    }
    assert!(ended > 30, "{ended}");
}

#[rstest]
#[case::greedy(Sampling::greedy())]
#[case::sampled(warm(0))]
fn exact_failure_of_a_grammar_at_every_offset(#[case] sampling: Sampling) {
    let engines = engines();
    let handles: Vec<LanesHandle> = engines.iter().map(Lanes::handle).collect();
    for n in 0..LONG {
        let bound = Bound { fails_at: Some(n), ..Bound::new(3, 99) };
        let reply = served(&handles, &sampling, &|| Box::new(Words::bound(bound)));
        assert_eq!(reply.ids.len(), n);
        let words = format!("the grammar failed: no rule after {n} tokens");
        assert_eq!(reply.finish, Some(Finish::Failed(words)));
    }
}

#[rstest]
#[case::greedy(Sampling::greedy())]
#[case::sampled(warm(0))]
fn exact_calls_that_begin_and_end_at_every_offset(#[case] sampling: Sampling) {
    let engines = engines();
    let handles: Vec<LanesHandle> = engines.iter().map(Lanes::handle).collect();
    let whole = served(&handles, &sampling, &|| Box::new(Words::new()));
    let letters: String = whole.ids.iter().map(|&id| Words::letter(id)).collect();
    let mut complete = 0;
    for from in 0..LONG {
        for to in [from + 1, from + 4, from + 7] {
            let (open, close) = (whole.ids[from], whole.ids.get(to).copied().unwrap_or(u32::MAX));
            let reply = served(&handles, &sampling, &|| Box::new(Words::calling(open, close)));
            assert_eq!(reply.ids, whole.ids);
            let begin = whole.ids.iter().position(|&id| id == open).unwrap_or(from);
            let end = whole.ids[begin + 1..].iter().position(|&id| id == close).map(|n| begin + 1 + n);
            let first = CollectedCall {
                name: "f".to_owned(),
                arguments: letters[begin + 1..end.unwrap_or(LONG)].to_owned(),
                complete: end.is_some(),
            };
            assert_eq!(reply.calls[0], first);
            complete += usize::from(end.is_some());
        }
    }
    assert!(complete > 20, "{complete}");
}
