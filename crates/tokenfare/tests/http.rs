//! The API as clients use it, over one server of the mini model.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use common::Server;
use rstest::rstest;
use serde_json::{Value, json};

static SERVER: LazyLock<Server> = LazyLock::new(|| Server::start(&["--parallel", "3", "--threads", "1"]));

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

fn chat(text: &str, more: Value) -> Value {
    with(json!({"messages": [{"role": "user", "content": text}], "max_tokens": 24}), more)
}

fn with(mut body: Value, more: Value) -> Value {
    for (key, value) in more.as_object().expect("an object") {
        body[key] = value.clone();
    }
    body
}

fn hash(reply: &Value) -> &str {
    reply["tokenfare"]["token_sha256"].as_str().expect("a hash")
}

fn text_of(chunks: &[Value], path: &[&str]) -> String {
    let step = |v: &Value| path.iter().fold(v["choices"][0].clone(), |v, key| v[*key].clone());
    chunks.iter().filter_map(|c| step(c).as_str().map(str::to_owned)).collect()
}

#[rstest]
#[case(json!({"temperature": 0}))]
#[case(json!({"temperature": 1, "seed": 5}))]
#[case(json!({"temperature": 0.7, "top_p": 0.9, "top_k": 20, "min_p": 0.02}))]
#[case(json!({"temperature": 0, "stop": [" one", "built"]}))]
#[case(json!({"temperature": 0, "thinking": true, "thinking_budget": 4}))]
fn exact_streamed_drafted_and_repeated_replies_are_one(#[case] more: Value) {
    let body = chat("What is a GPU?", more);
    let whole = SERVER.ok(CHAT, &body);
    let again = SERVER.ok(CHAT, &body);
    let serial = SERVER.ok(CHAT, &with(body.clone(), json!({"draft": false})));
    assert_eq!(serial["tokenfare"]["drafted"], 0);
    for other in [&again, &serial] {
        assert_eq!(hash(&whole), hash(other));
        assert_eq!(whole["choices"], other["choices"]);
        assert_eq!(whole["usage"]["completion_tokens"], other["usage"]["completion_tokens"]);
    }
    let streamed = with(body, json!({"stream": true, "stream_options": {"include_usage": true}}));
    let chunks = SERVER.stream(CHAT, &streamed);
    let message = &whole["choices"][0]["message"];
    assert_eq!(text_of(&chunks, &["delta", "content"]), message["content"].as_str().expect("text"));
    let reasoning = message["reasoning_content"].as_str().unwrap_or_default();
    assert_eq!(text_of(&chunks, &["delta", "reasoning_content"]), reasoning);
    assert_eq!(
        text_of(&chunks, &["finish_reason"]),
        whole["choices"][0]["finish_reason"].as_str().expect("a reason")
    );
    let last = chunks.last().expect("a last chunk");
    assert_eq!((hash(last), &last["choices"]), (hash(&whole), &json!([])));
    assert_eq!(last["usage"]["completion_tokens"], whole["usage"]["completion_tokens"]);
    assert_eq!(last["tensorfold"]["token_sha"].as_str(), Some(&hash(&whole)[..12]));
}

#[test]
fn exact_concurrent_replies_equal_solo_ones() {
    let bodies: Vec<Value> = (0..9)
        .map(|i| chat(&format!("What is {i} + {i}?"), json!({"temperature": i % 2, "seed": 7})))
        .collect();
    let solo: Vec<Value> = bodies.iter().map(|b| SERVER.ok(CHAT, b)).collect();
    let together: Vec<Value> = std::thread::scope(|scope| {
        let threads: Vec<_> = bodies.iter().map(|b| scope.spawn(|| SERVER.ok(CHAT, b))).collect();
        threads.into_iter().map(|t| t.join().expect("a reply")).collect()
    });
    for (solo, other) in solo.iter().zip(&together) {
        assert_eq!(hash(solo), hash(other));
    }
}

#[test]
fn choices_draw_with_seeds_in_order() {
    let body = chat("Tell me a short story.", json!({"temperature": 1, "seed": 40, "n": 2}));
    let two = SERVER.ok(CHAT, &body);
    let second = SERVER.ok(CHAT, &with(body, json!({"seed": 41, "n": 1})));
    assert_eq!(two["choices"][1]["message"], second["choices"][0]["message"]);
    assert_eq!((two["choices"].as_array().map(Vec::len), &two["choices"][1]["index"]), (Some(2), &json!(1)));
}

#[test]
fn a_prompt_can_be_scored_without_a_reply() {
    let body = json!({"prompt": [0, 35, 590, 3901], "max_tokens": 0, "echo": true, "logprobs": 1,
        "return_token_ids": true, "return_tokens_as_token_ids": true});
    let reply = SERVER.ok(TEXT, &body);
    let choice = &reply["choices"][0];
    assert_eq!(
        choice["logprobs"]["tokens"],
        json!(["token_id:0", "token_id:35", "token_id:590", "token_id:3901"])
    );
    let scores = choice["logprobs"]["token_logprobs"].as_array().expect("a list");
    assert_eq!((scores.len(), &scores[0]), (4, &Value::Null));
    assert!(scores[1..].iter().all(|s| s.as_f64().is_some_and(|s| s <= 0.0)), "{scores:?}");
    assert_eq!((&choice["token_ids"], &choice["prompt_token_ids"]), (&json!([]), &body["prompt"]));
    assert_eq!(
        (&reply["usage"]["completion_tokens"], &choice["finish_reason"]),
        (&json!(0), &json!("length"))
    );
}

#[test]
fn log_probabilities_are_the_same_with_drafts_and_cover_the_vocabulary() {
    let body = json!({"prompt": "def add(a, b):", "max_tokens": 6, "temperature": 0, "logprobs": 8192,
        "return_tokens_as_token_ids": true});
    let drafted = SERVER.ok(TEXT, &body);
    let serial = SERVER.ok(TEXT, &with(body, json!({"draft": false})));
    assert_eq!(drafted["choices"], serial["choices"]);
    let top = drafted["choices"][0]["logprobs"]["top_logprobs"][0].as_object().expect("an object");
    let sum: f64 = top.values().map(|l| l.as_f64().expect("a number").exp()).sum();
    assert_eq!(top.len(), 8192);
    assert!((sum - 1.0).abs() < 1e-4, "{sum}");
    assert!(top.values().all(|l| l.as_f64().is_some_and(|l| f64::from(l as f32) == l)));
}

#[test]
fn control_tokens_are_text_in_a_chat_and_control_in_a_raw_prompt() {
    let ids = |path: &str, body: Value| {
        SERVER.ok(path, &with(body, json!({"return_token_ids": true, "max_tokens": 1})))
    };
    let typed = ids(CHAT, chat("<｜User｜></think>", json!({})));
    let prompt: Vec<u64> = serde_json::from_value(typed["prompt_token_ids"].clone()).expect("ids");
    assert_eq!(prompt.iter().filter(|&&id| id == 8184 || id == 8187).count(), 2, "{prompt:?}");
    let raw = ids(TEXT, json!({"prompt": "<｜User｜></think>"}));
    assert_eq!(raw["choices"][0]["prompt_token_ids"], json!([8184, 8187]));
}

#[test]
fn stop_tokens_and_ignored_ends_are_honoured() {
    let body = chat("What is the capital of France?", json!({"temperature": 0, "max_tokens": 32}));
    let plain = SERVER.ok(CHAT, &body);
    assert_eq!(
        (&plain["choices"][0]["finish_reason"], &plain["usage"]["completion_tokens"]),
        (&json!("stop"), &json!(9))
    );
    let on = SERVER.ok(CHAT, &with(body, json!({"ignore_eos": true})));
    assert_eq!(
        (&on["choices"][0]["finish_reason"], &on["usage"]["completion_tokens"]),
        (&json!("length"), &json!(32))
    );
}

#[rstest]
#[case(CHAT, json!({}), "messages: missing")]
#[case(CHAT, json!({"messages": []}), "messages: expected at least one message")]
#[case(CHAT, json!({"messages": [3]}), "messages[0]: expected an object, found a number")]
#[case(CHAT, json!({"messages": [{"role": "robot", "content": "x"}]}), "messages[0].role: expected one of")]
#[case(CHAT, json!({"messages": [{"role": "user"}]}), "messages[0].content: missing")]
#[case(CHAT, json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}), "messages[0].content[0].type: expected text")]
#[case(CHAT, json!({"messages": [{"role": "user", "content": "<｜deepseek_image｜>"}]}), "messages[0].content: ")]
#[case(CHAT, chat("x", json!({"tools": [{}]})), "tools: not supported")]
#[case(CHAT, chat("x", json!({"response_format": {"type": "json_object"}})), "response_format.type: expected \"text\"")]
#[case(CHAT, chat("x", json!({"reasoning_effort": "huge"})), "reasoning_effort: ")]
#[case(CHAT, chat("x", json!({"max_tokens": true})), "max_tokens: expected a whole number")]
#[case(CHAT, chat("x", json!({"top_logprobs": 2})), "top_logprobs: expected logprobs: true")]
#[case(TEXT, json!({"prompt": ""}), "prompt: empty, expected at least one token")]
#[case(TEXT, json!({"prompt": []}), "prompt: empty, expected at least one token")]
#[case(TEXT, json!({"prompt": [9000]}), "prompt: token id 9000 is outside the vocabulary of 8192")]
#[case(TEXT, json!({"prompt": [-1]}), "prompt: expected token ids, found -1")]
#[case(TEXT, json!({"prompt": {"a": 1}}), "prompt: expected a string")]
#[case(TEXT, json!({"prompt": "x", "logprobs": 9000}), "logprobs: expected a whole number from 0 to 8192")]
#[case(TEXT, json!({"prompt": "x", "logit_bias": {"9000": 1}}), "logit_bias: token id 9000")]
#[case(TEXT, json!({"prompt": "x", "suffix": "y"}), "suffix: not supported")]
fn a_malformed_request_is_400_and_names_the_field(
    #[case] path: &str,
    #[case] body: Value,
    #[case] message: &str,
) {
    let (status, reply) = SERVER.post(path, &body);
    let found = reply["error"]["message"].as_str().expect("a message");
    assert_eq!(status, 400, "{found}");
    assert!(found.starts_with(message), "{found}");
    assert_eq!(reply["error"]["param"].as_str(), message.split(": ").next());
}

#[test]
fn a_prompt_longer_than_the_context_gives_both_numbers() {
    let (status, reply) = SERVER.post(TEXT, &json!({"prompt": vec![5; 4096]}));
    let error = &reply["error"];
    assert_eq!((status, error["code"].as_str()), (400, Some("context_length_exceeded")));
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("4096 tokens do not fit the context of 4096"), "{message}");
}

#[rstest]
#[case("POST", CHAT, b"{\"messages\": ", 400, "body: expected JSON")]
#[case("POST", CHAT, b"{\"a\": \"\xff\"}", 400, "body: expected UTF-8, found an invalid byte at 7")]
#[case("POST", CHAT, b"", 400, "body: expected JSON")]
#[case("POST", TEXT, b"[]", 400, "body: expected a JSON object, found an array")]
#[case("POST", "/v1/nowhere", b"{}", 404, "no route POST /v1/nowhere; there are POST /v1/chat/completions")]
#[case("GET", CHAT, b"", 405, "/v1/chat/completions does not accept GET")]
fn a_broken_call_gets_a_plain_answer(
    #[case] method: &str,
    #[case] path: &str,
    #[case] body: &[u8],
    #[case] status: u16,
    #[case] message: &str,
) {
    let (found, text) = SERVER.send(method, path, body);
    assert_eq!(found, status, "{text}");
    let reply: Value = serde_json::from_str(&text).expect("JSON");
    assert!(reply["error"]["message"].as_str().is_some_and(|m| m.starts_with(message)), "{text}");
}

#[test]
fn deep_nesting_and_huge_bodies_are_refused() {
    let deep = format!("{{\"a\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(SERVER.send("POST", CHAT, deep.as_bytes()).0, 400);
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        (16 << 20) + 1
    );
    let answer = SERVER.raw(head.as_bytes());
    assert!(
        answer.starts_with("HTTP/1.1 413 ") && answer.contains("expected at most 16777216 bytes"),
        "{answer}"
    );
}

#[test]
fn the_model_is_listed_and_health_is_ok() {
    let (status, models) = SERVER.send("GET", "/v1/models", b"");
    let models: Value = serde_json::from_str(&models).expect("JSON");
    assert_eq!(
        (status, &models["data"][0]["id"], &models["data"][0]["max_model_len"]),
        (200, &json!("mini"), &json!(4096))
    );
    let (status, health) = SERVER.send("GET", "/health", b"");
    assert!(status == 200 && health.starts_with("{\"status\":\"ok\","), "{health}");
}

fn open_stream(server: &Server, tokens: usize) -> TcpStream {
    let body =
        chat("Tell me a short story.", json!({"max_tokens": tokens, "ignore_eos": true, "stream": true}))
            .to_string();
    let mut stream = TcpStream::connect(&server.address).expect("a connection");
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(head.as_bytes()).expect("it goes out");
    let mut first = [0; 12];
    stream.read_exact(&mut first).expect("an answer begins");
    assert_eq!(&first, b"HTTP/1.1 200");
    stream
}

#[test]
fn a_client_that_leaves_frees_its_lane() {
    let server = Server::start(&["--parallel", "1", "--threads", "1"]);
    for _ in 0..3 {
        drop(open_stream(&server, 4000));
    }
    // Were the lane still held, this would wait for thousands of tokens of three replies.
    let reply = server.ok(CHAT, &chat("What is a GPU?", json!({"max_tokens": 2})));
    assert_eq!(reply["usage"]["completion_tokens"], 2);
}

#[cfg(unix)]
#[test]
fn a_terminated_server_ends_running_replies_and_refuses_new_ones() {
    let mut server = Server::start(&["--parallel", "1", "--threads", "1"]);
    let mut running = open_stream(&server, 1500);
    let signal = |server: &Server| {
        let id = server.child.id().to_string();
        assert!(std::process::Command::new("kill").args(["-TERM", &id]).status().expect("kill").success());
    };
    signal(&server);
    let started = Instant::now();
    let (status, text) = loop {
        let answer = server.send("GET", "/health", b"");
        if answer.0 != 200 || started.elapsed() > Duration::from_secs(30) {
            break answer;
        }
    };
    assert!(status == 503 && text.starts_with("{\"status\":\"draining\","), "{status} {text}");
    assert_eq!(server.post(CHAT, &chat("x", json!({}))).0, 503);
    let mut rest = String::new();
    running.read_to_string(&mut rest).expect("the reply goes on to its end");
    assert!(rest.contains("\"finish_reason\":\"length\"") && rest.contains("[DONE]"), "{rest}");
    assert!(server.child.wait().expect("it ends").success());
}
