//! /v1/responses over a fake engine: equal to a chat, whole and streamed; kept responses; refusals.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use rstest::rstest;
use serde_json::{Value, json};
use support::{CHAT, RESPONSES, get, named, post, send, with};
use tokenfare_lanes::testkit::{Call, Fault};
use tokenfare_server::ApiKeys;
use tokenfare_server::testkit::{CALL, Shape, fake};

fn hash(reply: &Value) -> &str {
    reply["tokenfare"]["token_sha256"].as_str().unwrap()
}

/// A request without what tells one from another.
fn plain(response: &Value) -> Value {
    let mut plain = response.clone();
    for name in ["id", "created_at", "tokenfare", "tensorfold"] {
        assert!(plain.as_object_mut().unwrap().remove(name).is_some(), "{name} in {response}");
    }
    plain["usage"]["input_tokens_details"] = Value::Null;
    for item in plain["output"].as_array_mut().unwrap() {
        for name in ["id", "call_id"] {
            item.as_object_mut().unwrap().remove(name);
        }
    }
    plain
}

/// The output that a stream's deltas come to, after a check of the order of its events.
fn rebuilt(events: &[Value]) -> Vec<Value> {
    let mut items: Vec<Value> = Vec::new();
    for (number, event) in events.iter().enumerate() {
        Shape::ResponseEvent.check(event).unwrap_or_else(|e| panic!("{e}: {event}"));
        assert_eq!(event["sequence_number"], number);
        let place = event["output_index"].as_u64().unwrap_or_default() as usize;
        match event["type"].as_str().unwrap().strip_prefix("response.").unwrap() {
            "output_item.added" => {
                assert_eq!((place, &event["item"]["status"]), (items.len(), &json!("in_progress")));
                items.push(event["item"].clone());
            }
            "content_part.added" => items[place]["content"] = json!([event["part"]]),
            "output_text.delta" | "reasoning_text.delta" => {
                assert_eq!(items[place]["id"], event["item_id"]);
                let text = &mut items[place]["content"][0]["text"];
                *text = json!(format!("{}{}", text.as_str().unwrap(), event["delta"].as_str().unwrap()));
            }
            "function_call_arguments.delta" => {
                let text = &mut items[place]["arguments"];
                *text = json!(format!("{}{}", text.as_str().unwrap(), event["delta"].as_str().unwrap()));
            }
            "output_text.done" | "reasoning_text.done" => {
                assert_eq!(items[place]["content"][0]["text"], event["text"]);
            }
            "function_call_arguments.done" => assert_eq!(items[place]["arguments"], event["arguments"]),
            "content_part.done" => assert_eq!(items[place]["content"][0], event["part"]),
            "output_item.done" => {
                items[place]["status"] = event["item"]["status"].clone();
                assert_eq!(items[place], event["item"]);
            }
            "created" => assert_eq!(number, 0),
            "in_progress" => assert_eq!(number, 1),
            "completed" | "incomplete" => assert_eq!(number, events.len() - 1),
            other => panic!("{other}"),
        }
    }
    items
}

#[rstest]
#[case::text(json!({}), json!({}), "incomplete")]
#[case::instructed(json!({"instructions": "b"}), json!({"messages": [{"role": "system", "content": "b"}, {"role": "user", "content": "abc"}]}), "incomplete")]
#[case::stopped(json!({"stop": ["q"]}), json!({"stop": ["q"]}), "completed")]
#[case::reasoning(json!({"reasoning": {"effort": "low"}}), json!({"thinking": true, "reasoning_effort": "low"}), "incomplete")]
#[case::form(json!({"text": {"format": {"type": "json_object"}}}), json!({"response_format": {"type": "json_object"}}), "completed")]
#[case::sampled(json!({"temperature": 1, "top_p": 0.9, "seed": 4, "draft": false}), json!({"temperature": 1, "top_p": 0.9, "seed": 4}), "incomplete")]
#[case::calls(
    json!({"tools": [{"type": "function", "name": "f"}], "logit_bias": {CALL.0.to_string(): 500, CALL.1.to_string(): 500}, "max_output_tokens": 24}),
    json!({"tools": [{"type": "function", "function": {"name": "f"}}], "logit_bias": {CALL.0.to_string(): 500, CALL.1.to_string(): 500}, "max_tokens": 24}),
    "incomplete"
)]
#[tokio::test]
async fn a_response_is_its_chat_and_its_stream(
    #[case] more: Value,
    #[case] chat: Value,
    #[case] status: &str,
) {
    let fake = fake(2, |_, _| {});
    let body = with(json!({"input": "abc", "temperature": 0, "max_output_tokens": 6}), &more);
    let messages = json!([{"role": "user", "content": "abc"}]);
    let chat = with(json!({"messages": messages, "temperature": 0, "max_tokens": 6}), &chat);
    let chat = post(&fake.server, CHAT, &chat).await.json();
    let whole = post(&fake.server, RESPONSES, &body).await.json();
    Shape::Response.check(&whole).unwrap_or_else(|e| panic!("{e}: {whole}"));
    assert_eq!((hash(&whole), &whole["status"]), (hash(&chat), &json!(status)));
    let usage = |reply: &Value, names: [&str; 3]| names.map(|name| reply["usage"][name].clone());
    let ours = usage(&whole, ["input_tokens", "output_tokens", "total_tokens"]);
    assert_eq!(ours, usage(&chat, ["prompt_tokens", "completion_tokens", "total_tokens"]));
    let message = &chat["choices"][0]["message"];
    let texts = |kind: &str| -> String {
        let items = whole["output"].as_array().unwrap().iter().filter(|item| item["type"] == kind);
        items.map(|item| item["content"][0]["text"].as_str().unwrap()).collect()
    };
    assert_eq!(texts("message"), message["content"].as_str().unwrap_or_default());
    assert_eq!(texts("reasoning"), message["reasoning_content"].as_str().unwrap_or_default());
    let calls = whole["output"].as_array().unwrap().iter().filter(|item| item["type"] == "function_call");
    let calls: Vec<_> = calls.map(|call| (&call["name"], &call["arguments"])).collect();
    let made = message["tool_calls"].as_array().into_iter().flatten();
    let made: Vec<_> = made.map(|call| (&call["function"]["name"], &call["function"]["arguments"])).collect();
    assert_eq!(calls, made);
    let events = named(&post(&fake.server, RESPONSES, &with(body, &json!({"stream": true}))).await);
    let last = &events.last().unwrap()["response"];
    assert_eq!((plain(last), hash(last)), (plain(&whole), hash(&whole)));
    assert_eq!(rebuilt(&events), *last["output"].as_array().unwrap());
}

#[tokio::test]
async fn a_kept_response_belongs_to_its_key_and_goes_on() {
    let fake = fake(1, |options, _| options.keys = ApiKeys::new(["mine", "yours"]).unwrap());
    let ask = async |key: &str, method: &str, path: &str, body: Value| {
        send(&fake.server, method, path, &[("x-api-key", key)], body.to_string().into_bytes()).await
    };
    let body = json!({"input": "abc", "temperature": 0, "max_output_tokens": 4, "metadata": {"a": "b"}});
    let first = ask("mine", "POST", RESPONSES, body.clone()).await.json();
    let address = format!("{RESPONSES}/{}", first["id"].as_str().unwrap());
    assert_eq!(ask("mine", "GET", &address, json!(null)).await.json(), first);
    assert_eq!(first["metadata"], json!({"a": "b"}));
    for method in ["GET", "DELETE"] {
        let (status, _, _, message) = ask("yours", method, &address, json!(null)).await.error();
        assert_eq!((status, message), (404, format!("no response {} is kept", first["id"])));
    }
    let on = |key: &'static str| {
        ask(
            key,
            "POST",
            RESPONSES,
            with(body.clone(), &json!({"input": "de", "previous_response_id": first["id"]})),
        )
    };
    let next = on("mine").await.json();
    let text = &first["output"][0];
    let explicit = json!([{"role": "user", "content": "abc"}, text, {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "de"}]}]);
    let same =
        ask("mine", "POST", RESPONSES, with(body.clone(), &json!({"input": explicit, "store": false})))
            .await
            .json();
    assert_eq!((hash(&next), next["usage"]["input_tokens"].as_u64()), (hash(&same), Some(9)));
    assert_eq!((&next["store"], &same["store"]), (&json!(true), &json!(false)));
    let unkept = format!("{RESPONSES}/{}", same["id"].as_str().unwrap());
    assert_eq!(ask("mine", "GET", &unkept, json!(null)).await.status, 404);
    let refused = on("yours").await.error();
    let code = json!("previous_response_not_found");
    assert_eq!((refused.0, refused.1, refused.2), (400, json!("previous_response_id"), code));
    let streamed = ask("mine", "GET", &format!("{address}?stream=true"), json!(null)).await.error();
    assert_eq!((streamed.0, streamed.1), (400, json!("stream")));
    let deleted = ask("mine", "DELETE", &address, json!(null)).await.json();
    assert_eq!(deleted, json!({"id": first["id"], "object": "response", "deleted": true}));
    assert_eq!(ask("mine", "GET", &address, json!(null)).await.status, 404);
}

#[tokio::test]
async fn a_streamed_response_is_kept_too() {
    let fake = fake(1, |_, _| {});
    let body = json!({"input": "abc", "max_output_tokens": 3, "stream": true});
    let events = named(&post(&fake.server, RESPONSES, &body).await);
    let last = &events.last().unwrap()["response"];
    let address = format!("{RESPONSES}/{}", last["id"].as_str().unwrap());
    assert_eq!(get(&fake.server, &address).await.json(), *last);
}

#[tokio::test]
async fn items_of_a_turn_become_one_message_of_a_chat() {
    let fake = fake(1, |_, _| {});
    let items = json!([
        {"role": "developer", "content": "b"},
        {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "r"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "t"}]},
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "2", "name": "g", "namespace": "n", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "x"},
        {"type": "function_call_output", "call_id": "2", "output": [{"type": "input_text", "text": "y"}]},
    ]);
    let call = |id: &str, name: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}});
    let messages = json!([
        {"role": "system", "content": "b"}, {"role": "user", "content": "a"},
        {"role": "assistant", "reasoning_content": "r", "content": "t", "tool_calls": [call("1", "f"), call("2", "n::g")]},
        {"role": "tool", "tool_call_id": "1", "content": "x"}, {"role": "tool", "tool_call_id": "2", "content": "y"},
    ]);
    let tools = json!([{"type": "function", "name": "f"}, {"type": "namespace", "name": "n", "description": "", "tools": [{"type": "function", "name": "g"}]}]);
    let functions = json!([{"function": {"name": "f"}}, {"function": {"name": "g"}, "namespace": "n"}]);
    let common = json!({"temperature": 0, "max_tokens": 4});
    let ours =
        post(&fake.server, RESPONSES, &with(json!({"input": items, "tools": tools}), &common)).await.json();
    let chat = post(&fake.server, CHAT, &with(json!({"messages": messages, "tools": functions}), &common))
        .await
        .json();
    assert_eq!(hash(&ours), hash(&chat));
    assert_eq!(ours["usage"]["input_tokens"], chat["usage"]["prompt_tokens"]);
}

#[rstest]
#[case(json!({}), "input", "missing")]
#[case(json!({"input": 1}), "input", "expected a string or an array of items, found a number")]
#[case(json!({"input": []}), "input", "expected at least one item")]
#[case(json!({"input": [1]}), "input[0]", "expected an object, found a number")]
#[case(json!({"input": [{"content": "a"}]}), "input[0].role", "missing")]
#[case(json!({"input": [{"role": "tool", "content": "a"}]}), "input[0].role", "expected one of user, assistant, system, developer, found \"tool\"")]
#[case(json!({"input": [{"role": "user"}]}), "input[0].content", "missing")]
#[case(json!({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}), "input[0].content[0].type", "expected \"input_text\" or \"output_text\", found \"input_image\"")]
#[case(json!({"input": [{"role": "user", "content": "a"}, {"role": "user", "content": [{"type": "input_text"}]}]}), "input[1].content[0].text", "expected a string")]
#[case(json!({"input": [{"type": "item_reference", "id": "a"}]}), "input[0].type", "expected \"message\", \"reasoning\", \"function_call\" or \"function_call_output\", found \"item_reference\"")]
#[case(json!({"input": [{"type": "function_call_output", "call_id": "a"}]}), "input[0].output", "missing")]
#[case(json!({"input": [{"type": "reasoning", "summary": 1}]}), "input[0].summary", "expected an array, found a number")]
#[case(json!({"input": "a", "instructions": 1}), "instructions", "expected a string, found a number")]
#[case(json!({"input": "a", "max_output_tokens": 1.5}), "max_output_tokens", "expected a whole number from 0 to 2147483647, found 1.5")]
#[case(json!({"input": "a", "tools": {}}), "tools", "expected an array, found an object")]
#[case(json!({"input": "a", "tools": [{"type": "web_search"}]}), "tools[0].type", "expected \"function\" or \"namespace\", found \"web_search\"")]
#[case(json!({"input": "a", "tools": [{"type": "function", "name": "f", "parameters": []}]}), "tools[0].parameters", "expected a JSON schema of an object, found an array")]
#[case(json!({"input": "a", "tools": [{"type": "namespace", "name": 3, "tools": []}]}), "tools[0].name", "expected a string, found a number")]
#[case(json!({"input": "a", "tools": [{"type": "namespace", "tools": []}]}), "tools[0].name", "expected a name that is not empty")]
#[case(json!({"input": "a", "tools": [{"type": "namespace", "name": "n", "tools": [{"type": "custom"}]}]}), "tools[0].tools[0].type", "expected \"function\", found \"custom\"")]
#[case(json!({"input": "a", "tool_choice": {"type": "function", "name": "f"}}), "tool_choice.name", "expected the name of one of the tools, found \"f\"")]
#[case(json!({"input": "a", "tool_choice": {"type": "allowed_tools"}}), "tool_choice.type", "expected \"function\", found \"allowed_tools\"")]
#[case(json!({"input": "a", "tool_choice": "any"}), "tool_choice", "expected \"auto\", \"none\", \"required\" or {\"type\": \"function\", \"name\": ...}, found \"any\"")]
#[case(json!({"input": "a", "tool_choice": "required"}), "tool_choice", "expected tools to call, found none")]
#[case(json!({"input": "a", "text": {"format": {"type": "xml"}}}), "text.format.type", "expected \"text\", \"json_object\" or \"json_schema\", found \"xml\"")]
#[case(json!({"input": "a", "text": {"format": {"schema": {}}}}), "text.format.type", "missing")]
#[case(json!({"input": "a", "text": {"format": {"type": "json_schema"}}}), "text.format.schema", "missing")]
#[case(json!({"input": "a", "reasoning": {"effort": true}}), "reasoning.effort", "expected a level's name or a number, found a boolean")]
#[case(json!({"input": "a", "background": true}), "background", "not supported")]
#[case(json!({"input": "a", "truncation": "auto"}), "truncation", "expected \"disabled\", found \"auto\"")]
#[case(json!({"input": "a", "include": ["x", "message.output_text.logprobs"]}), "include[1]", "not supported")]
#[case(json!({"input": "a", "top_logprobs": 2}), "top_logprobs", "expected a whole number from 0 to 0, found 2")]
#[case(json!({"input": "a", "n": 2}), "n", "expected a whole number from 1 to 1, found 2")]
#[case(json!({"input": "a", "store": 1}), "store", "expected true or false, found a number")]
#[case(json!({"input": "a", "frequency_penalty": 1}), "frequency_penalty", "not supported, expected 0, found 1")]
#[case(json!({"input": "a", "guided_grammar": "start:"}), "guided_grammar", "expected a rule, found \"start:\"")]
#[case(json!({"input": "a".repeat(64)}), "input", "64 tokens do not fit the context of 64 tokens (at least one must be left for the reply)")]
#[tokio::test]
async fn a_malformed_field_is_named(#[case] body: Value, #[case] field: &str, #[case] problem: &str) {
    let (status, param, _, message) = post(&fake(1, |_, _| {}).server, RESPONSES, &body).await.error();
    assert_eq!((status, param, message), (400, json!(field), format!("{field}: {problem}")));
}

#[tokio::test]
async fn a_failure_ends_the_stream_as_a_failed_response() {
    let fake = fake(1, |_, _| {});
    fake.probe.fault(Call::Window, 0, Fault::Panic);
    let body = json!({"input": "abc", "stream": true});
    let events = named(&post(&fake.server, RESPONSES, &body).await);
    let last = events.last().unwrap();
    Shape::ResponseEvent.check(last).unwrap();
    assert_eq!((&last["type"], &last["response"]["status"]), (&json!("response.failed"), &json!("failed")));
    let words = "the engine stopped: Window panics on schedule";
    assert_eq!(last["response"]["error"], json!({"code": "server_error", "message": words}));
}
