//! The reference device behind the server, against recorded logits.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use rstest::rstest;
use safetensors::SafeTensors;
use serde_json::{Value, json};
use support::server::Server;
use support::{repository, tiny};

const VOCAB: usize = 512;

fn log_softmax(row: &[f32]) -> Vec<f64> {
    let row: Vec<f64> = row.iter().map(|&x| f64::from(x)).collect();
    let top = row.iter().copied().fold(f64::MIN, f64::max);
    let sum: f64 = row.iter().map(|x| (x - top).exp()).sum();
    row.iter().map(|x| x - top - sum.ln()).collect()
}

fn recorded(name: &str) -> Vec<Vec<f64>> {
    let bytes = std::fs::read(repository("fixtures/golden/golden_fp32.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let values: Vec<f32> = tensors
        .tensor(&format!("logits.{name}"))
        .unwrap()
        .data()
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect();
    values.chunks_exact(VOCAB).map(log_softmax).collect()
}

#[rstest]
#[case("p7", 7)]
#[case("p40", 40)]
fn echoed_logprobs_are_those_of_the_recorded_logits(#[case] name: &str, #[case] length: usize) {
    let file = std::fs::read(repository("fixtures/golden/golden.json")).unwrap();
    let golden: Value = serde_json::from_slice(&file).unwrap();
    let ids: Vec<usize> = serde_json::from_value(golden["prompts"][name].clone()).unwrap();
    let expected = recorded(name);
    assert_eq!((ids.len(), expected.len()), (length, length));
    let server = Server::start(&[&tiny(), "--device", "reference", "--exact-caches"], &[]);
    let reply = server.ok(
        "/v1/completions",
        &json!({
            "prompt": ids, "echo": true, "max_tokens": 0, "logprobs": VOCAB, "return_tokens_as_token_ids": true,
        }),
    );
    let lists = &reply["choices"][0]["logprobs"];
    assert_eq!(lists["top_logprobs"].as_array().unwrap().len(), length);
    assert_eq!((&lists["token_logprobs"][0], &lists["top_logprobs"][0]), (&Value::Null, &Value::Null));
    for at in 1..length {
        let top = lists["top_logprobs"][at].as_object().unwrap();
        assert_eq!(top.len(), VOCAB);
        for (id, expected) in expected[at - 1].iter().enumerate() {
            let found = top[&format!("token_id:{id}")].as_f64().unwrap();
            assert!((found - expected).abs() < 1e-3, "position {at}, token {id}: {found}, {expected}");
        }
        assert_eq!(lists["tokens"][at], format!("token_id:{}", ids[at]));
        assert_eq!(lists["token_logprobs"][at], top[&format!("token_id:{}", ids[at])]);
    }
}
