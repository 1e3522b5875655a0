//! /v1/messages over a fake engine: equal to a chat, whole and streamed; counted; refused in its own shape.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use rstest::rstest;
use serde_json::{Value, json};
use support::{CHAT, MESSAGES, RESPONSES, named, post, send, with};
use tokenfare_lanes::testkit::{Call, Fault};
use tokenfare_server::ApiKeys;
use tokenfare_server::testkit::{CALL, Shape, fake};

const COUNT: &str = "/v1/messages/count_tokens";

fn hash(reply: &Value) -> &str {
    reply["tokenfare"]["token_sha256"].as_str().unwrap()
}

/// Content without the ids of calls.
fn content(message: &Value) -> Vec<Value> {
    let mut blocks = message["content"].as_array().unwrap().clone();
    for block in blocks.iter_mut().filter(|block| block["type"] == "tool_use") {
        block["id"] = Value::Null;
    }
    blocks
}

/// The message that a stream's events come to, after a check of their order; arguments stay text.
fn rebuilt(events: &[Value]) -> Value {
    let (first, last) = (&events[0], events.last().unwrap());
    assert_eq!((&first["type"], &last["type"]), (&json!("message_start"), &json!("message_stop")));
    let mut message = first["message"].clone();
    let append = |to: &mut Value, more: &Value| {
        *to = json!(format!("{}{}", to.as_str().unwrap_or_default(), more.as_str().unwrap()));
    };
    let mut open = None;
    for event in events {
        Shape::MessageEvent.check(event).unwrap_or_else(|e| panic!("{e}: {event}"));
        let place = event["index"].as_u64().unwrap_or_default() as usize;
        let blocks = message["content"].as_array_mut().unwrap();
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                assert_eq!((open.replace(place), place), (None, blocks.len()));
                blocks.push(event["content_block"].clone());
            }
            "content_block_delta" => {
                assert_eq!(open, Some(place));
                let delta = &event["delta"];
                match delta["type"].as_str().unwrap() {
                    "text_delta" => append(&mut blocks[place]["text"], &delta["text"]),
                    "thinking_delta" => append(&mut blocks[place]["thinking"], &delta["thinking"]),
                    "signature_delta" => append(&mut blocks[place]["signature"], &delta["signature"]),
                    "input_json_delta" => append(&mut blocks[place]["input"], &delta["partial_json"]),
                    other => panic!("{other}"),
                }
            }
            "content_block_stop" => assert_eq!(open.take(), Some(place)),
            "message_delta" => {
                for name in ["stop_reason", "stop_sequence"] {
                    message[name] = event["delta"][name].clone();
                }
                message["usage"] = event["usage"].clone();
            }
            "message_stop" => message["tokenfare"] = event["tokenfare"].clone(),
            "message_start" | "ping" => {}
            other => panic!("{other}"),
        }
    }
    assert_eq!(open, None);
    message
}

#[rstest]
#[case::text(json!({}), json!({}), json!(["max_tokens", null]))]
#[case::system(json!({"system": [{"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}]}), json!({"messages": [{"role": "system", "content": "b"}, {"role": "user", "content": "abc"}]}), json!(["max_tokens", null]))]
#[case::stopped(json!({"stop_sequences": ["zz", "q"]}), json!({"stop": ["zz", "q"]}), json!(["stop_sequence", "q"]))]
#[case::thinking(json!({"thinking": {"type": "enabled", "budget_tokens": 1024}}), json!({"thinking": true, "thinking_budget": 1024}), json!(["max_tokens", null]))]
#[case::form(json!({"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}}), json!({"response_format": {"type": "json_object"}}), json!(["end_turn", null]))]
#[case::sampled(json!({"temperature": 1, "top_k": 5, "seed": 4, "draft": false}), json!({"temperature": 1, "top_k": 5, "seed": 4}), json!(["max_tokens", null]))]
#[case::one_call(
    json!({"tools": [{"name": "f", "input_schema": {"type": "object"}}], "logit_bias": {CALL.0.to_string(): 500, CALL.1.to_string(): 500}, "tool_choice": {"type": "auto", "disable_parallel_tool_use": true}}),
    json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}], "logit_bias": {CALL.0.to_string(): 500, CALL.1.to_string(): 500}, "parallel_tool_calls": false}),
    json!(null)
)]
#[tokio::test]
async fn a_message_is_its_chat_and_its_stream(#[case] more: Value, #[case] chat: Value, #[case] end: Value) {
    let fake = fake(2, |_, _| {});
    let common = json!({"messages": [{"role": "user", "content": "abc"}], "temperature": 0, "max_tokens": 6});
    let body = with(common.clone(), &more);
    let chat = post(&fake.server, CHAT, &with(common, &chat)).await.json();
    let whole = post(&fake.server, MESSAGES, &body).await.json();
    Shape::Message.check(&whole).unwrap_or_else(|e| panic!("{e}: {whole}"));
    assert_eq!(hash(&whole), hash(&chat));
    if !end.is_null() {
        assert_eq!(json!([whole["stop_reason"], whole["stop_sequence"]]), end);
    }
    let count = |usage: &Value, name: &str| usage[name].as_u64().unwrap();
    let prompt = |usage: &Value| count(usage, "input_tokens") + count(usage, "cache_read_input_tokens");
    assert_eq!(prompt(&whole["usage"]), count(&chat["usage"], "prompt_tokens"));
    assert_eq!(whole["usage"]["output_tokens"], chat["usage"]["completion_tokens"]);
    let counted = post(&fake.server, COUNT, &body).await.json();
    assert_eq!(counted, json!({"input_tokens": prompt(&whole["usage"])}));
    let message = &chat["choices"][0]["message"];
    let texts = |kind: &str, field: &str| -> String {
        let blocks = whole["content"].as_array().unwrap().iter().filter(|block| block["type"] == kind);
        blocks.map(|block| block[field].as_str().unwrap()).collect()
    };
    assert_eq!(texts("text", "text"), message["content"].as_str().unwrap_or_default());
    assert_eq!(texts("thinking", "thinking"), message["reasoning_content"].as_str().unwrap_or_default());
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let names: String = calls.map(|call| call["function"]["name"].as_str().unwrap()).collect();
    assert_eq!(texts("tool_use", "name"), names);
    let events = named(&post(&fake.server, MESSAGES, &with(body, &json!({"stream": true}))).await);
    let mut streamed = rebuilt(&events);
    for block in streamed["content"].as_array_mut().unwrap().iter_mut().filter(|b| b["type"] == "tool_use") {
        let text = block["input"].as_str().unwrap_or_default().to_owned();
        block["input"] = serde_json::from_str(&text).unwrap_or_else(|_| json!({"arguments": text}));
    }
    assert_eq!((content(&streamed), hash(&streamed)), (content(&whole), hash(&whole)));
    for name in ["stop_reason", "stop_sequence", "model", "role", "type"] {
        assert_eq!(streamed[name], whole[name], "{name}");
    }
    assert_eq!(prompt(&streamed["usage"]), prompt(&whole["usage"]));
    assert_eq!(streamed["usage"]["output_tokens_details"], whole["usage"]["output_tokens_details"]);
}

#[tokio::test]
async fn blocks_of_a_turn_become_the_messages_of_a_chat() {
    let fake = fake(1, |_, _| {});
    let blocks = json!([
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "r", "signature": "s"}, {"type": "redacted_thinking", "data": "x"},
            {"type": "text", "text": "t"}, {"type": "tool_use", "id": "1", "name": "f", "input": {"k": 1}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "x"}], "is_error": false},
            {"type": "tool_result", "tool_use_id": "2"}, {"type": "text", "text": "y"}, {"type": "text", "text": "z"},
        ]},
    ]);
    let call = json!({"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"k\": 1}"}});
    let messages = json!([
        {"role": "user", "content": "a"},
        {"role": "assistant", "reasoning_content": "r", "content": "t", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "x"}, {"role": "tool", "tool_call_id": "2", "content": ""},
        {"role": "user", "content": [{"type": "text", "text": "y"}, {"type": "text", "text": "z"}]},
    ]);
    let common = json!({"temperature": 0, "max_tokens": 4});
    let ours = post(&fake.server, MESSAGES, &with(json!({"messages": blocks}), &common)).await.json();
    let chat = post(&fake.server, CHAT, &with(json!({"messages": messages}), &common)).await.json();
    assert_eq!(hash(&ours), hash(&chat));
}

#[rstest]
#[case(json!({"messages": [{"role": "user", "content": "a"}]}), "max_tokens: missing")]
#[case(json!({"max_tokens": true}), "max_tokens: expected a whole number from 0 to 2147483647, found a boolean")]
#[case(json!({"messages": null}), "messages: missing")]
#[case(json!({"messages": []}), "messages: expected at least one message")]
#[case(json!({"messages": [{"role": "tool", "content": "a"}]}), "messages[0].role: expected one of user, assistant, system, found \"tool\"")]
#[case(json!({"messages": [{"role": "user"}]}), "messages[0].content: missing")]
#[case(json!({"messages": [{"role": "user", "content": 1}]}), "messages[0].content: expected a string or an array of text parts, found a number")]
#[case(json!({"messages": [{"role": "user", "content": [{"type": "image"}]}]}), "messages[0].content[0].type: expected \"text\" or \"tool_result\", found \"image\"")]
#[case(json!({"messages": [{"role": "user", "content": [{"type": "text"}]}]}), "messages[0].content[0].text: missing")]
#[case(json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "image"}]}]}]}), "messages[0].content[1].content[0].type: expected text, found \"image\"")]
#[case(json!({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": "x"}]}]}), "messages[0].content[0].input: expected an object, found a string")]
#[case(json!({"messages": [{"role": "assistant", "content": [{"type": "tool_result"}]}]}), "messages[0].content[0].type: expected \"text\", \"thinking\", \"redacted_thinking\" or \"tool_use\", found \"tool_result\"")]
#[case(json!({"system": 1}), "system: expected a string or an array of text parts, found a number")]
#[case(json!({"system": [{"type": "image"}]}), "system[0].type: expected text, found \"image\"")]
#[case(json!({"tools": [{"type": "bash_20250124", "name": "bash"}]}), "tools[0].type: expected \"custom\", found \"bash_20250124\"")]
#[case(json!({"tools": [{"name": "f"}]}), "tools[0].input_schema: missing")]
#[case(json!({"tools": [{"name": "f", "input_schema": 1}]}), "tools[0].input_schema: expected a JSON schema of an object, found a number")]
#[case(json!({"tool_choice": "auto"}), "tool_choice: expected an object, found a string")]
#[case(json!({"tool_choice": {"type": "required"}}), "tool_choice.type: expected \"auto\", \"any\", \"tool\" or \"none\", found \"required\"")]
#[case(json!({"tool_choice": {"type": "any"}}), "tool_choice: expected tools to call, found none")]
#[case(json!({"tool_choice": {"type": "tool", "name": "f"}}), "tool_choice.name: expected the name of one of the tools, found \"f\"")]
#[case(json!({"tool_choice": {"type": "auto", "disable_parallel_tool_use": 1}}), "tool_choice.disable_parallel_tool_use: expected true or false, found a number")]
#[case(json!({"thinking": {"type": "on"}}), "thinking.type: expected \"enabled\", \"adaptive\" or \"disabled\", found \"on\"")]
#[case(json!({"thinking": {"type": "enabled", "budget_tokens": -1}}), "thinking.budget_tokens: expected a whole number from 0 to 2147483647, found -1")]
#[case(json!({"stop_sequences": [1]}), "stop_sequences: expected a string or an array of strings, found a number")]
#[case(json!({"output_config": {"format": {"type": "xml"}}}), "output_config.format.type: expected \"json_schema\", found \"xml\"")]
#[case(json!({"output_config": {"format": {"type": "json_schema", "schema": 1}}}), "output_config.format.schema: expected an object, found a number")]
#[case(json!({"container": "x"}), "container: not supported")]
#[case(json!({"temperature": "hot"}), "temperature: expected a number from 0 to 100, found a string")]
#[case(json!({"messages": [{"role": "user", "content": "a".repeat(64)}]}), "messages: 64 tokens do not fit the context of 64 tokens (at least one must be left for the reply)")]
#[tokio::test]
async fn a_malformed_field_is_named_in_anthropics_shape(#[case] more: Value, #[case] message: &str) {
    let body = match message {
        "max_tokens: missing" => more,
        _ => with(json!({"messages": [{"role": "user", "content": "a"}], "max_tokens": 4}), &more),
    };
    let answer = post(&fake(1, |_, _| {}).server, MESSAGES, &body).await;
    let error = json!({"type": "invalid_request_error", "message": message});
    assert_eq!((answer.status.as_u16(), answer.json()), (400, json!({"type": "error", "error": error})));
}

#[rstest]
#[case("GET", MESSAGES, "right", 405, "invalid_request_error")]
#[case("POST", "/v1/messages/batches", "right", 404, "not_found_error")]
#[case("POST", MESSAGES, "wrong", 401, "authentication_error")]
#[case("POST", COUNT, "wrong", 401, "authentication_error")]
#[case("POST", MESSAGES, "right", 400, "invalid_request_error")]
#[tokio::test]
async fn refusals_from_outside_the_route_have_its_shape(
    #[case] method: &str,
    #[case] path: &str,
    #[case] key: &str,
    #[case] status: u16,
    #[case] kind: &str,
) {
    let fake = fake(1, |options, _| options.keys = ApiKeys::new(["right"]).unwrap());
    let answer = send(&fake.server, method, path, &[("x-api-key", key)], b"{".to_vec()).await;
    let error = &answer.json()["error"];
    assert_eq!((answer.status.as_u16(), &error["type"]), (status, &json!(kind)), "{}", answer.text);
    assert_eq!(answer.json(), json!({"type": "error", "error": {"type": kind, "message": error["message"]}}));
    assert_eq!(answer.headers.contains_key("www-authenticate"), status == 401);
    assert_eq!(answer.headers.contains_key("allow"), status == 405);
    let other = send(&fake.server, "POST", RESPONSES, &[("x-api-key", "wrong")], Vec::new()).await;
    assert_eq!(other.error().2, json!("invalid_api_key"));
}

#[tokio::test]
async fn a_failure_ends_the_stream_with_an_error_event() {
    let fake = fake(1, |_, _| {});
    fake.probe.fault(Call::Window, 0, Fault::Panic);
    let body = json!({"messages": [{"role": "user", "content": "abc"}], "max_tokens": 9, "stream": true});
    let events = named(&post(&fake.server, MESSAGES, &body).await);
    let last = events.last().unwrap();
    Shape::MessageEvent.check(last).unwrap();
    let error = json!({"type": "api_error", "message": "the engine stopped: Window panics on schedule"});
    assert_eq!(*last, json!({"type": "error", "error": error}));
}
