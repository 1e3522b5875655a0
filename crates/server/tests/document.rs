//! /openapi.json against the server that it describes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use rstest::rstest;
use serde_json::{Value, json};
use support::{CHAT, MESSAGES, PLAIN, RESPONSES, get, post};
use tokenfare_server::testkit::{CALL, Shape, fake};

fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|v| references(v, found));
        }
        Value::Array(list) => list.iter().for_each(|v| references(v, found)),
        _ => {}
    }
}

#[tokio::test]
async fn every_route_tells_its_answers_and_every_reference_leads_somewhere() {
    let document = get(&fake(1, |_, _| {}).server, "/openapi.json").await.json();
    let statuses = |path: &str, method: &str| -> Vec<String> {
        document["paths"][path][method]["responses"].as_object().unwrap().keys().cloned().collect()
    };
    for path in [CHAT, PLAIN, RESPONSES, MESSAGES] {
        let all = ["200", "400", "401", "405", "408", "413", "431", "500", "503"];
        assert_eq!(statuses(path, "post"), all, "{path}");
    }
    assert_eq!(statuses("/tokenize", "post"), ["200", "400", "401", "405", "408", "413", "431", "500"]);
    let counting = statuses("/v1/messages/count_tokens", "post");
    assert_eq!(counting, ["200", "400", "401", "405", "408", "413", "431", "500"]);
    assert_eq!(statuses("/v1/responses/{id}", "get"), ["200", "400", "401", "404", "405", "431"]);
    assert_eq!(statuses("/v1/responses/{id}", "delete"), ["200", "401", "404", "405", "431"]);
    assert_eq!(statuses("/health", "get"), ["200", "405", "431", "503"]);
    for path in ["/v1/models", "/v1/pricing", "/openapi.json"] {
        assert_eq!(statuses(path, "get"), ["200", "401", "405", "431"], "{path}");
    }
    assert_eq!(statuses("/metrics", "get"), ["200", "401", "405", "431", "500"]);
    let mut all = Vec::new();
    references(&document, &mut all);
    assert!(all.len() > 20);
    for reference in all {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    assert_eq!(document["components"]["securitySchemes"]["bearer"]["scheme"], "bearer");
    assert_eq!(document["components"]["securitySchemes"]["x-api-key"]["name"], "x-api-key");
}

#[rstest]
#[case(CHAT, json!({}))]
#[case(CHAT, json!({"n": 2, "logprobs": true, "top_logprobs": 3, "return_token_ids": true}))]
#[case(CHAT, json!({"thinking": true, "stop": ["q"], "seed": 3}))]
#[case(CHAT, json!({"response_format": {"type": "json_object"}}))]
#[case(PLAIN, json!({"guided_choice": ["a", "b"]}))]
#[case(PLAIN, json!({}))]
#[case(PLAIN, json!({"n": 2, "logprobs": 3, "echo": true, "return_token_ids": true}))]
#[case(PLAIN, json!({"prompt": [[1, 2], [3]], "max_tokens": 0, "echo": true, "logprobs": 0}))]
#[tokio::test]
async fn answers_have_the_documented_fields_and_no_other(#[case] path: &str, #[case] more: Value) {
    let fake = fake(2, |_, _| {});
    let mut body =
        json!({"messages": [{"role": "user", "content": "abc"}], "prompt": "abc", "max_tokens": 6});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let (whole, event) = match path {
        CHAT => (Shape::Chat, Shape::ChatEvent),
        _ => (Shape::Completion, Shape::CompletionEvent),
    };
    let answer = post(&fake.server, path, &body).await.json();
    whole.check(&answer).unwrap_or_else(|e| panic!("{e}: {answer}"));
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    let events = post(&fake.server, path, &body).await.events();
    assert!(!events.is_empty());
    for found in events {
        event.check(&found).unwrap_or_else(|e| panic!("{e}: {found}"));
    }
    let mut strange = answer.clone();
    strange["undocumented"] = json!(1);
    assert!(whole.check(&strange).is_err());
}

#[tokio::test]
async fn calls_have_the_documented_fields_whole_and_in_parts() {
    let fake = fake(1, |_, _| {});
    let tools = json!([{"type": "function", "function": {"name": "f"}, "namespace": {"name": "n"}}]);
    let bias = json!({CALL.0.to_string(): 500, CALL.1.to_string(): 500});
    let mut body = json!({
        "messages": [{"role": "user", "content": "abc"}], "max_tokens": 24, "temperature": 0, "tools": tools, "logit_bias": bias,
    });
    let answer = post(&fake.server, CHAT, &body).await.json();
    Shape::Chat.check(&answer).unwrap_or_else(|e| panic!("{e}: {answer}"));
    let calls = answer["choices"][0]["message"]["tool_calls"].as_array().unwrap().clone();
    let arguments = |call: &Value| call["function"]["arguments"].as_str().unwrap().to_owned();
    assert!(calls.len() > 1 && calls.iter().any(|call| !arguments(call).is_empty()), "{answer}");
    body["stream"] = json!(true);
    let mut parts = vec![String::new(); calls.len()];
    for event in post(&fake.server, CHAT, &body).await.events() {
        Shape::ChatEvent.check(&event).unwrap_or_else(|e| panic!("{e}: {event}"));
        for part in event["choices"][0]["delta"]["tool_calls"].as_array().into_iter().flatten() {
            parts[part["index"].as_u64().unwrap() as usize] += &arguments(part);
        }
    }
    assert_eq!(parts, calls.iter().map(arguments).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_grammar_that_does_not_compile_is_refused_by_its_field() {
    let fake = fake(1, |_, _| {});
    let body =
        json!({"messages": [{"role": "user", "content": "a"}], "prompt": "a", "guided_grammar": "start:"});
    for path in [CHAT, PLAIN] {
        let found = post(&fake.server, path, &body).await.error();
        let message = "guided_grammar: expected a rule, found \"start:\"".to_owned();
        assert_eq!(found, (400, json!("guided_grammar"), json!(null), message));
    }
}

/// Every property of a schema, those of the schemas that it refers to included.
fn properties(document: &Value, schema: &Value, found: &mut Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        return properties(document, document.pointer(&reference[1..]).unwrap(), found);
    }
    found.extend(schema["properties"].as_object().into_iter().flat_map(|map| map.keys().cloned()));
    for part in schema["allOf"].as_array().into_iter().flatten() {
        properties(document, part, found);
    }
}

#[tokio::test]
async fn every_field_of_calls_and_forms_is_documented_where_it_is_read() {
    let document = get(&fake(1, |_, _| {}).server, "/openapi.json").await.json();
    let schema = |name: &str| {
        let mut found = Vec::new();
        properties(&document, &document["components"]["schemas"][name], &mut found);
        found
    };
    let forms = ["response_format", "guided_json", "guided_regex", "guided_choice", "guided_grammar"];
    let tools = ["tools", "tool_choice", "parallel_tool_calls"];
    let chat = [&forms[..], &tools, &["structured_outputs", "messages", "thinking", "temperature"]].concat();
    for (name, fields) in [
        ("ChatRequest", chat.clone()),
        ("ChatToTokenize", chat),
        ("CompletionRequest", [&forms[..], &["structured_outputs", "prompt", "temperature"]].concat()),
        ("ReplyMessage", vec!["content", "reasoning_content", "tool_calls"]),
        ("Delta", vec!["content", "reasoning_content", "tool_calls"]),
    ] {
        let found = schema(name);
        let missing: Vec<_> = fields.iter().filter(|field| !found.iter().any(|f| f == *field)).collect();
        assert!(missing.is_empty(), "{name}: {missing:?} not in {found:?}");
    }
    assert!(!schema("CompletionRequest").iter().any(|field| field == "tools"));
}
