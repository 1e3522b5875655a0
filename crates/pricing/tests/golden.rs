//! Decisions on a measured table that every build must reproduce.

use serde::Deserialize;
use tokenfare_pricing::{CostTable, Depth, DepthConfig, Joint, Rule, Skip, Window};

#[derive(Deserialize)]
struct Golden {
    table_ms: Vec<f64>,
    draft_ms: f64,
    cap: usize,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    confidences: Vec<f64>,
    most: usize,
    first_draft: Option<u32>,
    k: usize,
}

#[test]
fn sixteen_of_sixteen_depths() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/golden/depth-rule.json");
    let golden: Golden = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let table = CostTable::new(&golden.table_ms, golden.draft_ms, 0.0).unwrap();
    let rule = Rule::Cost { cap: golden.cap, skip: Skip::On, joint: Joint::Together };
    let depth = Depth::new(DepthConfig { rule, ..DepthConfig::default() }, table, 5);
    let chosen = |case: &Case| {
        let window =
            Window { slot: 0, held: &case.confidences, first: case.first_draft, room: case.most, copy: None };
        depth.plan(1, &[window]).choices()[0].depth
    };
    let found: Vec<usize> = golden.cases.iter().map(chosen).collect();
    let expected: Vec<usize> = golden.cases.iter().map(|c| c.k).collect();
    assert_eq!(found, expected);
    assert_eq!(found.len(), 16);
}
