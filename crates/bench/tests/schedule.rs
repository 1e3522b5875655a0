//! What comparisons say of arms whose difference is known.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use rstest::rstest;
use tokenfare_bench::compare::schedule::compare;
use tokenfare_bench::compare::{Arm, CellOutcome, Comparison, Plan, Role};
use tokenfare_bench::load::Load;
use tokenfare_bench::machine::Level;
use tokenfare_bench::run::cell::Seeds;
use tokenfare_bench::run::prompt::Require;
use tokenfare_bench::run::{Part, concurrent, openai, prompt};
use tokenfare_bench::testkit::SimulatedRuns;
use tokenfare_bench::verdict::{Hashes, Verdict};

const EVERY: [Part; 4] = [Part::Concurrent, Part::Openai, Part::NoDrafts, Part::Prompt];

fn plan(parts: &[Part]) -> Plan {
    Plan {
        parts: parts.to_vec(),
        concurrent: concurrent::Options {
            levels: vec![1, 2, 3, 4],
            tokens: 128,
            reps: 3,
            temperatures: vec![0.0, 1.0],
            loads: Load::concurrent(),
            seeds: Seeds::ByStream,
            stagger: Duration::ZERO,
            references: Vec::new(),
        },
        openai: openai::Options { tokens: 256, reps: 3, temperatures: vec![1.0, 0.0], loads: Load::openai() },
        prompt: prompt::Options {
            cold: Require::Nothing,
            reuse: Require::Nothing,
            context: None,
            nonce: "test".into(),
        },
        gate: None,
    }
}

fn run(driver: &mut SimulatedRuns<'_>) -> Comparison {
    compare(driver.plan, driver, |_| Ok(())).unwrap()
}

fn verdicts(comparison: &Comparison) -> Vec<Verdict> {
    comparison.outcomes().iter().map(|o: &CellOutcome| o.four.verdict()).collect()
}

#[test]
fn a_full_comparison_has_every_cell() {
    let plan = plan(&EVERY);
    let mut driver = SimulatedRuns::new(&plan, 1);
    let comparison = run(&mut driver);
    let count = |part| comparison.outcomes().iter().filter(|o| o.cell.part == part).count();
    assert_eq!(EVERY.map(count), [16, 4, 4, 2]);
    assert_eq!(verdicts(&comparison), [Verdict::WithinNoise; 26]);
    assert_eq!((comparison.exactness(), comparison.is_whole()), (Hashes::Equal, true));
    let order = [
        (Arm::Base, Role::Discarded),
        (Arm::Base, Role::Counted),
        (Arm::This, Role::Counted),
        (Arm::This, Role::Counted),
        (Arm::Base, Role::Counted),
    ];
    assert_eq!(driver.made, [order; 8 + 2 + 2 + 1].concat());
}

/// How many of 20 comparisons of equal arms find each cell faster or slower.
fn outside(noise: f64) -> Vec<usize> {
    let plan = plan(&[Part::Concurrent, Part::Openai]);
    let mut outside = vec![0; 20];
    for seed in 0..20 {
        let mut driver = SimulatedRuns::new(&plan, seed);
        driver.noise = noise;
        let found = verdicts(&run(&mut driver));
        assert_eq!(found.len(), outside.len());
        outside.iter_mut().zip(found).for_each(|(count, v)| *count += usize::from(v != Verdict::WithinNoise));
    }
    outside
}

#[test]
fn a_binary_against_itself_is_within_noise() {
    // On a quiet machine in all of 20 runs of a cell; where replies move by one percent, in 19 of 20 runs.
    assert_eq!(outside(0.005), [0; 20]);
    assert!(outside(0.01).iter().sum::<usize>() * 20 <= 20 * 20);
}

#[test]
fn three_percent_more_a_round_is_slower_in_every_decode_cell() {
    let plan = plan(&[Part::Concurrent, Part::Openai, Part::NoDrafts]);
    for seed in 0..20 {
        let mut driver = SimulatedRuns::new(&plan, seed);
        (driver.noise, driver.added) = (0.01, 0.03);
        let comparison = run(&mut driver);
        assert_eq!(verdicts(&comparison), [Verdict::Slower; 24], "seed {seed}");
        // Every series has a slower cell, so each is run again and says the same.
        let again =
            comparison.outcomes().iter().filter_map(|o| o.rerun).map(|f| f.verdict()).collect::<Vec<_>>();
        assert_eq!(again, [Verdict::Slower; 24]);
        assert_eq!(driver.made.iter().filter(|made| made.1 == Role::Rerun).count(), 12 * 4);
    }
}

#[test]
fn one_flipped_token_anywhere_fails() {
    let plan = plan(&[Part::Openai, Part::NoDrafts, Part::Prompt]);
    let replies = {
        let mut driver = SimulatedRuns::new(&plan, 1);
        assert_eq!(run(&mut driver).exactness(), Hashes::Equal);
        driver.replies()
    };
    assert_eq!(replies, 5 * (2 * 2 * (3 + 1) + 2 * (3 * (1 + 4) + 2) + 2));
    for flipped in 0..replies {
        let mut driver = SimulatedRuns::new(&plan, 1);
        driver.flipped = Some(flipped);
        assert_eq!(run(&mut driver).exactness(), Hashes::Unequal, "reply {flipped}");
    }
}

#[test]
fn drafts_are_held_against_none() {
    let plan = plan(&[Part::Concurrent, Part::NoDrafts]);
    let mut driver = SimulatedRuns::new(&plan, 1);
    // The last reply of all, a warm-up by a server without drafts.
    driver.flipped = Some(5 * (2 * 2 * (3 * 10 + 4) + 2 * (3 * 5 + 2)) - 1);
    let unequal: Vec<String> = run(&mut driver)
        .outcomes()
        .iter()
        .filter(|o| o.hashes == Hashes::Unequal)
        .map(|o| o.cell.to_string())
        .collect();
    assert_eq!(unequal, ["concurrent chat x4 T0", "no drafts chat x4 T0"]);
}

#[test]
fn a_throttled_run_is_made_once_more() {
    let plan = Plan { parts: vec![Part::Prompt], ..plan(&[]) };
    let mut driver = SimulatedRuns::new(&plan, 1);
    driver.levels = vec![Level::Nominal, Level::Moderate, Level::Heavy];
    let comparison = run(&mut driver);
    let roles: Vec<Role> = comparison.runs().map(|run| run.role).collect();
    use Role::{Counted, Discarded, Throttled};
    assert_eq!(roles, [Discarded, Counted, Throttled, Counted, Counted, Counted]);
    assert_eq!(verdicts(&comparison), [Verdict::WithinNoise; 2]);

    let mut driver = SimulatedRuns::new(&plan, 1);
    driver.levels = vec![Level::Nominal, Level::Nominal, Level::Heavy, Level::Heavy];
    let comparison = run(&mut driver);
    assert_eq!(verdicts(&comparison), [Verdict::NotRun; 2]);
    let why = "the machine was held back by heat or power, also when run again";
    assert_eq!(comparison.series[0].not_run.as_deref(), Some(why));
}

#[test]
fn a_failed_run_ends_its_series_alone() {
    let plan = plan(&[Part::Openai]);
    let mut driver = SimulatedRuns::new(&plan, 1);
    driver.failing = vec![2];
    let comparison = run(&mut driver);
    // The first load was measured twice before; the second never in the failed run.
    let mut expected = vec![Verdict::NotRun, Verdict::Failed];
    expected.extend([Verdict::WithinNoise; 2]);
    assert_eq!(verdicts(&comparison), expected);
    assert!(!comparison.is_whole());
    let why = "a run of this failed: the server ended";
    assert_eq!(comparison.series[0].not_run.as_deref(), Some(why));
}

#[rstest]
#[case(&[100.0], None, 5)]
#[case(&[90.0, 100.0], None, 5)]
#[case(&[90.0, 99.0], Some("the control stayed under 100 tokens a second"), 0)]
#[case(&[], Some("the control stayed under 100 tokens a second"), 0)]
fn a_gate_has_two_tries(#[case] controls: &[f64], #[case] why: Option<&str>, #[case] runs: usize) {
    let plan = Plan { gate: Some(100.0), ..plan(&[Part::Prompt]) };
    let mut driver = SimulatedRuns::new(&plan, 1);
    driver.controls = controls.to_vec();
    let comparison = run(&mut driver);
    assert_eq!((comparison.series[0].not_run.as_deref(), driver.made.len()), (why, runs));
}
