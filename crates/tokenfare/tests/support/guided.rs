//! Requests of a chat and what must not depend on drafts.

use serde_json::{Value, json};

use super::server::Server;

/// The route.
pub const CHAT: &str = "/v1/chat/completions";

/// A greedy question.
pub fn ask(question: &str) -> Value {
    json!({"messages": [{"role": "user", "content": question}], "temperature": 0, "max_tokens": 96})
}

/// `body` with more fields.
pub fn with(mut body: Value, more: Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// Choices of a reply without the ids of calls, which belong to the request.
pub fn choices(reply: &Value) -> Value {
    let mut choices = reply["choices"].clone();
    for choice in choices.as_array_mut().unwrap() {
        for call in
            choice.pointer_mut("/message/tool_calls").and_then(Value::as_array_mut).into_iter().flatten()
        {
            assert!(call["id"].as_str().unwrap().starts_with("call_"));
            call["id"] = Value::Null;
        }
    }
    choices
}

/// What a streamed reply comes to, in the form of one that is not.
pub fn joined(events: &[Value]) -> Value {
    let mut message = json!({"role": "assistant", "content": ""});
    let mut reply = json!({"index": 0, "finish_reason": null, "logprobs": null});
    let append = |to: &mut Value, text: &Value| {
        if let Some(text) = text.as_str() {
            *to = json!(format!("{}{text}", to.as_str().unwrap_or_default()));
        }
    };
    for choice in events.iter().filter_map(|e| e["choices"].get(0)) {
        let delta = &choice["delta"];
        append(&mut message["content"], &delta["content"]);
        if !delta["reasoning_content"].is_null() {
            append(&mut message["reasoning_content"], &delta["reasoning_content"]);
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = call["index"].as_u64().unwrap() as usize;
            if message["tool_calls"].is_null() {
                message["tool_calls"] = json!([]);
            }
            let calls = message["tool_calls"].as_array_mut().unwrap();
            if index == calls.len() {
                assert!(call["id"].is_string() && call["function"]["name"].is_string(), "{call}");
                calls.push(json!({"id": null, "type": "function", "function": call["function"]}));
            } else {
                assert!(call["id"].is_null() && call["function"]["name"].is_null(), "{call}");
                append(&mut calls[index]["function"]["arguments"], &call["function"]["arguments"]);
            }
        }
        if let Some(list) = choice["logprobs"]["content"].as_array() {
            if reply["logprobs"].is_null() {
                reply["logprobs"] = json!({"content": []});
            }
            reply["logprobs"]["content"].as_array_mut().unwrap().extend(list.clone());
        }
        if !choice["finish_reason"].is_null() {
            assert!(reply["finish_reason"].is_null(), "two ends");
            reply["finish_reason"] = choice["finish_reason"].clone();
        }
    }
    if message["content"] == "" && !message["tool_calls"].is_null() {
        message["content"] = Value::Null;
    }
    reply["message"] = message;
    json!([reply])
}

/// Serves a request with drafts and without and checks that nothing else differs; gives the drafted reply.
pub fn exact(server: &Server, body: &Value) -> Value {
    let drafted = server.ok(CHAT, body);
    let serial = server.ok(CHAT, &with(body.clone(), json!({"draft": false})));
    assert_eq!(choices(&drafted), choices(&serial), "{body}");
    assert_eq!(drafted["tokenfare"]["token_sha256"], serial["tokenfare"]["token_sha256"]);
    for name in ["prompt_tokens", "completion_tokens", "total_tokens", "completion_tokens_details"] {
        assert_eq!(drafted["usage"][name], serial["usage"][name], "{name}");
    }
    assert_eq!(serial["tokenfare"]["drafted"], 0);
    let usage = &drafted["usage"];
    let reasoning = usage["completion_tokens_details"]["reasoning_tokens"].as_u64().unwrap();
    assert!(reasoning <= usage["completion_tokens"].as_u64().unwrap());
    drafted
}

/// As [`exact`], and streamed.
pub fn exact_streamed(server: &Server, body: &Value) -> Value {
    let reply = exact(server, body);
    let events = server.post(CHAT, &with(body.clone(), json!({"stream": true}))).events();
    let mut whole = choices(&reply);
    // An empty reasoning has no event.
    if whole[0]["message"]["reasoning_content"] == "" {
        whole[0]["message"].as_object_mut().unwrap().remove("reasoning_content");
    }
    assert_eq!(joined(&events), whole, "{body}");
    reply
}

/// The text of the only choice.
pub fn content(reply: &Value) -> &str {
    reply["choices"][0]["message"]["content"].as_str().unwrap()
}
