//! The HTTP API of the real binary: replies that end inside a round of several tokens end where serial decoding ends them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::LazyLock;

use rstest::rstest;
use serde_json::{Value, json};
use support::guided::{ask, exact, exact_streamed, with};
use support::mini;
use support::server::Server;

static SERVER: LazyLock<Server> =
    LazyLock::new(|| Server::start(&[&mini(), "--parallel", "2", "--context", "512"], &[]));

/// Tokens of the reply that is cut; its rounds commit up to five of them.
const LONG: usize = 10;

fn whole() -> Value {
    let more = json!({"logprobs": true, "max_tokens": LONG});
    with(ask("What is a GPU?"), more)
}

fn finish(reply: &Value) -> &str {
    reply["choices"][0]["finish_reason"].as_str().unwrap()
}

fn ids(reply: &Value) -> Vec<u64> {
    serde_json::from_value(reply["choices"][0]["token_ids"].clone()).unwrap()
}

fn texts(reply: &Value) -> Vec<String> {
    let tokens = reply["choices"][0]["logprobs"]["content"].as_array().unwrap();
    tokens.iter().map(|t| t["token"].as_str().unwrap().to_owned()).collect()
}

/// A reply with its token ids, the same drafted, serial and streamed.
fn served(body: &Value) -> Value {
    exact_streamed(&SERVER, body);
    exact(&SERVER, &with(body.clone(), json!({"return_token_ids": true})))
}

/// Nothing is counted or reported past the end.
fn assert_counts(reply: &Value, tokens: usize) {
    assert_eq!(reply["usage"]["completion_tokens"], tokens);
    assert_eq!((ids(reply).len(), texts(reply).len()), (tokens, tokens));
}

#[rstest]
fn exact_ends_at_every_token(#[values("cap", "stop token", "stop string", "stop string and cap")] by: &str) {
    let full = served(&whole());
    let (ids, texts) = (self::ids(&full), self::texts(&full));
    assert!(full["tokenfare"]["accepted"].as_u64().unwrap() > 0, "no round commits several tokens");
    for n in 0..LONG {
        let (more, reason) = match by {
            "cap" => (json!({"max_tokens": n + 1}), "length"),
            "stop token" => (json!({"stop_token_ids": [ids[n]]}), "stop"),
            "stop string" => (json!({"stop": texts[n]}), "stop"),
            _ => (json!({"stop": [texts[n]], "max_tokens": n + 1}), "stop"),
        };
        let reply = served(&with(whole(), more));
        let first = match by {
            "cap" => n,
            "stop token" => ids.iter().position(|id| *id == ids[n]).unwrap(),
            // The string may stand inside an earlier token too.
            _ => (0..LONG).find(|&end| texts[..=end].concat().contains(&texts[n])).unwrap(),
        };
        assert_eq!(finish(&reply), reason, "{by} at {n}");
        assert_counts(&reply, first + 1);
        if by.starts_with("stop string") {
            let content = texts.concat();
            assert_eq!(
                reply["choices"][0]["message"]["content"],
                content[..content.find(&texts[n]).unwrap()]
            );
        }
    }
}

#[test]
fn exact_reasoning_that_a_cap_or_budget_cuts_at_every_token() {
    for n in 1..LONG {
        let thinking = with(whole(), json!({"thinking": true}));
        let capped = served(&with(thinking.clone(), json!({"max_tokens": n})));
        assert_eq!(finish(&capped), "length");
        assert_counts(&capped, n);
        let more = json!({"thinking_budget": n, "max_tokens": n + 6});
        let budget = served(&with(thinking, more));
        let reasoning = budget["usage"]["completion_tokens_details"]["reasoning_tokens"].as_u64().unwrap();
        assert!(reasoning as usize <= n + 1 && reasoning > 0, "{budget}");
    }
}
