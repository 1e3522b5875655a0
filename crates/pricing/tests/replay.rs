//! Replays of logs whose every draft's fate is known to the test.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use rstest::rstest;
use tokenfare_pricing::log::{
    Item, LoggedAsk, LoggedChoice, LoggedCommit, LoggedEnd, LoggedStart, Reader, Record,
};
use tokenfare_pricing::replay::{Replay, Summary, Verdict};
use tokenfare_pricing::{
    Copied, CostTable, Depth, DepthConfig, Outcome, Rule, SamplingClass, Source, Window,
};

const BLOCK: usize = 5;
const RIGHT: u32 = 1;
const WRONG: u32 = 2;

/// splitmix64, as a number in 0..1.
fn draw(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut x = *state;
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// A log, and for each window how many of its drafts were right.
struct Played {
    lines: Vec<String>,
    right: Vec<usize>,
}

/// What happens beside drafting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    /// Nothing.
    Plain,
    /// Streams find something to copy, and replies end by themselves.
    Full,
}

/// Plays `rounds` rounds of `streams` streams whose replies have 40 tokens, and logs them. A draft is right as often as its
/// confidence says, or less often by `bias`; a copied one as often as not.
fn play(rule: Rule, streams: usize, rounds: u64, explore: u64, bias: f64, life: Life) -> Played {
    let config = DepthConfig { rule, ..DepthConfig::default() };
    let table = CostTable::built_in();
    let mut depth = Depth::new(config, table.clone(), BLOCK);
    let mut state = 7;
    let mut played = Played { lines: Vec::new(), right: Vec::new() };
    let write = |record: Record, played: &mut Played| {
        played.lines.push(serde_json::to_string(&record).unwrap());
    };
    write(Record::Start(LoggedStart::new(&config, &table, BLOCK, explore)), &mut played);
    let mut generated = vec![40; streams];
    let mut requests = vec![0; streams];
    for r in 1..=rounds {
        for slot in 0..streams {
            if generated[slot] >= 40 {
                generated[slot] = 1;
                requests[slot] += 1;
                depth.admit(slot);
            }
        }
        let held: Vec<Vec<f64>> = generated
            .iter()
            .map(|&g| (0..BLOCK.min(40 - g - 1)).map(|_| 0.3 + 0.69 * draw(&mut state)).collect())
            .collect();
        let windows: Vec<Window<'_>> = held
            .iter()
            .enumerate()
            .map(|(slot, conf)| {
                let first = conf.first().map(|_| RIGHT);
                let room = 40 - generated[slot] - 1;
                let found = life == Life::Full && (r + slot as u64).is_multiple_of(3) && room > 0;
                let copy = found.then_some(Copied { matched: 4 + (r % 40) as usize, len: room.min(15) });
                Window { slot, held: conf, first, room, copy }
            })
            .collect();
        let mut plan = depth.plan(streams, &windows);
        let explored = explore > 0 && r % explore == 0;
        if explored {
            (0..streams).for_each(|i| plan.overrule(i, usize::MAX));
        }
        let asks = plan.choices().iter().zip(&held).map(|(c, conf)| LoggedAsk {
            slot: c.slot,
            req: requests[c.slot],
            class: SamplingClass::Greedy,
            kind: c.source,
            start: 10,
            most: c.most,
            k: c.depth,
            explored,
            matched: if c.source == Source::Copy { 4 + (r % 40) as usize } else { 0 },
            lambda: c.lambda,
            conf: conf.clone(),
            q: c.q.clone(),
        });
        let rows = plan.choices().iter().map(|c| 1 + c.depth).sum();
        let choice = LoggedChoice { r, t: 0.0, windows: streams, rows, others: 0, asks: asks.collect() };
        write(Record::Choose(choice), &mut played);
        let mut outcomes = Vec::new();
        for (c, conf) in plan.choices().iter().zip(&held) {
            let right = match c.source {
                Source::Drafter => conf.iter().take_while(|&&p| draw(&mut state) < p * bias).count(),
                Source::Copy => (0..c.most).take_while(|_| draw(&mut state) < 0.5).count(),
            };
            played.right.push(right);
            let mut accepted = right.min(c.depth);
            let mut keep = accepted + 1;
            if life == Life::Full && accepted > 0 && draw(&mut state) < 0.1 {
                accepted = 1 + (draw(&mut state) * accepted as f64) as usize;
                keep = accepted;
            }
            let ends = keep == accepted;
            let beyond =
                (!ends && c.source == Source::Drafter && accepted == c.depth && c.depth < conf.len())
                    .then_some(right > c.depth);
            generated[c.slot] = if ends { 40 } else { generated[c.slot] + keep };
            let commit = LoggedCommit {
                r,
                t: 0.0,
                slot: c.slot,
                rows: 1 + c.depth,
                keep,
                drafted: c.depth,
                accepted,
                beyond,
                finished: generated[c.slot] >= 40,
                generated: generated[c.slot],
                max_new: 40,
            };
            write(Record::Commit(commit), &mut played);
            let next = if right > 0 { RIGHT } else { WRONG };
            if !ends || accepted == c.depth {
                outcomes.push(Outcome { slot: c.slot, accepted, committed: keep, next });
            }
        }
        depth.observe(&plan, &outcomes);
        write(Record::Round(LoggedEnd { r, ms: 1.0 }), &mut played);
    }
    played
}

fn replay(played: &Played, rule: Option<&str>, table: Option<CostTable>) -> (Verdict, Summary) {
    let mut replay = Replay::new(rule.map(|r| r.parse().unwrap()), table);
    let mut summary = Summary::default();
    let mut reader = Reader::new();
    for line in &played.lines {
        match reader.line(line).unwrap() {
            Some(Item::Start(start)) => replay.start(&start).unwrap(),
            Some(Item::Round(round)) => {
                summary.round(&round);
                replay.round(&round);
            }
            None => {}
        }
    }
    assert!(reader.finish().is_empty());
    (replay.verdict(&summary.explored_drafts), summary)
}

#[rstest]
fn the_logged_rule_chooses_what_was_logged(
    #[values("cost", "cost:2", "cost,skip-off", "cost,joint-0", "static:0", "static:3")] rule: &str,
    #[values(1, 2, 3)] streams: usize,
    #[values(0, 7)] explore: u64,
    #[values(Life::Full, Life::Plain)] life: Life,
) {
    let played = play(rule.parse().unwrap(), streams, 400, explore, 0.7, life);
    let (verdict, summary) = replay(&played, None, None);
    assert_eq!(verdict.windows, 400 * streams as u64);
    assert_eq!((verdict.same, verdict.asked), (verdict.asked, verdict.windows - summary.explored));
    // Where it was explored, the rule goes less deep, which the log tells about.
    assert_eq!((verdict.known, verdict.estimated, verdict.unknown), (verdict.windows, 0, 0));
    if explore == 0 {
        let tokens: u64 = summary.classes.values().map(|c| c.tokens).sum();
        assert_eq!(verdict.least_tokens, tokens as f64 / 400.0);
        assert_eq!(verdict.most_tokens, verdict.least_tokens);
    }
}

#[rstest]
fn deeper_choices_are_estimated_from_explored_rounds(#[values(1.0, 0.8)] bias: f64) {
    let rounds = 60_000;
    let played = play("cost".parse().unwrap(), 1, rounds, 5, bias, Life::Plain);
    let (verdict, summary) = replay(&played, Some("static:5"), None);
    assert!(verdict.estimated > 1_000, "{verdict:?}");
    assert!(verdict.is_settled(), "{verdict:?}");
    assert!(summary.explored > rounds / 6);
    // Drafts past the reply's end were never held, so that what was right of those held is the truth.
    let truth: usize = played.right.iter().map(|right| right + 1).sum();
    let truth = truth as f64 / rounds as f64;
    let middle = (verdict.least_tokens + verdict.most_tokens) / 2.0;
    assert!((middle / truth - 1.0).abs() < 0.01, "{middle} tokens a round, in truth {truth}");
}

#[test]
fn without_explored_rounds_deeper_choices_are_unknown() {
    let played = play("static:1".parse().unwrap(), 1, 2_000, 0, 1.0, Life::Plain);
    let (verdict, _) = replay(&played, Some("static:5"), None);
    assert_eq!((verdict.estimated, verdict.windows), (0, 2_000));
    assert!(verdict.unknown > 400 && verdict.known > 400, "{verdict:?}");
    assert!(!verdict.is_settled());
    let truth: usize = played.right.iter().map(|right| right + 1).sum();
    let truth = truth as f64 / 2_000.0;
    assert!(verdict.least_tokens < truth && truth < verdict.most_tokens);
    // What is not deeper than the log is known, whatever the prices.
    let steep = CostTable::new(&[10.0, 30.0, 60.0], 1.0, 0.0).unwrap();
    let (verdict, _) = replay(&played, Some("static:1"), Some(steep));
    assert_eq!((verdict.known, verdict.same), (2_000, 2_000));
    assert!(verdict.is_settled());
}

#[test]
fn every_engine_start_forgets_what_was_learnt() {
    let mut played = play("cost".parse().unwrap(), 2, 150, 0, 0.6, Life::Plain);
    let again = play("cost".parse().unwrap(), 2, 150, 0, 0.6, Life::Plain);
    played.lines.extend(again.lines);
    let (verdict, summary) = replay(&played, None, None);
    assert_eq!((summary.rounds, verdict.same), (300, verdict.asked));
}
