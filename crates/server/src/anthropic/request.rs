//! Reading a body of POST /v1/messages or /v1/messages/count_tokens.

use serde_json::{Value, json};

use super::conversation;
use crate::ApiError;
use crate::chat_body::{ChatBody, Ready, function, kind, list, object, other_kind};
use crate::fields::{Fields, mismatch};

/// Fields that are translated, and those of a chat that mean nothing here.
const OWN: [&str; 14] = [
    "messages",
    "system",
    "max_tokens",
    "max_completion_tokens",
    "stop_sequences",
    "stop",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "thinking",
    "output_config",
    "response_format",
    "stream_options",
    "metadata",
];
/// Fields that change a reply and are not served.
const NOT_SERVED: [&str; 2] = ["container", "mcp_servers"];

/// What a body is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A reply, whose length must be bounded.
    Reply,
    /// The number of the prompt's tokens.
    Count,
}

const FUNCTION: [(&str, &str); 3] =
    [("name", "name"), ("description", "description"), ("parameters", "input_schema")];

fn tools(chat: &mut ChatBody, fields: &Fields<'_>) -> Result<(), ApiError> {
    let mut tools = Vec::new();
    for (i, given) in list(fields, "tools")?.iter().enumerate() {
        let name = format!("tools[{i}]");
        let map = object(&name, given)?;
        match kind(&name, map)? {
            None | Some("custom") => {}
            other => return Err(other_kind(&name, "\"custom\"", other)),
        }
        if map.get("input_schema").is_none_or(Value::is_null) {
            return Err(ApiError::field(format!("{name}.input_schema"), "missing"));
        }
        tools.push(json!({"type": "function", "function": function(map, FUNCTION)}));
        chat.name(format!("{name}.function.parameters"), format!("{name}.input_schema"));
        chat.name(format!("{name}.function"), name);
    }
    chat.set("tools", Value::Array(tools), "tools");
    let Some(choice) = fields.object("tool_choice")? else { return Ok(()) };
    let own = |error| crate::fields::inside("tool_choice", error);
    let word = match choice.text("type").map_err(own)? {
        Some("auto") => json!("auto"),
        Some("any") => json!("required"),
        Some("none") => json!("none"),
        Some("tool") => json!({"type": "function", "function": {"name": choice.get("name")}}),
        other => return Err(other_kind("tool_choice", "\"auto\", \"any\", \"tool\" or \"none\"", other)),
    };
    chat.set("tool_choice", word, "tool_choice");
    chat.name("tool_choice.function", "tool_choice");
    if let Some(one) = choice.flag("disable_parallel_tool_use").map_err(own)? {
        chat.set("parallel_tool_calls", json!(!one), "tool_choice.disable_parallel_tool_use");
    }
    Ok(())
}

fn thinking(chat: &mut ChatBody, fields: &Fields<'_>) -> Result<(), ApiError> {
    let Some(thinking) = fields.object("thinking")? else { return Ok(()) };
    let on = match thinking.text("type").map_err(|error| crate::fields::inside("thinking", error))? {
        Some("enabled" | "adaptive") => true,
        Some("disabled") => false,
        other => return Err(other_kind("thinking", "\"enabled\", \"adaptive\" or \"disabled\"", other)),
    };
    chat.set("thinking", json!(on), "thinking");
    if let Some(budget) = thinking.get("budget_tokens") {
        chat.set("thinking_budget", budget.clone(), "thinking.budget_tokens");
    }
    Ok(())
}

/// Effort and form of the answer.
fn output(chat: &mut ChatBody, fields: &Fields<'_>) -> Result<(), ApiError> {
    let Some(output) = fields.object("output_config")? else { return Ok(()) };
    if let Some(effort) = output.get("effort") {
        chat.set("reasoning_effort", effort.clone(), "output_config.effort");
    }
    let inside = |error| crate::fields::inside("output_config", error);
    let Some(format) = output.object("format").map_err(inside)? else { return Ok(()) };
    match format.get("type").and_then(Value::as_str) {
        Some("json_schema") => {}
        other => return Err(other_kind("output_config.format", "\"json_schema\"", other)),
    }
    let schema = json!({"type": "json_schema", "json_schema": {"schema": format.get("schema")}});
    chat.set("response_format", schema, "output_config.format");
    chat.name("response_format.json_schema", "output_config.format");
    Ok(())
}

/// What `body` asks for, in the words of chat completions.
pub(super) fn read(body: &Value, purpose: Purpose) -> Result<Ready, ApiError> {
    let fields = Fields::of(body)?;
    let asked = |name: &&str| fields.get(name).is_some_and(|value| *value != json!([]));
    if let Some(name) = NOT_SERVED.into_iter().find(asked) {
        return Err(ApiError::field(name, "not supported"));
    }
    let mut chat = ChatBody::new(&fields, &OWN)?;
    if purpose == Purpose::Reply {
        chat.set("max_tokens", fields.require("max_tokens")?.clone(), "max_tokens");
        chat.copy(&fields, "stop_sequences", "stop");
    }
    chat.instructions(&fields, "system");
    match fields.require("messages")? {
        Value::Array(list) if !list.is_empty() => {
            for (i, message) in list.iter().enumerate() {
                conversation::add(&mut chat, &format!("messages[{i}]"), message)?;
            }
        }
        Value::Array(_) => return Err(ApiError::field("messages", "expected at least one message")),
        other => return Err(mismatch("messages", "an array", other)),
    }
    chat.name("prompt", "messages");
    tools(&mut chat, &fields)?;
    thinking(&mut chat, &fields)?;
    output(&mut chat, &fields)?;
    Ok(chat.finish())
}
