//! The HTTP API of the real binary: the chat protocols beside each other.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::LazyLock;

use rstest::rstest;
use serde_json::{Value, json};
use support::guided::{CHAT, with};
use support::mini;
use support::server::Server;

const RESPONSES: &str = "/v1/responses";
const MESSAGES: &str = "/v1/messages";

static SERVER: LazyLock<Server> =
    LazyLock::new(|| Server::start(&[&mini(), "--parallel", "2", "--context", "1024"], &[]));

/// A question as each protocol asks it, with what is said in that protocol's words alone.
struct Asked {
    chat: Value,
    response: Value,
    message: Value,
}

fn ask(question: &str, chat: Value, response: Value, message: Value) -> Asked {
    let messages = json!([{"role": "user", "content": question}]);
    let common = json!({"temperature": 0});
    let of = |own: Value, more: Value| with(with(own, common.clone()), more);
    Asked {
        chat: of(json!({"messages": messages, "max_tokens": 64}), chat),
        response: of(json!({"input": question, "max_output_tokens": 64}), response),
        message: of(json!({"messages": messages, "max_tokens": 64}), message),
    }
}

fn plain() -> Asked {
    ask("What is a GPU?", json!({}), json!({}), json!({}))
}

fn reasoning() -> Asked {
    let chat = json!({"thinking": true, "reasoning_effort": "high"});
    let message = json!({"thinking": {"type": "enabled"}, "output_config": {"effort": "high"}});
    ask("What is 47 + 38?", chat, json!({"reasoning": {"effort": "high"}}), message)
}

fn parameters() -> Value {
    let city = json!({"type": "string", "description": "Name of the city"});
    json!({"type": "object", "properties": {"city": city}, "required": ["city"]})
}

fn tools() -> Asked {
    let (name, about) = ("get_weather", "Get the current weather of a city.");
    let function = json!({"name": name, "description": about, "parameters": parameters()});
    let flat = with(json!({"type": "function"}), function.clone());
    let ours = json!({"name": name, "description": about, "input_schema": parameters()});
    ask(
        "What is the weather in Paris?",
        json!({"tools": [{"type": "function", "function": function}]}),
        json!({"tools": [flat]}),
        json!({"tools": [ours]}),
    )
}

fn form() -> Asked {
    let name = json!({"name": {"enum": ["Paris", "Rome"]}});
    let schema =
        json!({"type": "object", "properties": name, "required": ["name"], "additionalProperties": false});
    let named = json!({"name": "city", "schema": schema});
    ask(
        "Name a city as JSON.",
        json!({"response_format": {"type": "json_schema", "json_schema": named}}),
        json!({"text": {"format": with(json!({"type": "json_schema"}), named.clone())}}),
        json!({"output_config": {"format": {"type": "json_schema", "schema": schema}}}),
    )
}

fn hash(reply: &Value) -> &str {
    reply["tokenfare"]["token_sha256"].as_str().unwrap()
}

/// The reply drafted, serial and streamed: the same tokens each time.
fn exact(path: &str, body: &Value, last: &str) -> Value {
    let drafted = SERVER.ok(path, body);
    let serial = SERVER.ok(path, &with(body.clone(), json!({"draft": false})));
    assert_eq!((hash(&drafted), &serial["tokenfare"]["drafted"]), (hash(&serial), &json!(0)));
    let streamed = SERVER.post(path, &with(body.clone(), json!({"stream": true})));
    assert_eq!(streamed.status, 200, "{}", streamed.body);
    let data = streamed.body.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(hash(data.pointer(last).unwrap()), hash(&drafted));
    drafted
}

fn item<'a>(list: &'a Value, kind: &str) -> Option<&'a Value> {
    list.as_array().unwrap().iter().find(|item| item["type"] == kind)
}

#[rstest]
#[case(plain(), "stop", "end_turn")]
#[case(reasoning(), "stop", "end_turn")]
#[case(tools(), "tool_calls", "tool_use")]
#[case(form(), "stop", "end_turn")]
fn every_protocol_gives_the_same_reply(#[case] asked: Asked, #[case] finish: &str, #[case] stop: &str) {
    let chat = SERVER.ok(CHAT, &asked.chat);
    let response = exact(RESPONSES, &asked.response, "/response");
    let message = exact(MESSAGES, &asked.message, "");
    assert_eq!((hash(&response), hash(&message)), (hash(&chat), hash(&chat)));
    let (choice, output, content) = (&chat["choices"][0], &response["output"], &message["content"]);
    assert_eq!(
        (choice["finish_reason"].as_str(), message["stop_reason"].as_str()),
        (Some(finish), Some(stop))
    );
    assert_eq!(response["status"], "completed");
    let said = &choice["message"];
    let text = said["content"].as_str().unwrap_or_default();
    assert_eq!(item(output, "message").map_or("", |m| m["content"][0]["text"].as_str().unwrap()), text);
    assert_eq!(item(content, "text").map_or("", |b| b["text"].as_str().unwrap()), text);
    let thought = said["reasoning_content"].as_str().unwrap_or_default();
    assert_eq!(item(output, "reasoning").map_or("", |r| r["content"][0]["text"].as_str().unwrap()), thought);
    assert_eq!(item(content, "thinking").map_or("", |b| b["thinking"].as_str().unwrap()), thought);
    let made = &said["tool_calls"][0]["function"];
    let call = item(output, "function_call").unwrap_or(&Value::Null);
    let used = item(content, "tool_use").unwrap_or(&Value::Null);
    assert_eq!((&call["name"], &call["arguments"]), (&made["name"], &made["arguments"]));
    let arguments =
        made["arguments"].as_str().map_or(Value::Null, |text| serde_json::from_str(text).unwrap());
    assert_eq!((&used["name"], &used["input"]), (&made["name"], &arguments));
}

#[test]
fn a_tools_result_is_answered_alike() {
    let asked = tools();
    let question = asked.chat["messages"][0].clone();
    let call = json!({"id": "c", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"Paris\"}"}});
    let chat = json!([
        question, {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "sunny"},
    ]);
    let items = json!([
        question, {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": "{\"city\": \"Paris\"}"},
        {"type": "function_call_output", "call_id": "c", "output": "sunny"},
    ]);
    let blocks = json!([
        question,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "get_weather", "input": {"city": "Paris"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "sunny"}]},
    ]);
    let chat = SERVER.ok(CHAT, &with(asked.chat, json!({"messages": chat})));
    let response = SERVER.ok(RESPONSES, &with(asked.response, json!({"input": items})));
    let body = with(asked.message, json!({"messages": blocks}));
    let message = SERVER.ok(MESSAGES, &body);
    assert_eq!((hash(&response), hash(&message)), (hash(&chat), hash(&chat)));
    let counted = SERVER.ok("/v1/messages/count_tokens", &body);
    assert_eq!(counted["input_tokens"], chat["usage"]["prompt_tokens"]);
}

#[rstest]
#[case(RESPONSES, json!({"input": [{"role": "user", "content": "<｜deepseek_image｜>"}]}), "input[0].content")]
#[case(RESPONSES, json!({"input": "a", "reasoning": {"effort": "extreme"}}), "reasoning.effort")]
#[case(RESPONSES, json!({"input": "a", "tools": [{"type": "function"}]}), "tools[0].name")]
#[case(RESPONSES, json!({"input": [{"role": "user", "content": "a"}, {"type": "function_call", "call_id": "c"}, {"role": "user", "content": "a"}]}), "input[1].name")]
#[case(RESPONSES, json!({"input": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}), "input[1].role")]
#[case(MESSAGES, json!({"messages": [{"role": "user", "content": "<｜deepseek_image｜>"}], "max_tokens": 1}), "messages[0].content")]
#[case(MESSAGES, json!({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "max_tokens": 1}), "messages[1].role")]
#[case(MESSAGES, json!({"messages": [{"role": "user", "content": "a"}], "max_tokens": 1, "output_config": {"effort": "extreme"}}), "output_config.effort")]
fn what_the_model_has_no_place_for_is_named_as_the_client_wrote_it(
    #[case] path: &str,
    #[case] body: Value,
    #[case] field: &str,
) {
    let answer = SERVER.post(path, &body);
    let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(answer.status == 400 && message.starts_with(&format!("{field}: ")), "{}", answer.body);
}
