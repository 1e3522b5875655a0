//! Reading a body of POST /v1/responses.

use serde_json::{Map, Value, json};

use super::items;
use super::store::Store;
use crate::ApiError;
use crate::auth::Owner;
use crate::chat_body::{ChatBody, Ready, function, kind, list, object, other_kind};
use crate::fields::{Fields, mismatch};

/// Fields that are translated, and those of a chat that mean nothing here.
const OWN: [&str; 12] = [
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "text",
    "reasoning",
    "max_output_tokens",
    "previous_response_id",
    "messages",
    "response_format",
    "stream_options",
    "metadata",
];
/// Fields that change a reply and are not served.
const NOT_SERVED: [&str; 4] = ["background", "conversation", "prompt", "moderation"];
/// Fields that the reply repeats.
const REPEATED: [&str; 8] = [
    "instructions",
    "max_output_tokens",
    "metadata",
    "parallel_tool_calls",
    "previous_response_id",
    "tool_choice",
    "tools",
    "user",
];

/// What a body asks for.
pub(super) struct Asked {
    /// In the words of chat completions.
    pub chat: Ready,
    /// The conversation before the reply.
    pub items: Vec<Value>,
    /// Whether the reply may be referred to.
    pub store: bool,
    /// Fields that the reply repeats.
    pub repeated: Map<String, Value>,
}

fn refuse_what_is_not_served(fields: &Fields<'_>) -> Result<(), ApiError> {
    let asked = |name: &&str| fields.get(name).is_some_and(|value| *value != json!(false));
    if let Some(name) = NOT_SERVED.into_iter().find(asked) {
        return Err(ApiError::field(name, "not supported"));
    }
    if let Some(found) = fields.text("truncation")?.filter(|word| *word != "disabled") {
        return Err(ApiError::field("truncation", format!("expected \"disabled\", found {found:?}")));
    }
    let logprobs = |wanted: &Value| wanted == "message.output_text.logprobs";
    if let Some(place) = list(fields, "include")?.iter().position(logprobs) {
        return Err(ApiError::field(format!("include[{place}]"), "not supported"));
    }
    Ok(())
}

const FUNCTION: [(&str, &str); 3] =
    [("name", "name"), ("description", "description"), ("parameters", "parameters")];

fn tool(chat: &mut ChatBody, tools: &mut Vec<Value>, own: &str, given: &Value) -> Result<(), ApiError> {
    let map = object(own, given)?;
    match kind(own, map)? {
        Some("function") => {
            let name = format!("tools[{}]", tools.len());
            chat.name(format!("{name}.function"), own);
            chat.name(name, own);
            tools.push(json!({"type": "function", "function": function(map, FUNCTION)}));
        }
        Some("namespace") => {
            let fields = Fields::of(given)?;
            let name = fields.text("name").map_err(|e| crate::fields::inside(own, e))?;
            if name.is_none_or(str::is_empty) {
                return Err(ApiError::field(format!("{own}.name"), "expected a name that is not empty"));
            }
            let namespace = json!({"name": name, "description": map.get("description")});
            for (i, inner) in
                list(&fields, "tools").map_err(|e| crate::fields::inside(own, e))?.iter().enumerate()
            {
                let own = format!("{own}.tools[{i}]");
                match kind(&own, object(&own, inner)?)? {
                    Some("function") => tool(chat, tools, &own, inner)?,
                    other => return Err(other_kind(&own, "\"function\"", other)),
                }
                if let Some(last) = tools.last_mut() {
                    last["namespace"] = namespace.clone();
                }
            }
        }
        other => return Err(other_kind(own, "\"function\" or \"namespace\"", other)),
    }
    Ok(())
}

fn tools(chat: &mut ChatBody, fields: &Fields<'_>) -> Result<(), ApiError> {
    let mut tools = Vec::new();
    for (i, given) in list(fields, "tools")?.iter().enumerate() {
        tool(chat, &mut tools, &format!("tools[{i}]"), given)?;
    }
    chat.set("tools", Value::Array(tools), "tools");
    match fields.get("tool_choice") {
        None => {}
        Some(Value::Object(map)) => match kind("tool_choice", map)? {
            Some("function") => {
                let choice = json!({"type": "function", "function": {"name": map.get("name")}});
                chat.set("tool_choice", choice, "tool_choice");
                chat.name("tool_choice.function", "tool_choice");
            }
            other => return Err(other_kind("tool_choice", "\"function\"", other)),
        },
        Some(word) if ["auto", "none", "required"].iter().any(|known| word == known) => {
            chat.set("tool_choice", word.clone(), "tool_choice");
        }
        Some(other) => {
            let expected =
                "expected \"auto\", \"none\", \"required\" or {\"type\": \"function\", \"name\": ...}";
            return Err(ApiError::field("tool_choice", format!("{expected}, found {other}")));
        }
    }
    Ok(())
}

/// The form of the answer.
fn format(chat: &mut ChatBody, fields: &Fields<'_>) -> Result<(), ApiError> {
    let Some(format) = fields.object("text")?.and_then(|text| text.get("format")) else { return Ok(()) };
    let mut asked = format.clone();
    if format["type"] == "json_schema" {
        let schema = function(
            object("text.format", format)?,
            [("name", "name"), ("strict", "strict"), ("schema", "schema")],
        );
        asked = json!({"type": "json_schema", "json_schema": schema});
        chat.name("response_format.json_schema", "text.format");
    }
    chat.set("response_format", asked, "text.format");
    Ok(())
}

/// Whether and how much the reply reasons: who names an effort asks for reasoning.
fn reasoning(chat: &mut ChatBody, fields: &Fields<'_>) -> Result<(), ApiError> {
    let Some(effort) = fields.object("reasoning")?.and_then(|reasoning| reasoning.get("effort")) else {
        return Ok(());
    };
    if !effort.is_string() && !effort.is_number() {
        return Err(mismatch("reasoning.effort", "a level's name or a number", effort));
    }
    chat.set("reasoning_effort", effort.clone(), "reasoning.effort");
    if effort != "none" && fields.get("thinking").is_none() {
        chat.set("thinking", json!(true), "reasoning.effort");
    }
    Ok(())
}

/// What `body` asks for; what it refers to is in `store` and of `owner`.
pub(super) fn read(body: &Value, store: &Store, owner: Owner) -> Result<Asked, ApiError> {
    let fields = Fields::of(body)?;
    refuse_what_is_not_served(&fields)?;
    let mut chat = ChatBody::new(&fields, &OWN)?;
    fields.text("instructions")?;
    chat.instructions(&fields, "instructions");
    let mut items = match fields.text("previous_response_id")? {
        Some(id) => store.conversation(owner, id)?,
        None => Vec::new(),
    };
    for item in &items {
        items::add(&mut chat, "previous_response_id", item)?;
    }
    match fields.require("input")? {
        Value::String(text) => items.push(json!({"role": "user", "content": text})),
        Value::Array(list) if !list.is_empty() => items.extend(list.iter().cloned()),
        Value::Array(_) => return Err(ApiError::field("input", "expected at least one item")),
        other => return Err(mismatch("input", "a string or an array of items", other)),
    }
    add_input(&mut chat, fields.require("input")?, &items)?;
    chat.name("messages", "input");
    chat.name("prompt", "input");
    tools(&mut chat, &fields)?;
    format(&mut chat, &fields)?;
    reasoning(&mut chat, &fields)?;
    chat.copy(&fields, "max_output_tokens", "max_completion_tokens");
    let store = fields.flag("store")?.unwrap_or(true);
    fields.object("metadata")?;
    fields.text("user")?;
    let repeated = |name: &str| Some((name.to_owned(), fields.get(name)?.clone()));
    let mut repeated: Map<_, _> = REPEATED.into_iter().filter_map(repeated).collect();
    repeated.insert("reasoning".to_owned(), part(&fields, "reasoning", ["effort", "summary"]));
    repeated.insert("text".to_owned(), part(&fields, "text", ["format", "verbosity"]));
    Ok(Asked { chat: chat.finish(), items, store, repeated })
}

fn add_input(chat: &mut ChatBody, input: &Value, items: &[Value]) -> Result<(), ApiError> {
    let new = input.as_array().map_or(1, Vec::len);
    for (i, item) in items.iter().skip(items.len() - new).enumerate() {
        let own = if input.is_string() { "input".to_owned() } else { format!("input[{i}]") };
        items::add(chat, &own, item)?;
        if input.is_string()
            && let Some((name, _)) = chat.last()
        {
            chat.name(format!("{name}.content"), "input");
        }
    }
    Ok(())
}

/// A field's object with these of its fields, null where they were not given.
fn part(fields: &Fields<'_>, name: &str, inner: [&str; 2]) -> Value {
    let given = fields.get(name).unwrap_or(&Value::Null);
    Value::Object(inner.into_iter().map(|inner| (inner.to_owned(), given[inner].clone())).collect())
}
