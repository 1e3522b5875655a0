//! Items of a conversation, from and to the messages of chat completions.

use serde_json::{Map, Value, json};

use crate::ApiError;
use crate::chat_body::{ChatBody, kind, object, other_kind};
use crate::fields::mismatch;

/// Text parts of `content` as a chat has them; what is no list is checked there.
fn parts(name: &str, content: &Value) -> Result<Value, ApiError> {
    let Value::Array(list) = content else { return Ok(content.clone()) };
    let part = |(i, part): (usize, &Value)| {
        let name = format!("{name}[{i}]");
        let map = object(&name, part)?;
        match kind(&name, map)? {
            Some("input_text" | "output_text" | "text") => {
                Ok(json!({"type": "text", "text": map.get("text")}))
            }
            other => Err(other_kind(&name, "\"input_text\" or \"output_text\"", other)),
        }
    };
    list.iter().enumerate().map(part).collect()
}

/// The text of a reasoning item: its own, else its summary.
fn reasoning(name: &str, map: &Map<String, Value>) -> Result<String, ApiError> {
    let mut texts = Vec::new();
    for field in ["content", "summary"] {
        let name = format!("{name}.{field}");
        match map.get(field) {
            None | Some(Value::Null) => {}
            Some(Value::Array(parts)) => {
                for (i, part) in parts.iter().enumerate() {
                    let text = part["text"].as_str();
                    let text = text
                        .ok_or_else(|| mismatch(&format!("{name}[{i}].text"), "a string", &part["text"]))?;
                    texts.push(text);
                }
            }
            Some(other) => return Err(mismatch(&name, "an array", other)),
        }
        if !texts.is_empty() {
            break;
        }
    }
    Ok(texts.join("\n\n"))
}

/// The turn of the assistant that the next item goes on with, if the last message is one without any of `fields`.
fn turn(chat: &mut ChatBody, own: &str, fields: &[&str]) -> String {
    let goes_on = chat
        .last()
        .filter(|(_, last)| last["role"] == "assistant" && fields.iter().all(|field| last[*field].is_null()));
    match goes_on {
        Some((name, _)) => name,
        None => chat.message(json!({"role": "assistant"}), own),
    }
}

/// Sets a field of the assistant's turn.
fn set(chat: &mut ChatBody, field: &str, value: Value) {
    if let Some((_, last)) = chat.last() {
        last[field] = value;
    }
}

fn message(chat: &mut ChatBody, own: &str, map: &Map<String, Value>) -> Result<(), ApiError> {
    let role = match map.get("role") {
        Some(Value::String(role)) => role.as_str(),
        Some(other) => return Err(mismatch(&format!("{own}.role"), "a string", other)),
        None => return Err(ApiError::field(format!("{own}.role"), "missing")),
    };
    let field = format!("{own}.content");
    let content = parts(&field, map.get("content").unwrap_or(&Value::Null))?;
    match role {
        "assistant" => {
            let name = turn(chat, own, &["content", "tool_calls"]);
            chat.name(format!("{name}.content"), field);
            set(chat, "content", content);
        }
        "user" | "system" | "developer" => {
            chat.message(json!({"role": role, "content": content}), own);
        }
        other => {
            let expected = "expected one of user, assistant, system, developer";
            return Err(ApiError::field(format!("{own}.role"), format!("{expected}, found {other:?}")));
        }
    }
    Ok(())
}

fn call(chat: &mut ChatBody, own: &str, map: &Map<String, Value>) {
    let name = turn(chat, own, &[]);
    let function = json!({"name": map.get("name"), "arguments": map.get("arguments")});
    let mut call = json!({"id": map.get("call_id"), "type": "function", "function": function});
    if let Some(namespace) = map.get("namespace") {
        call["namespace"] = namespace.clone();
    }
    if let Some((_, last)) = chat.last() {
        match last["tool_calls"].as_array_mut() {
            Some(calls) => calls.push(call),
            None => last["tool_calls"] = json!([call]),
        }
        let place = last["tool_calls"].as_array().map_or(0, |calls| calls.len() - 1);
        let name = format!("{name}.tool_calls[{place}]");
        chat.name(format!("{name}.function"), own);
        chat.name(format!("{name}.id"), format!("{own}.call_id"));
        chat.name(name, own);
    }
}

/// Adds an item that the client calls `own`. Neighbouring items of the assistant are one turn.
pub(super) fn add(chat: &mut ChatBody, own: &str, item: &Value) -> Result<(), ApiError> {
    let map = object(own, item)?;
    match kind(own, map)? {
        None | Some("message") => message(chat, own, map)?,
        Some("reasoning") => {
            let text = reasoning(own, map)?;
            let name = turn(chat, own, &["reasoning_content", "content", "tool_calls"]);
            chat.name(format!("{name}.reasoning_content"), format!("{own}.content"));
            set(chat, "reasoning_content", json!(text));
        }
        Some("function_call") => call(chat, own, map),
        Some("function_call_output") => {
            let field = format!("{own}.output");
            let output = parts(&field, map.get("output").unwrap_or(&Value::Null))?;
            let result = json!({"role": "tool", "tool_call_id": map.get("call_id"), "content": output});
            let name = chat.message(result, own);
            chat.name(format!("{name}.content"), field);
            chat.name(format!("{name}.tool_call_id"), format!("{own}.call_id"));
        }
        other => {
            let expected = "\"message\", \"reasoning\", \"function_call\" or \"function_call_output\"";
            return Err(other_kind(own, expected, other));
        }
    }
    Ok(())
}
