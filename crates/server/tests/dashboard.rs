//! The Grafana dashboard against the metrics that it shows.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use support::{PLAIN, get, post};
use tokenfare_server::testkit::fake;

fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("expr").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|v| expressions(v, found));
        }
        Value::Array(list) => list.iter().for_each(|v| expressions(v, found)),
        _ => {}
    }
}

/// Names of metrics in an expression.
fn names(expression: &str) -> impl Iterator<Item = &str> {
    expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|w| w.starts_with("tokenfare_"))
}

#[tokio::test]
async fn every_metric_of_the_dashboard_is_exported() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/grafana/tokenfare.json");
    let dashboard: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut found = Vec::new();
    expressions(&dashboard, &mut found);
    let shown: BTreeSet<&str> = found.iter().flat_map(|e| names(e)).collect();
    let fake = fake(1, |_, _| {});
    let body = json!({"prompt": "abc", "max_tokens": 30, "ignore_eos": true});
    assert_eq!(post(&fake.server, PLAIN, &body).await.status, 200);
    let text = get(&fake.server, "/metrics").await.text;
    let samples = text.lines().filter(|l| !l.starts_with('#'));
    let exported: BTreeSet<&str> = samples.map(|l| l.split(['{', ' ']).next().unwrap()).collect();
    let missing: Vec<_> = shown.difference(&exported).collect();
    assert!(missing.is_empty(), "{missing:?} not in {exported:?}");
    let base = |name: &str| {
        let name = name.trim_end_matches("_count").trim_end_matches("_sum").trim_end_matches("_bucket");
        name.to_owned()
    };
    let bases: BTreeSet<String> = shown.iter().map(|n| base(n)).collect();
    let unseen: Vec<_> = exported.iter().filter(|n| !bases.contains(&base(n))).collect();
    assert!(unseen.is_empty(), "on no panel: {unseen:?}");
}
