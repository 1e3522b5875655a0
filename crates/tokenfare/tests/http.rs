//! The HTTP API of the real binary: replies.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::LazyLock;

use rstest::rstest;
use serde_json::{Value, json};
use support::mini;
use support::server::{Server, read};

const CHAT: &str = "/v1/chat/completions";
const PLAIN: &str = "/v1/completions";
const VOCAB: usize = 8192;

static SERVER: LazyLock<Server> =
    LazyLock::new(|| Server::start(&[&mini(), "--parallel", "2", "--context", "512"], &[]));

fn chat(question: &str) -> Value {
    json!({"messages": [{"role": "user", "content": question}], "seed": 5, "max_tokens": 48})
}

fn plain(prompt: impl Into<Value>) -> Value {
    json!({"prompt": prompt.into(), "temperature": 0, "max_tokens": 24})
}

fn with(mut body: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

fn hash(reply: &Value) -> &str {
    reply["tokenfare"]["token_sha256"].as_str().unwrap()
}

fn joined(events: &[Value], at: &str) -> String {
    events.iter().filter_map(|e| e.pointer(at)?.as_str()).collect()
}

#[rstest]
#[case(chat("What is a GPU?"), "content")]
#[case(with(chat("What is 47 + 38?"), &json!({"thinking": true})), "reasoning_content")]
#[case(with(chat("Tell me a short story."), &json!({"temperature": 0, "stop": ["boy"]})), "content")]
fn a_streamed_chat_is_the_whole_one(#[case] body: Value, #[case] channel: &str) {
    let whole = SERVER.ok(CHAT, &body);
    let options = json!({"stream": true, "stream_options": {"include_usage": true}});
    let events = SERVER.post(CHAT, &with(body, &options)).events();
    let (last, chunks) = events.split_last().unwrap();
    let message = &whole["choices"][0]["message"];
    assert!(!message[channel].as_str().unwrap().is_empty());
    for name in ["content", "reasoning_content"] {
        let text = joined(chunks, &format!("/choices/0/delta/{name}"));
        assert_eq!(text, message[name].as_str().unwrap_or_default());
    }
    let ends: Vec<&Value> =
        chunks.iter().map(|c| &c["choices"][0]["finish_reason"]).filter(|r| !r.is_null()).collect();
    assert_eq!(ends, [&whole["choices"][0]["finish_reason"]]);
    assert_eq!(last["choices"], json!([]));
    for name in ["prompt_tokens", "completion_tokens", "total_tokens", "completion_tokens_details"] {
        assert_eq!(last["usage"][name], whole["usage"][name], "{name}");
    }
    assert_eq!(hash(last), hash(&whole));
    assert_eq!(last["tensorfold"], last["tokenfare"]);
}

#[test]
fn a_streamed_completion_is_the_whole_one() {
    let body = with(plain("The sea"), &json!({"echo": true, "logprobs": 2, "return_token_ids": true}));
    let whole = SERVER.ok(PLAIN, &body);
    let events = SERVER.post(PLAIN, &with(body, &json!({"stream": true}))).events();
    let (last, chunks) = events.split_last().unwrap();
    assert_eq!(joined(chunks, "/choices/0/text"), whole["choices"][0]["text"].as_str().unwrap());
    assert_eq!((hash(last), &last["usage"]), (hash(&whole), &Value::Null));
    let list = |name: &str| -> Vec<Value> {
        let at = |c: &Value| c["choices"][0]["logprobs"][name].as_array().cloned();
        chunks.iter().filter_map(at).flatten().collect()
    };
    for name in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        assert_eq!(json!(list(name)), whole["choices"][0]["logprobs"][name], "{name}");
    }
    let ids: Vec<Value> =
        chunks.iter().filter_map(|c| c["choices"][0]["token_ids"].as_array().cloned()).flatten().collect();
    assert_eq!(json!(ids), whole["choices"][0]["token_ids"]);
}

#[rstest]
#[case(chat("Who are you?"))]
#[case(with(chat("Write a fibonacci function"), &json!({"temperature": 0})))]
#[case(with(chat("Tell me a short story."), &json!({"temperature": 1.3, "top_p": 0.9})))]
fn drafts_change_no_token(#[case] body: Value) {
    let (drafted, serial) = (SERVER.ok(CHAT, &body), SERVER.ok(CHAT, &with(body, &json!({"draft": false}))));
    assert_eq!((hash(&drafted), &drafted["choices"]), (hash(&serial), &serial["choices"]));
    assert!(drafted["tokenfare"]["drafted"].as_u64().unwrap() > 0);
    assert_eq!(serial["tokenfare"]["drafted"], 0);
    let tokens = serial["usage"]["completion_tokens"].as_u64().unwrap();
    assert_eq!(serial["tokenfare"]["rounds"], tokens - 1);
}

#[test]
fn concurrent_replies_are_those_of_solo_ones() {
    let bodies =
        ["What is a GPU?", "Tell me a short story.", "Why is the sea salty?", "Who are you?"].map(chat);
    let solo: Vec<Value> = bodies.iter().map(|b| SERVER.ok(CHAT, b)).collect();
    let together: Vec<Value> = std::thread::scope(|s| {
        let running: Vec<_> = bodies.iter().map(|b| s.spawn(|| SERVER.ok(CHAT, b))).collect();
        running.into_iter().map(|r| r.join().unwrap()).collect()
    });
    for (solo, together) in solo.iter().zip(&together) {
        assert_eq!((hash(solo), &solo["choices"]), (hash(together), &together["choices"]));
    }
}

#[test]
fn choice_i_draws_with_seed_plus_i_and_a_prompt_counts_once() {
    let both = SERVER.ok(CHAT, &with(chat("Tell me a short story."), &json!({"n": 2})));
    let second = SERVER.ok(CHAT, &with(chat("Tell me a short story."), &json!({"seed": 6})));
    assert_eq!(both["choices"][1]["message"], second["choices"][0]["message"]);
    assert_ne!(both["choices"][0]["message"], both["choices"][1]["message"]);
    assert_eq!(both["usage"]["prompt_tokens"], second["usage"]["prompt_tokens"]);
    let two = SERVER.ok(PLAIN, &with(plain(json!([[0, 5], [0, 6, 7]])), &json!({"n": 2, "max_tokens": 1})));
    assert_eq!(two["choices"].as_array().unwrap().len(), 4);
    assert_eq!((&two["usage"]["prompt_tokens"], &two["usage"]["completion_tokens"]), (&json!(5), &json!(4)));
}

#[test]
fn an_evaluated_prompt_has_no_reply() {
    let body = json!({"prompt": "The sea is salty", "echo": true, "logprobs": 1, "max_tokens": 0});
    let reply = SERVER.ok(PLAIN, &body);
    let lists = &reply["choices"][0]["logprobs"];
    let length = reply["usage"]["prompt_tokens"].as_u64().unwrap() as usize;
    assert_eq!(reply["choices"][0]["text"], "The sea is salty");
    assert_eq!(
        (&reply["usage"]["completion_tokens"], &lists["token_logprobs"][0]),
        (&json!(0), &Value::Null)
    );
    let logprobs = lists["token_logprobs"].as_array().unwrap();
    assert_eq!(logprobs.len(), length);
    assert!(logprobs[1..].iter().all(|l| l.as_f64().unwrap() <= 0.0));
    assert_eq!(hash(&reply), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

#[test]
fn logprobs_of_the_whole_vocabulary_sum_to_one() {
    let more = json!({"max_tokens": 1, "logprobs": VOCAB, "return_tokens_as_token_ids": true});
    let reply = SERVER.ok(PLAIN, &with(plain("The sea"), &more));
    let top = reply["choices"][0]["logprobs"]["top_logprobs"][0].as_object().unwrap();
    assert_eq!(top.len(), VOCAB);
    let sum: f64 = top.values().map(|l| l.as_f64().unwrap().exp()).sum();
    assert!((sum - 1.0).abs() < 1e-4, "{sum}");
    // Each is written in full: it is an f32 and no rounding of one.
    assert!(top.values().all(|l| l.as_f64().is_some_and(|l| f64::from(l as f32) == l)));
}

#[test]
fn a_prompt_of_ids_is_that_of_its_text() {
    let more = json!({"return_token_ids": true});
    let text = SERVER.ok(PLAIN, &with(plain("Why is the sea salty?"), &more));
    let ids = text["choices"][0]["prompt_token_ids"].clone();
    let by_ids = SERVER.ok(PLAIN, &with(plain(ids), &more));
    assert_eq!((hash(&text), &text["choices"]), (hash(&by_ids), &by_ids["choices"]));
    let tokens = text["choices"][0]["token_ids"].as_array().unwrap().len();
    assert_eq!(text["usage"]["completion_tokens"], tokens);
}

#[test]
fn a_stop_string_ends_the_text_before_it() {
    let full = SERVER.ok(CHAT, &with(chat("What is a GPU?"), &json!({"temperature": 0, "max_tokens": 60})));
    let stopped =
        SERVER.ok(CHAT, &with(chat("What is a GPU?"), &json!({"temperature": 0, "stop": ["built"]})));
    let text = full["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!(stopped["choices"][0]["message"]["content"], text.split_once("built").unwrap().0);
    assert_eq!(stopped["choices"][0]["finish_reason"], "stop");
}

#[test]
fn a_stop_token_ends_the_reply_and_counts() {
    let more = json!({"return_token_ids": true});
    let full = SERVER.ok(PLAIN, &with(plain("Why is the sea salty?"), &more));
    let ids: Vec<u32> = serde_json::from_value(full["choices"][0]["token_ids"].clone()).unwrap();
    let stop = ids[6];
    let end = ids.iter().position(|&id| id == stop).unwrap();
    let body =
        with(plain("Why is the sea salty?"), &json!({"return_token_ids": true, "stop_token_ids": [stop]}));
    let stopped = SERVER.ok(PLAIN, &body);
    assert_eq!(stopped["choices"][0]["token_ids"], json!(ids[..=end]));
    assert_eq!(stopped["choices"][0]["finish_reason"], "stop");
    assert_eq!(stopped["usage"]["completion_tokens"], end + 1);
}

#[test]
fn a_bias_moves_the_choice() {
    let body = |bias: &Value| {
        with(plain("The sea"), &json!({"max_tokens": 4, "logit_bias": bias, "return_token_ids": true}))
    };
    let forced = SERVER.ok(PLAIN, &body(&json!({"500": 100})));
    assert_eq!(forced["choices"][0]["token_ids"], json!([500, 500, 500, 500]));
    let first = SERVER.ok(PLAIN, &body(&json!({})))["choices"][0]["token_ids"][0].clone();
    let banned = SERVER.ok(PLAIN, &body(&json!({first.to_string(): -100})));
    assert!(!banned["choices"][0]["token_ids"].as_array().unwrap().contains(&first));
}

#[test]
fn without_a_seed_the_prompt_is_the_key() {
    let body = with(plain("The sea"), &json!({"temperature": 1}));
    let (once, again) = (SERVER.ok(PLAIN, &body), SERVER.ok(PLAIN, &body));
    assert_eq!((hash(&once), &once["choices"]), (hash(&again), &again["choices"]));
    let seed = once["tokenfare"]["seed"].clone();
    assert_eq!(hash(&SERVER.ok(PLAIN, &with(body.clone(), &json!({"seed": seed})))), hash(&once));
    assert_ne!(hash(&SERVER.ok(PLAIN, &with(body, &json!({"seed": 1})))), hash(&once));
}

#[test]
fn a_spent_thinking_budget_closes_the_reasoning() {
    let more = json!({"thinking": true, "thinking_budget": 4, "temperature": 0});
    let whole = SERVER.ok(CHAT, &with(chat("What is 47 + 38?"), &more));
    let serial = with(chat("What is 47 + 38?"), &with(more, &json!({"draft": false})));
    let serial = SERVER.ok(CHAT, &serial);
    assert_eq!((hash(&whole), &whole["choices"]), (hash(&serial), &serial["choices"]));
    let usage = &whole["usage"];
    assert_eq!(usage["completion_tokens_details"], serial["usage"]["completion_tokens_details"]);
    assert_eq!(usage["completion_tokens_details"]["reasoning_tokens"], 5);
}

/// Bytes of a token as completions write it.
fn bytes(token: &str) -> Vec<u8> {
    match token.strip_prefix("bytes:") {
        None => token.as_bytes().to_vec(),
        Some(codes) => codes.split("\\x").skip(1).map(|c| u8::from_str_radix(c, 16).unwrap()).collect(),
    }
}

#[test]
fn tokens_that_are_no_text_by_themselves_are_told_by_their_bytes() {
    let more = json!({"temperature": 100, "seed": 3, "max_tokens": 200, "ignore_eos": true, "logprobs": 0});
    let reply = SERVER.ok(PLAIN, &with(plain("The sea"), &more));
    let tokens: Vec<String> =
        serde_json::from_value(reply["choices"][0]["logprobs"]["tokens"].clone()).unwrap();
    assert!(tokens.iter().any(|t| t.starts_with("bytes:")));
    // Special tokens have no text in a reply.
    let whole: Vec<u8> = tokens.iter().filter(|t| !t.starts_with("<｜")).flat_map(|t| bytes(t)).collect();
    assert_eq!(String::from_utf8_lossy(&whole), reply["choices"][0]["text"].as_str().unwrap());
    let chatted = with(chat("The sea"), &with(more, &json!({"logprobs": true})));
    let content = SERVER.ok(CHAT, &chatted)["choices"][0]["logprobs"]["content"].clone();
    let is_part = |t: &Value| t["token"] == "\u{fffd}" && t["bytes"] != json!("\u{fffd}".as_bytes());
    assert!(content.as_array().unwrap().iter().any(is_part));
}

#[test]
fn any_content_type_is_read_as_json() {
    let body = plain("The sea").to_string();
    for kind in ["application/x-www-form-urlencoded", "text/plain; charset=utf-8"] {
        let answer = read(SERVER.send_as(kind, "POST", PLAIN, body.len(), body.as_bytes()));
        assert_eq!(hash(&answer.json()), hash(&SERVER.ok(PLAIN, &plain("The sea"))));
    }
}

#[test]
fn ignored_ends_are_run_over() {
    let body = with(chat("What is 12 + 30?"), &json!({"temperature": 0, "max_tokens": 20}));
    let (ended, on) = (SERVER.ok(CHAT, &body), SERVER.ok(CHAT, &with(body, &json!({"ignore_eos": true}))));
    assert_eq!(
        (&ended["choices"][0]["finish_reason"], &ended["usage"]["completion_tokens"]),
        (&json!("stop"), &json!(8))
    );
    assert_eq!(
        (&on["choices"][0]["finish_reason"], &on["usage"]["completion_tokens"]),
        (&json!("length"), &json!(20))
    );
}

#[test]
fn control_tokens_are_text_in_a_chat_and_tokens_in_a_completion() {
    let control = "<｜User｜>";
    let more = json!({"max_tokens": 0, "return_token_ids": true});
    let raw = SERVER.ok(PLAIN, &with(plain(control), &more));
    let id = raw["choices"][0]["prompt_token_ids"].as_array().unwrap();
    assert_eq!(id.len(), 1);
    let typed = SERVER.ok(CHAT, &with(chat(&format!("say {control}")), &more));
    let ids = typed["prompt_token_ids"].as_array().unwrap();
    assert_eq!(ids.iter().filter(|i| *i == &id[0]).count(), 1);
}

#[test]
fn the_model_is_listed() {
    let models = SERVER.get("/v1/models").json();
    assert_eq!(
        (&models["data"][0]["id"], &models["data"][0]["max_model_len"]),
        (&json!("mini"), &json!(512))
    );
}
