//! From a cold start the rule finds the depth that is fastest in a simulated world.

use rstest::rstest;
use tokenfare_pricing::{CostTable, Depth, DepthConfig, Outcome, Pass, Window};

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

/// The depth with the most tokens a millisecond when draft `j` is kept with probability `truth[j]`.
fn fastest(table: &CostTable, truth: &[f64]) -> usize {
    let rate = |k: usize| {
        let tokens = tokenfare_pricing::expected_tokens(truth, k);
        tokens / table.lone_ms(k + 1, Pass::Run)
    };
    (0..=truth.len()).max_by(|&a, &b| rate(a).total_cmp(&rate(b))).expect("depth 0 is always there")
}

/// Plays `rounds` rounds of one stream and returns the depth of each.
fn play(table: &CostTable, truth: &[f64], claimed: f64, rounds: usize, seed: u64) -> Vec<usize> {
    let mut depth = Depth::new(DepthConfig::default(), table.clone(), truth.len());
    depth.admit(0);
    let held: Vec<f64> = truth.iter().map(|q| q * claimed).collect();
    let mut state = seed;
    let mut found = Vec::new();
    for _ in 0..rounds {
        let plan =
            depth.plan(1, &[Window { slot: 0, held: &held, first: Some(RIGHT), room: 100, copy: None }]);
        let k = plan.choices()[0].depth;
        let right = truth.iter().take_while(|&&q| draw(&mut state) < q).count();
        let next = if right > 0 { RIGHT } else { WRONG };
        let accepted = right.min(k);
        depth.observe(&plan, &[Outcome { slot: 0, accepted, committed: accepted + 1, next }]);
        found.push(k);
    }
    found
}

fn usual(depths: &[usize]) -> usize {
    (0..=5).max_by_key(|k| depths.iter().filter(|d| *d == k).count()).expect("depths 0 to 5")
}

/// Base milliseconds and milliseconds a row, what drafts are kept at, and the depth that is fastest.
#[rstest]
#[case::none_pays((10.0, 9.0), [0.35, 0.3, 0.3, 0.3, 0.3], 0)]
#[case::one((30.0, 9.0), [0.9, 0.2, 0.2, 0.2, 0.2], 1)]
#[case::three((37.0, 5.0), [0.95, 0.9, 0.8, 0.1, 0.1], 3)]
#[case::five((37.0, 1.0), [0.95, 0.9, 0.9, 0.85, 0.8], 5)]
fn the_fastest_depth_is_found_within_64_rounds(
    #[case] (base, row): (f64, f64),
    #[case] truth: [f64; 5],
    #[case] best: usize,
    #[values(1.0, 0.8)] claimed: f64,
    #[values(1, 2, 3, 4)] seed: u64,
) {
    let verify: Vec<f64> = (1..=16).map(|r| base + row * f64::from(r)).collect();
    let table = CostTable::new(&verify, 3.0, 0.0).unwrap();
    assert_eq!(fastest(&table, &truth), best);
    let depths = play(&table, &truth, claimed, 64, seed);
    assert_eq!(usual(&depths[32..]), best, "{depths:?}");
}

#[test]
fn a_lone_request_drafts_the_same_whenever_it_is_played() {
    let table = CostTable::built_in();
    let truth = [0.8, 0.6, 0.5, 0.4, 0.3];
    assert_eq!(play(&table, &truth, 0.9, 200, 11), play(&table, &truth, 0.9, 200, 11));
}
