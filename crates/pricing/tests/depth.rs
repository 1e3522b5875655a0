//! The depth rule through whole rounds: limits, learning, shared rounds, copies and leaving streams.

use proptest::prelude::*;
use rstest::rstest;
use tokenfare_pricing::{
    Copied, CostTable, Depth, DepthConfig, Joint, Outcome, Pass, Rule, Skip, Source, Window, expected_tokens,
};

fn cost(cap: usize, skip: Skip, joint: Joint) -> DepthConfig {
    DepthConfig { rule: Rule::Cost { cap, skip, joint }, ..DepthConfig::default() }
}

fn fixed(depth: usize) -> DepthConfig {
    DepthConfig { rule: Rule::Static { depth }, ..DepthConfig::default() }
}

fn built_in(config: DepthConfig) -> Depth {
    let mut depth = Depth::new(config, CostTable::built_in(), 5);
    (0..8).for_each(|slot| depth.admit(slot));
    depth
}

fn window(slot: usize, held: &[f64]) -> Window<'_> {
    Window { slot, held, first: Some(7), room: 100, copy: None }
}

fn copy(slot: usize, matched: usize, len: usize) -> Window<'static> {
    Window { copy: Some(Copied { matched, len }), ..window(slot, &[]) }
}

fn depths(depth: &Depth, windows: &[Window<'_>]) -> Vec<usize> {
    depth.plan(windows.len(), windows).choices().iter().map(|c| c.depth).collect()
}

fn outcome(slot: usize, accepted: usize, next: u32) -> Outcome {
    Outcome { slot, accepted, committed: accepted + 1, next }
}

const SURE: [f64; 5] = [0.99; 5];
const POOR: [f64; 5] = [0.01; 5];

#[rstest]
#[case(5, 100, &SURE, 5)]
#[case(3, 100, &SURE, 3)]
#[case(5, 2, &SURE, 2)]
#[case(5, 0, &SURE, 0)]
#[case(9, 100, &SURE[..4], 4)]
#[case(0, 100, &SURE, 0)]
#[case(5, 100, &POOR, 0)]
#[case(5, 100, &[], 0)]
fn depth_is_within_held_room_and_cap(
    #[case] cap: usize,
    #[case] room: usize,
    #[case] held: &[f64],
    #[case] k: usize,
) {
    let depth = built_in(cost(cap, Skip::On, Joint::Together));
    assert_eq!(depths(&depth, &[Window { room, ..window(0, held) }]), [k]);
    let depth = built_in(fixed(cap));
    assert_eq!(depths(&depth, &[Window { room, ..window(0, held) }]), [cap.min(room).min(held.len())]);
}

#[test]
fn a_window_verifies_one_draft_when_it_may_not_skip() {
    let on = built_in(cost(5, Skip::On, Joint::Together));
    assert_eq!(depths(&on, &[Window { first: None, ..window(0, &POOR) }]), [1]);
    assert_eq!(depths(&on, &[window(0, &POOR), window(1, &POOR), window(2, &[])]), [1, 1, 0]);
    let off = built_in(cost(5, Skip::Off, Joint::Together));
    assert_eq!(depths(&off, &[window(0, &POOR)]), [1]);
    let apart = built_in(cost(5, Skip::On, Joint::Separate));
    assert_eq!(depths(&apart, &[window(0, &POOR), window(1, &SURE)]), [1, 5]);
}

#[rstest]
#[case(7, (1.0 + 2.0) / (0.01 + 2.0))]
#[case(8, 2.0 / (0.01 + 2.0))]
fn a_skipped_draft_is_compared_with_the_token_that_came_out(#[case] next: u32, #[case] factor: f64) {
    let mut depth = built_in(cost(5, Skip::On, Joint::Together));
    let plan = depth.plan(1, &[window(0, &POOR)]);
    assert_eq!(plan.choices()[0].depth, 0);
    depth.observe(&plan, &[outcome(0, 0, next)]);
    assert_eq!(depth.estimate().factor(0), factor);
    assert_eq!(depth.estimate().factor(1), 1.0);
}

#[test]
fn skipping_ends_once_first_drafts_turn_out_right() {
    let mut depth = built_in(cost(5, Skip::On, Joint::Together));
    let held = [0.2, 0.01];
    for _ in 0..64 {
        let plan = depth.plan(1, &[window(0, &held)]);
        let k = plan.choices()[0].depth;
        depth.observe(&plan, &[outcome(0, k.min(1), 7)]);
    }
    assert_eq!(depth.estimate().factor(0), 3.0);
    assert_eq!(depths(&depth, &[window(0, &held)]), [1]);
}

#[test]
fn lambda_is_tokens_by_modelled_time_of_the_slot() {
    let mut depth = built_in(cost(5, Skip::On, Joint::Together));
    assert_eq!(depth.lambda(0), 2.0 / (47.0 + 5.6));
    let plan = depth.plan(1, &[window(0, &SURE)]);
    depth.observe(&plan, &[outcome(0, 5, 7)]);
    assert_eq!(depth.lambda(0), 6.0 / (67.0 + 5.6));
    let plan = depth.plan(1, &[window(0, &[])]);
    depth.observe(&plan, &[outcome(0, 0, 7)]);
    assert_eq!(depth.lambda(0), 7.0 / (67.0 + 5.6 + 42.0));
    assert_eq!(depth.lambda(1), 2.0 / (47.0 + 5.6));
    depth.release(0);
    depth.admit(0);
    assert_eq!(depth.lambda(0), 2.0 / (47.0 + 5.6));
    assert!(depth.estimate().factor(0) > 1.0);
}

#[test]
fn shared_rounds_have_a_rate_for_each_number_of_windows() {
    let mut depth = built_in(cost(5, Skip::On, Joint::Together));
    assert_eq!(depth.shared_lambda(2, Pass::Run), 4.0 / (57.0 + 5.6));
    assert_eq!(depth.shared_lambda(3, Pass::Skipped), 6.0 / 67.0);
    let plan = depth.plan(2, &[window(0, &POOR), window(1, &[])]);
    depth.observe(&plan, &[outcome(0, 1, 7), outcome(1, 0, 9)]);
    assert_eq!(depth.shared_lambda(2, Pass::Run), 3.0 / (52.0 + 5.6));
    assert_eq!(depth.shared_lambda(3, Pass::Run), 6.0 / (67.0 + 5.6));
    let plan = depth.plan(2, &[window(0, &[]), window(1, &[])]);
    depth.observe(&plan, &[outcome(0, 0, 7), outcome(1, 0, 9)]);
    assert_eq!(depth.shared_lambda(2, Pass::Run), 5.0 / (52.0 + 5.6 + 47.0));
}

#[rstest]
#[case(3, 1, false)]
#[case(3, 2, false)]
#[case(3, 3, true)]
#[case(3, 4, true)]
#[case(0, 8, false)]
#[case(1, 1, false)]
#[case(1, 2, true)]
fn plain_rounds_draft_nothing(#[case] plain_streams: usize, #[case] live: usize, #[case] plain: bool) {
    let mut depth = built_in(DepthConfig { plain_streams, ..DepthConfig::default() });
    assert_eq!(depth.drafts_wanted(live), !plain);
    let with_copy = Window { copy: Some(Copied { matched: 40, len: 9 }), ..window(1, &[]) };
    let plan = depth.plan(live, &[window(0, &SURE), with_copy]);
    let total: usize = plan.choices().iter().map(|c| c.depth).sum();
    assert_eq!(total == 0, plain);
    if plain {
        depth.observe(&plan, &[outcome(0, 0, 7), outcome(1, 0, 7)]);
        assert_eq!(depth.estimate().factor(0), 1.0);
    }
}

#[test]
fn depth_zero_asks_for_no_drafts_and_copies_nothing() {
    for config in [fixed(0), cost(0, Skip::On, Joint::Together)] {
        let depth = built_in(config);
        assert!(!depth.drafts_wanted(1) && !depth.copies_wanted(0));
        assert_eq!(depths(&depth, &[copy(0, 40, 9)]), [0]);
    }
}

#[test]
fn a_launch_never_exceeds_its_row_cap() {
    for joint in [Joint::Together, Joint::Separate] {
        let depth = built_in(DepthConfig { row_cap: 7, ..cost(5, Skip::On, joint) });
        let windows = [window(0, &SURE), copy(1, 40, 2), window(2, &SURE), window(3, &SURE)];
        let found = depths(&depth, &windows);
        assert_eq!(found.iter().sum::<usize>(), 3);
        assert_eq!(found[1], 2);
    }
    let crowded = built_in(DepthConfig { row_cap: 2, ..DepthConfig::default() });
    assert_eq!(depths(&crowded, &[window(0, &SURE), window(1, &SURE), window(2, &SURE)]), [0, 0, 0]);
}

#[test]
fn copies_win_by_surplus_and_are_limited_by_rows_and_room() {
    let depth = built_in(DepthConfig::default());
    let plan = depth.plan(1, &[copy(0, 40, 60)]);
    let choice = &plan.choices()[0];
    assert_eq!((choice.source, choice.most, choice.q[14]), (Source::Copy, 15, 0.9));
    let lambda = 2.0 / (47.0 + 5.6);
    let worth = |k: i32| (0..=k).map(|j| 0.9f64.powi(j)).sum::<f64>() - lambda * (42.0 + 5.0 * f64::from(k));
    let best = (1..=15).max_by(|&a, &b| worth(a).total_cmp(&worth(b))).unwrap();
    assert_eq!(choice.depth, best as usize);
    let short = Window { room: 3, ..copy(0, 40, 60) };
    assert_eq!(depth.plan(1, &[short]).choices()[0].depth, 3);
    let beaten = Window { copy: Some(Copied { matched: 4, len: 9 }), ..window(0, &SURE) };
    let plan = depth.plan(1, &[beaten]);
    assert_eq!((plan.choices()[0].source, plan.choices()[0].depth), (Source::Drafter, 5));
    let narrow = built_in(DepthConfig { copied_rows: 4, ..DepthConfig::default() });
    assert_eq!(narrow.plan(1, &[copy(0, 40, 60)]).choices()[0].depth, 3);
    assert_eq!(built_in(fixed(2)).plan(1, &[copy(0, 40, 60)]).choices()[0].depth, 2);
}

#[test]
fn copied_rows_are_other_rows_of_a_shared_round() {
    let steps: Vec<f64> = (0..16).map(|r| 40.0 + 40.0 * f64::from(r / 6)).collect();
    let table = CostTable::new(&steps, 5.0, 0.0).unwrap();
    let depth = Depth::new(DepthConfig::default(), table, 5);
    let held = [0.7, 0.6, 0.5, 0.4, 0.3];
    assert_eq!(depths(&depth, &[window(0, &held), window(1, &[])]), [4, 0]);
    let plan = depth.plan(2, &[window(0, &held), copy(1, 40, 2)]);
    assert_eq!(plan.choices()[1].source, Source::Copy);
    assert_eq!(plan.choices().iter().map(|c| c.depth).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn failing_copies_fall_silent_and_leave_the_drafter_s_estimate_alone() {
    let mut depth = built_in(DepthConfig::default());
    let both = Window { copy: Some(Copied { matched: 40, len: 9 }), ..window(0, &POOR) };
    let mut copied = 0;
    for _ in 0..4 {
        let plan = depth.plan(1, &[both]);
        copied += usize::from(plan.choices()[0].source == Source::Copy);
        depth.observe(&plan, &[outcome(0, 0, 9)]);
    }
    assert_eq!(copied, 4);
    assert!(!depth.copies_wanted(0) && depth.copies_wanted(1));
    assert_eq!(depth.estimate().factor(0), 1.0);
    for _ in 0..16 {
        let plan = depth.plan(1, &[both]);
        assert_eq!(plan.choices()[0].source, Source::Drafter);
        depth.observe(&plan, &[outcome(0, 0, 7)]);
    }
    assert!(depth.copies_wanted(0));
}

#[test]
fn streams_that_leave_mid_round_teach_nothing() {
    for k in 0..=5 {
        let mut depth = built_in(fixed(k));
        let plan = depth.plan(3, &[window(0, &SURE), window(1, &SURE), window(2, &SURE)]);
        depth.release(1);
        depth.observe(&plan, &[outcome(0, k, 7), outcome(2, k, 7)]);
        assert_eq!(depth.lambda(1), 2.0 / (47.0 + 5.6));
        assert_eq!(depth.shared_lambda(3, Pass::Run), 6.0 / (67.0 + 5.6));
        let tokens = (k + 1) as f64;
        assert_eq!(depth.lambda(0), tokens / (42.0 + 5.0 * k as f64 + 5.6));
        let plan = depth.plan(1, &[window(0, &SURE)]);
        assert_eq!(plan.choices()[0].depth, k);
    }
}

#[test]
fn an_overruled_depth_is_what_is_learnt_from() {
    let mut depth = built_in(DepthConfig::default());
    let mut plan = depth.plan(1, &[window(0, &[0.25; 5])]);
    plan.overrule(0, 9);
    plan.overrule(1, 2);
    assert_eq!(plan.choices()[0].depth, 5);
    depth.observe(&plan, &[outcome(0, 4, 7)]);
    assert_eq!(depth.lambda(0), 5.0 / (67.0 + 5.6));
    assert_eq!((depth.estimate().factor(3), depth.estimate().factor(4)), (3.0 / 2.25, 2.0 / 2.25));
}

#[test]
fn the_rule_in_words() {
    let together = DepthConfig::default().to_string();
    assert_eq!(together, "cost, cap 5, skip on, joint 1, drafts priced from the cost tables");
    let apart = cost(2, Skip::Off, Joint::Separate).to_string();
    assert_eq!(apart, "cost, cap 2, skip off, joint 0, drafts priced from the cost tables");
    assert_eq!(fixed(3).to_string(), "static, depth 3");
}

proptest! {
    #[test]
    fn any_round_stays_within_its_limits(
        verify in prop::collection::vec(0.5f64..90.0, 2..=64),
        streams in prop::collection::vec((prop::collection::vec(0.0f64..1.0, 0..=5), 0usize..8, 0usize..70, 0usize..40), 1..=8),
        cap in 0usize..=15,
        row_cap in 8usize..=64,
        rounds in 1usize..4,
        fixed_rule in any::<bool>(),
    ) {
        let rule = if fixed_rule { Rule::Static { depth: cap } } else { cost(cap, Skip::On, Joint::Together).rule };
        let table = CostTable::new(&verify, 0.9, 0.1).unwrap();
        let mut depth = Depth::new(DepthConfig { rule, row_cap, ..DepthConfig::default() }, table, 5);
        (0..streams.len()).for_each(|slot| depth.admit(slot));
        for round in 0..rounds {
            let windows: Vec<Window<'_>> = streams
                .iter()
                .enumerate()
                .map(|(slot, (held, room, matched, len))| Window {
                    slot,
                    held,
                    first: held.first().map(|_| 7),
                    room: *room,
                    copy: Some(Copied { matched: *matched, len: *len }),
                })
                .collect();
            let plan = depth.plan(windows.len(), &windows);
            prop_assert_eq!(plan.choices().len(), windows.len());
            prop_assert!(plan.choices().iter().map(|c| 1 + c.depth).sum::<usize>() <= row_cap);
            for (w, c) in windows.iter().zip(plan.choices()) {
                let held = if c.source == Source::Copy { streams[w.slot].3.min(15) } else { w.held.len().min(cap) };
                prop_assert!(c.slot == w.slot && c.depth <= held.min(w.room) && c.depth <= c.most);
                prop_assert!(c.depth <= c.q.len() && c.lambda.is_finite() && c.lambda > 0.0);
            }
            let outcomes: Vec<Outcome> =
                plan.choices().iter().map(|c| outcome(c.slot, c.depth.min(round), 7)).collect();
            depth.observe(&plan, &outcomes);
        }
    }

    #[test]
    fn choices_equal_brute_force_over_all_depths(
        streams in prop::collection::vec((prop::collection::vec(0.0f64..1.0, 0..=5), 0usize..7), 1..=3),
        verify in prop::collection::vec(0.5f64..90.0, 2..=64),
        draft in 0.001f64..1.0,
        cap in 1usize..=5,
        taught in prop::collection::vec(0usize..=5, 0..20),
    ) {
        let table = CostTable::new(&verify, draft, 0.0).unwrap();
        let config = cost(cap, Skip::On, Joint::Together);
        let mut depth = Depth::new(config, table.clone(), 5);
        (0..3).for_each(|slot| depth.admit(slot));
        let windows: Vec<Window<'_>> =
            streams.iter().enumerate().map(|(slot, (held, room))| Window { room: *room, ..window(slot, held) }).collect();
        for accepted in taught {
            let plan = depth.plan(windows.len(), &windows);
            let outcomes: Vec<Outcome> =
                plan.choices().iter().map(|c| outcome(c.slot, accepted.min(c.depth), 7)).collect();
            depth.observe(&plan, &outcomes);
        }
        let n = windows.len();
        let pass = if windows.iter().any(|w| !w.held.is_empty()) { Pass::Run } else { Pass::Skipped };
        let lambda = if n == 1 { depth.lambda(0) } else { depth.shared_lambda(n, pass) };
        let value = |depths: &[usize]| -> f64 {
            let rows = depths.iter().map(|d| d + 1).sum();
            let price = if n == 1 { table.window_ms(rows) } else { table.rows_ms(rows) };
            let tokens = windows.iter().zip(depths).map(|(w, &d)| {
                expected_tokens(&depth.estimate().probabilities(w.held), d)
            });
            tokens.sum::<f64>() - lambda * price
        };
        let mut all = vec![vec![]];
        for w in &windows {
            let top = w.held.len().min(w.room).min(cap);
            let least = if n == 1 { 0 } else { top.min(1) };
            let longer = |d: &Vec<usize>| (least..=top).map(|k| [&d[..], &[k]].concat()).collect::<Vec<_>>();
            all = all.iter().flat_map(longer).collect();
        }
        let best = all.iter().map(|d| value(d)).fold(f64::NEG_INFINITY, f64::max);
        let found = depths(&depth, &windows);
        prop_assert!(all.contains(&found));
        prop_assert!((value(&found) - best).abs() < 1e-9, "{found:?}");
    }
}
