//! Messages of a conversation, read once from JSON.

use serde_json::Value;

use super::error::{ChatError, ChatProblem};
use super::tool::{Tool, ToolCall, parse_calls, parse_tools};
use crate::tokenizer::Control;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Instructions (`system`, or `developer` as newer clients call it).
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
    /// A reminder beside the conversation.
    LatestReminder,
}

/// A short question about a conversation that the model answers after a control token of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// What to do next.
    Action,
    /// A search query.
    Query,
    /// The authority of a source.
    Authority,
    /// The domain.
    Domain,
    /// A title.
    Title,
    /// An address to read.
    ReadUrl,
}

impl Task {
    pub(super) fn control(self) -> Control {
        match self {
            Task::Action => Control::Action,
            Task::Query => Control::Query,
            Task::Authority => Control::Authority,
            Task::Domain => Control::Domain,
            Task::Title => Control::Title,
            Task::ReadUrl => Control::ReadUrl,
        }
    }
}

/// A part of a message's content.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Text.
    Text(String),
    /// An image part, as it came.
    Image(Value),
    /// The result of a tool call.
    ToolResult {
        /// Id of the call, empty if unknown.
        call: String,
        /// The result.
        content: Vec<Part>,
    },
    /// A part of a type that the model has no encoding for; the model is told the type.
    Unsupported(String),
}

/// Whether an assistant message is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ending {
    /// The turn is over.
    #[default]
    Closed,
    /// The reply continues it (`wo_eos`).
    Open,
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Vec<Part>,
    /// Reasoning of an assistant message; may be empty.
    pub reasoning: String,
    /// Calls of an assistant message.
    pub calls: Vec<ToolCall>,
    /// Tools of a system message.
    pub tools: Vec<Tool>,
    /// Schema that a system message prescribes for replies.
    pub response_format: Option<Value>,
    /// Task asked after this message.
    pub task: Option<Task>,
    /// Whether an assistant message is complete.
    pub ending: Ending,
}

impl Message {
    /// A message of `role` that says `content`.
    pub fn new(role: Role, content: Vec<Part>) -> Self {
        Self {
            role,
            content,
            reasoning: String::new(),
            calls: Vec::new(),
            tools: Vec::new(),
            response_format: None,
            task: None,
            ending: Ending::Closed,
        }
    }

    /// Reads a message; `path` names it in errors. Unknown fields are ignored.
    pub(super) fn parse(path: &str, value: &Value) -> Result<Self, ChatError> {
        if !value.is_object() {
            return Err(ChatError::expected(path, "an object", value));
        }
        let role = parse_role(&format!("{path}.role"), &value["role"])?;
        let content = parse_content(&format!("{path}.content"), &value["content"])?;
        let mut message = Self::new(role, content);
        message.task = parse_task(&format!("{path}.task"), &value["task"])?;
        message.tools = parse_tools(&format!("{path}.tools"), &value["tools"])?;
        message.response_format = response_format(&value["response_format"]);
        if role != Role::System {
            let given = [
                ("tools", !message.tools.is_empty()),
                ("response_format", message.response_format.is_some()),
            ];
            if let Some((field, _)) = given.iter().find(|(_, given)| *given) {
                return Err(ChatError::new(format!("{path}.{field}"), ChatProblem::Role { role: "system" }));
            }
        }
        match role {
            Role::Assistant => {
                let field =
                    if value["reasoning_content"].is_null() { "reasoning" } else { "reasoning_content" };
                message.reasoning = parse_text(&format!("{path}.{field}"), &value[field])?;
                message.calls = parse_calls(&format!("{path}.tool_calls"), &value["tool_calls"])?;
                message.ending = parse_ending(&format!("{path}.wo_eos"), &value["wo_eos"])?;
            }
            Role::Tool => {
                let call = parse_text(&format!("{path}.tool_call_id"), &value["tool_call_id"])?;
                message.content = vec![Part::ToolResult { call, content: message.content }];
            }
            Role::System | Role::User | Role::LatestReminder => {}
        }
        if !matches!(role, Role::User | Role::Tool) {
            plain_parts(path, &message.content, value)?;
        }
        Ok(message)
    }
}

/// The schema, unless it is absent or empty.
pub(super) fn response_format(value: &Value) -> Option<Value> {
    let empty = value.is_null() || value.as_object().is_some_and(|fields| fields.is_empty());
    (!empty).then(|| value.clone())
}

fn parse_role(path: &str, value: &Value) -> Result<Role, ChatError> {
    match value.as_str() {
        Some("system" | "developer") => Ok(Role::System),
        Some("user") => Ok(Role::User),
        Some("assistant") => Ok(Role::Assistant),
        Some("tool") => Ok(Role::Tool),
        Some("latest_reminder") => Ok(Role::LatestReminder),
        _ => {
            let expected = "one of system, developer, user, assistant, tool, latest_reminder";
            Err(ChatError::expected(path, expected, value))
        }
    }
}

fn parse_task(path: &str, value: &Value) -> Result<Option<Task>, ChatError> {
    match (value, value.as_str()) {
        (Value::Null, _) => Ok(None),
        (_, Some("action")) => Ok(Some(Task::Action)),
        (_, Some("query")) => Ok(Some(Task::Query)),
        (_, Some("authority")) => Ok(Some(Task::Authority)),
        (_, Some("domain")) => Ok(Some(Task::Domain)),
        (_, Some("title")) => Ok(Some(Task::Title)),
        (_, Some("read_url")) => Ok(Some(Task::ReadUrl)),
        _ => {
            let expected = "one of action, query, authority, domain, title, read_url";
            Err(ChatError::expected(path, expected, value))
        }
    }
}

fn parse_ending(path: &str, value: &Value) -> Result<Ending, ChatError> {
    match value {
        Value::Null | Value::Bool(false) => Ok(Ending::Closed),
        Value::Bool(true) => Ok(Ending::Open),
        other => Err(ChatError::expected(path, "true or false", other)),
    }
}

/// Text; an absent or null field is an empty one.
fn parse_text(path: &str, value: &Value) -> Result<String, ChatError> {
    match value {
        Value::Null => Ok(String::new()),
        Value::String(text) if text.contains(Control::Image.text()) => {
            Err(ChatError::new(path, ChatProblem::ImageToken))
        }
        Value::String(text) => Ok(text.clone()),
        other => Err(ChatError::expected(path, "text", other)),
    }
}

fn parse_content(path: &str, value: &Value) -> Result<Vec<Part>, ChatError> {
    match value {
        Value::Null | Value::String(_) => Ok(vec![Part::Text(parse_text(path, value)?)]),
        Value::Array(parts) if parts.is_empty() => Ok(vec![Part::Text(String::new())]),
        Value::Array(parts) => {
            parts.iter().enumerate().map(|(i, part)| parse_part(&format!("{path}[{i}]"), part)).collect()
        }
        other => Err(ChatError::expected(path, "text or a list of parts", other)),
    }
}

fn parse_part(path: &str, value: &Value) -> Result<Part, ChatError> {
    let Some(kind) = value["type"].as_str() else {
        return Err(ChatError::expected(format!("{path}.type"), "the part's type", &value["type"]));
    };
    match kind {
        "text" => Ok(Part::Text(parse_text(&format!("{path}.text"), &value["text"])?)),
        "image" | "image_url" => Ok(Part::Image(value.clone())),
        "tool_result" => Ok(Part::ToolResult {
            call: parse_text(&format!("{path}.tool_use_id"), &value["tool_use_id"])?,
            content: parse_content(&format!("{path}.content"), &value["content"])?,
        }),
        other => Ok(Part::Unsupported(other.to_owned())),
    }
}

/// Refuses parts that only a user turn can hold.
fn plain_parts(path: &str, parts: &[Part], value: &Value) -> Result<(), ChatError> {
    let odd = |part: &Part| matches!(part, Part::ToolResult { .. } | Part::Unsupported(_));
    match parts.iter().position(odd) {
        None => Ok(()),
        Some(i) => {
            let expected = "text or image_url in a message of this role";
            let found = &value["content"][i]["type"];
            Err(ChatError::expected(format!("{path}.content[{i}].type"), expected, found))
        }
    }
}
