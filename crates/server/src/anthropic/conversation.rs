//! Messages of content blocks, as messages of chat completions.

use serde_json::{Map, Value, json};

use crate::ApiError;
use crate::chat_body::{ChatBody, kind, object, other_kind};
use crate::fields::mismatch;

/// A required field of a block.
fn required<'a>(name: &str, map: &'a Map<String, Value>, field: &str) -> Result<&'a Value, ApiError> {
    let value = map.get(field).filter(|value| !value.is_null());
    value.ok_or_else(|| ApiError::field(format!("{name}.{field}"), "missing"))
}

fn text<'a>(name: &str, map: &'a Map<String, Value>, field: &str) -> Result<&'a str, ApiError> {
    let value = required(name, map, field)?;
    value.as_str().ok_or_else(|| mismatch(&format!("{name}.{field}"), "a string", value))
}

/// Blocks of a user: results of tools, and text before, between and behind them.
fn user(chat: &mut ChatBody, own: &str, blocks: &[Value]) -> Result<(), ApiError> {
    for (i, block) in blocks.iter().enumerate() {
        let name = format!("{own}.content[{i}]");
        let map = object(&name, block)?;
        match kind(&name, map)? {
            Some("text") => {
                let part = json!({"type": "text", "text": text(&name, map, "text")?});
                let goes_on = chat.last().filter(|_| i > 0).filter(|(_, last)| last["role"] == "user");
                match goes_on {
                    Some((_, last)) => {
                        last["content"].as_array_mut().into_iter().for_each(|c| c.push(part.clone()))
                    }
                    None => {
                        let message = chat.message(json!({"role": "user", "content": [part]}), own);
                        chat.name(format!("{message}.content"), format!("{own}.content"));
                    }
                }
            }
            Some("tool_result") => {
                let call = text(&name, map, "tool_use_id")?;
                let content = map.get("content").filter(|content| !content.is_null());
                let content = content.cloned().unwrap_or_else(|| json!(""));
                chat.message(json!({"role": "tool", "tool_call_id": call, "content": content}), &name);
            }
            other => return Err(other_kind(&name, "\"text\" or \"tool_result\"", other)),
        }
    }
    Ok(())
}

/// Blocks of the assistant: one turn.
fn assistant(chat: &mut ChatBody, own: &str, blocks: &[Value]) -> Result<(), ApiError> {
    let (mut content, mut reasoning, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    let mut places = Vec::new();
    for (i, block) in blocks.iter().enumerate() {
        let name = format!("{own}.content[{i}]");
        let map = object(&name, block)?;
        match kind(&name, map)? {
            Some("text") => content.push(json!({"type": "text", "text": text(&name, map, "text")?})),
            Some("thinking") => reasoning.push(text(&name, map, "thinking")?),
            // Reasoning that another server has sealed.
            Some("redacted_thinking") => {}
            Some("tool_use") => {
                let input = required(&name, map, "input")?;
                object(&format!("{name}.input"), input)?;
                let function = json!({"name": text(&name, map, "name")?, "arguments": input});
                calls.push(json!({"id": text(&name, map, "id")?, "type": "function", "function": function}));
                places.push(name);
            }
            other => {
                let expected = "\"text\", \"thinking\", \"redacted_thinking\" or \"tool_use\"";
                return Err(other_kind(&name, expected, other));
            }
        }
    }
    let mut message = json!({"role": "assistant", "content": content});
    if !reasoning.is_empty() {
        message["reasoning_content"] = json!(reasoning.join("\n\n"));
    }
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    let message = chat.message(message, own);
    chat.name(format!("{message}.reasoning_content"), format!("{own}.content"));
    for (place, name) in places.into_iter().enumerate() {
        let call = format!("{message}.tool_calls[{place}]");
        chat.name(format!("{call}.function"), &name);
        chat.name(call, name);
    }
    Ok(())
}

/// Adds a message that the client calls `own`.
pub(super) fn add(chat: &mut ChatBody, own: &str, message: &Value) -> Result<(), ApiError> {
    let map = object(own, message)?;
    let role = text(own, map, "role")?;
    if !["user", "assistant", "system"].contains(&role) {
        let problem = format!("expected one of user, assistant, system, found {role:?}");
        return Err(ApiError::field(format!("{own}.role"), problem));
    }
    match (role, required(own, map, "content")?) {
        ("user", Value::Array(blocks)) if !blocks.is_empty() => user(chat, own, blocks)?,
        ("assistant", Value::Array(blocks)) => assistant(chat, own, blocks)?,
        (role, content) => {
            chat.message(json!({"role": role, "content": content}), own);
        }
    }
    Ok(())
}
