//! The HTTP API of the real binary: refused requests.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::LazyLock;

use rstest::rstest;
use serde_json::{Value, json};
use support::server::{Server, read};
use support::tiny;

const CHAT: &str = "/v1/chat/completions";
const PLAIN: &str = "/v1/completions";

static SERVER: LazyLock<Server> = LazyLock::new(|| Server::start(&[&tiny(), "--context", "64"], &[]));

#[rstest]
#[case(CHAT, json!({"temperature": "hot"}), "temperature")]
#[case(CHAT, json!({"temperature": true}), "temperature")]
#[case(CHAT, json!({"top_p": 0}), "top_p")]
#[case(CHAT, json!({"n": 0}), "n")]
#[case(CHAT, json!({"stream": 1}), "stream")]
#[case(CHAT, json!({"stream": true, "max_tokens": -1}), "max_tokens")]
#[case(CHAT, json!({"stop": [""]}), "stop")]
#[case(CHAT, json!({"seed": 0.5}), "seed")]
#[case(CHAT, json!({"logit_bias": {"99999": 1}}), "logit_bias")]
#[case(CHAT, json!({"top_logprobs": 2}), "top_logprobs")]
#[case(CHAT, json!({"reasoning_effort": "huge"}), "reasoning_effort")]
#[case(CHAT, json!({"tools": [{"type": "function"}]}), "tools[0].function")]
#[case(CHAT, json!({"tools": [{"type": "retrieval"}]}), "tools[0].type")]
#[case(CHAT, json!({"tools": [{"type": "function", "function": {"name": "a\nb"}}]}), "tools[0].function.name")]
#[case(CHAT, json!({"guided_json": {"$ref": "#"}}), "guided_json")]
#[case(PLAIN, json!({"guided_regex": "[^\\s\\S]"}), "guided_regex")]
#[case(CHAT, json!({"response_format": {"json_schema": {"schema": {}}}}), "response_format.type")]
#[case(CHAT, json!({"stream_options": {"include_usage": 1}}), "stream_options.include_usage")]
#[case(CHAT, json!({"chat_template_kwargs": {"thinking": 1}}), "chat_template_kwargs.thinking")]
#[case(CHAT, json!({"tool_choice": "required"}), "tool_choice")]
#[case(CHAT, json!({"functions": [{"name": "f"}]}), "functions")]
#[case(CHAT, json!({"response_format": {"type": "json"}}), "response_format.type")]
#[case(CHAT, json!({"guided_json": {"properties": {"a": {"type": "string", "pattern": "("}}}}), "guided_json")]
#[case(CHAT, json!({"guided_grammar": "start: missing"}), "guided_grammar")]
#[case(CHAT, json!({"structured_outputs": {"grammar": "root ::= missing"}}), "structured_outputs.grammar")]
#[case(CHAT, json!({"guided_regex": "a", "guided_choice": ["a"]}), "guided_choice")]
#[case(CHAT, json!({"messages": null}), "messages")]
#[case(CHAT, json!({"messages": []}), "messages")]
#[case(CHAT, json!({"messages": [{"role": "boss", "content": "x"}]}), "messages[0].role")]
#[case(CHAT, json!({"messages": [{"role": "user"}]}), "messages[0].content")]
#[case(CHAT, json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}), "messages[0].content[0].type")]
#[case(CHAT, json!({"messages": [3]}), "messages[0]")]
#[case(CHAT, json!({"messages": [{"role": "system", "content": "Be brief."}]}), "messages[0].role")]
#[case(CHAT, json!({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]}), "messages[1].role")]
#[case(CHAT, json!({"messages": [{"role": "user", "content": 3}]}), "messages[0].content")]
#[case(CHAT, json!({"messages": [{"role": "user", "content": [{"type": "text"}]}]}), "messages[0].content[0].text")]
#[case(CHAT, json!({"messages": [{"role": "user", "content": "<｜deepseek_image｜>"}]}), "messages[0].content")]
#[case(CHAT, json!({"messages": [{"role": "user", "content": "x"}, {"role": "user", "content": [{"type": "input_audio"}]}]}), "messages[1].content[0].type")]
#[case(CHAT, json!({"guided_regex": "(a"}), "guided_regex")]
#[case(PLAIN, json!({"guided_regex": "(a"}), "guided_regex")]
#[case(PLAIN, json!({"tools": [{"type": "function"}]}), "tools")]
#[case(CHAT, json!({"presence_penalty": 1}), "presence_penalty")]
#[case(PLAIN, json!({"response_format": {"type": "json_schema"}}), "response_format.json_schema.schema")]
#[case(PLAIN, json!({"logit_bias": {"5": 1, "05": 2}}), "logit_bias")]
#[case(PLAIN, json!({"logit_bias": {"5": 1e300}}), "logit_bias")]
#[case(PLAIN, json!({"max_tokens": 1e23}), "max_tokens")]
#[case(PLAIN, json!({"prompt": {"a": 1}}), "prompt")]
#[case(PLAIN, json!({"prompt": ["a", ""]}), "prompt")]
#[case(PLAIN, json!({"prompt": null}), "prompt")]
#[case(PLAIN, json!({"prompt": ""}), "prompt")]
#[case(PLAIN, json!({"prompt": []}), "prompt")]
#[case(PLAIN, json!({"prompt": [512]}), "prompt")]
#[case(PLAIN, json!({"prompt": [1.5]}), "prompt")]
#[case(PLAIN, json!({"logprobs": 513}), "logprobs")]
#[case(PLAIN, json!({"suffix": "x"}), "suffix")]
#[case(PLAIN, json!({"stop_token_ids": [512]}), "stop_token_ids")]
fn a_malformed_field_is_named(#[case] path: &str, #[case] fields: Value, #[case] param: &str) {
    let mut body = json!({"messages": [{"role": "user", "content": "hi"}], "prompt": "hi", "max_tokens": 1});
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    let (status, found, _, message) = SERVER.post(path, &body).error();
    assert_eq!((status, &found), (400, &json!(param)), "{message}");
    assert!(message.starts_with(param), "{message}");
}

#[rstest]
#[case(b"{\"prompt\": ".to_vec(), "body: expected JSON: ")]
#[case(b"{\"prompt\": \"\xff\"}".to_vec(), "body: expected UTF-8, found an invalid byte at 12")]
#[case(b"[1]".to_vec(), "body: expected a JSON object, found an array")]
#[case(b"{\"temperature\": 1e999}".to_vec(), "body: expected JSON: ")]
#[case([b"[".repeat(100_000), b"]".repeat(100_000)].concat(), "body: expected JSON: recursion limit")]
fn a_body_that_is_no_json_object_is_refused(#[case] body: Vec<u8>, #[case] start: &str) {
    for path in [CHAT, PLAIN] {
        let (status, param, _, message) = SERVER.raw("POST", path, &body).error();
        assert_eq!((status, param), (400, json!("body")));
        assert!(message.starts_with(start), "{message}");
    }
}

#[test]
fn a_prompt_beyond_the_context_tells_both_numbers() {
    let answer = SERVER.post(PLAIN, &json!({"prompt": vec![5; 64], "stream": true})).error();
    let (status, param, code, message) = answer;
    assert_eq!((status, param, code), (400, json!("prompt"), json!("context_length_exceeded")));
    assert!(message.contains("64 tokens") && message.contains("context of 64"), "{message}");
    let last = SERVER.ok(PLAIN, &json!({"prompt": vec![5; 63], "ignore_eos": true}));
    assert_eq!(last["usage"]["total_tokens"], 64);
}

#[test]
fn a_conversation_without_a_place_for_a_reply_is_explained() {
    let (_, _, _, message) =
        SERVER.post(CHAT, &json!({"messages": [{"role": "system", "content": "Be brief."}]})).error();
    let expected = "expected a user or tool message at the end, found a system message alone";
    assert_eq!(message, format!("messages[0].role: {expected}"));
    let empty = json!({"messages": [{"role": "user", "content": ""}], "max_tokens": 1});
    assert_eq!(SERVER.ok(CHAT, &empty)["usage"]["completion_tokens"], 1);
}

#[test]
fn a_huge_prompt_holds_up_no_other_request() {
    let body = json!({"prompt": "a".repeat(8 << 20)}).to_string();
    let waiting: Vec<_> = (0..2).map(|_| SERVER.send("POST", PLAIN, body.len(), body.as_bytes())).collect();
    assert_eq!(SERVER.get("/health").status, 200);
    for stream in &waiting {
        stream.set_nonblocking(true).unwrap();
        let answered = stream.peek(&mut [0]).map_err(|e| e.kind());
        assert_eq!(answered, Err(std::io::ErrorKind::WouldBlock));
        stream.set_nonblocking(false).unwrap();
    }
    for stream in waiting {
        assert_eq!(read(stream).error().2, "context_length_exceeded");
    }
}

#[test]
fn a_body_over_the_limit_is_refused_before_it_is_sent() {
    let (status, _, _, message) = read(SERVER.send("POST", CHAT, (16 << 20) + 1, b"{")).error();
    assert_eq!((status, message.as_str()), (413, "body: expected at most 16777216 bytes"));
}

#[test]
fn unknown_routes_and_methods_are_told() {
    let (status, _, _, message) = SERVER.get("/v2/models").error();
    assert_eq!(status, 404);
    assert!(message.starts_with("no route GET /v2/models; there are POST /v1/chat/completions"), "{message}");
    for (method, path, allowed) in [("GET", CHAT, "post"), ("DELETE", "/v1/models", "get")] {
        let answer = SERVER.raw(method, path, b"");
        assert!(answer.head.contains(&format!("\r\nallow: {allowed}")), "{}", answer.head);
        let (status, _, _, message) = answer.error();
        assert_eq!((status, message), (405, format!("{path} does not accept {method}")));
    }
}
