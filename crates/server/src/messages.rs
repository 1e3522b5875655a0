//! Messages in the form of OpenAI's chat completions.

use serde_json::{Map, Value, json};

use crate::fields::{Fields, mismatch};
use crate::{ApiError, limits};

const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "latest_reminder"];

fn text_content(field: &str, content: &Value) -> Result<String, ApiError> {
    match content {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            let mut texts = Vec::with_capacity(parts.len());
            for (i, part) in parts.iter().enumerate() {
                let at = format!("{field}[{i}]");
                match (part.get("type").and_then(Value::as_str), part.get("text").and_then(Value::as_str)) {
                    (Some("text"), Some(text)) => texts.push(text),
                    (Some("text"), None) => {
                        return Err(ApiError::field(format!("{at}.text"), "expected a string"));
                    }
                    (Some(kind), _) => {
                        return Err(ApiError::field(
                            format!("{at}.type"),
                            format!("expected text, found {kind:?}"),
                        ));
                    }
                    (None, _) => return Err(ApiError::field(format!("{at}.type"), "missing")),
                }
            }
            Ok(texts.join("\n\n"))
        }
        other => Err(mismatch(field, "a string or an array of text parts", other)),
    }
}

fn message(index: usize, value: &Value) -> Result<Value, ApiError> {
    let at = |name: &str| format!("messages[{index}].{name}");
    let Value::Object(map) = value else {
        return Err(mismatch(&format!("messages[{index}]"), "an object", value));
    };
    let role = match map.get("role") {
        Some(Value::String(role)) if ROLES.contains(&role.as_str()) => role.as_str(),
        Some(Value::String(role)) => {
            return Err(ApiError::field(
                at("role"),
                format!("expected one of {}, found {role:?}", ROLES.join(", ")),
            ));
        }
        Some(other) => return Err(mismatch(&at("role"), "a string", other)),
        None => return Err(ApiError::field(at("role"), "missing")),
    };
    let mut out: Map<String, Value> = map.clone();
    out.insert("role".into(), json!(if role == "developer" { "system" } else { role }));
    let content = match map.get("content").filter(|c| !c.is_null()) {
        Some(content) => text_content(&at("content"), content)?,
        None if role == "assistant" => String::new(),
        None => return Err(ApiError::field(at("content"), "missing")),
    };
    out.insert("content".into(), json!(content));
    Ok(Value::Object(out))
}

/// The `messages` of a body, checked for shape.
pub fn messages(fields: &Fields<'_>) -> Result<Vec<Value>, ApiError> {
    let Value::Array(list) = fields.require("messages")? else {
        return Err(mismatch("messages", "an array", fields.require("messages")?));
    };
    if list.is_empty() {
        return Err(ApiError::field("messages", "expected at least one message"));
    }
    limits::messages(list.len())?;
    list.iter().enumerate().map(|(i, m)| message(i, m)).collect()
}
