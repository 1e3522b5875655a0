//! Tools offered to the model and calls it made.

use serde_json::{Map, Value};

use super::error::{ChatError, ChatProblem};
use super::words::{CLOSE, KIND, NAME_END, OPEN};

/// A tool's name, in a namespace or not. Written `namespace::name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolName {
    /// The namespace.
    pub namespace: Option<String>,
    /// The name inside it.
    pub name: String,
}

impl ToolName {
    /// Splits a possibly qualified name; more than one `::` is no name.
    pub fn split(name: &str) -> Option<Self> {
        match name.split_once("::") {
            None => Some(Self { namespace: None, name: name.to_owned() }),
            Some((_, plain)) if plain.contains("::") => None,
            Some((namespace, plain)) => {
                Some(Self { namespace: Some(namespace.to_owned()), name: plain.to_owned() })
            }
        }
    }

    /// The name that the model wrote in a call: not empty, of printable characters.
    pub(super) fn written(name: &str) -> Option<Self> {
        Self::split(name).filter(|split| !split.name.is_empty() && !name.contains(char::is_control))
    }

    /// Splits a name and checks it against a namespace given beside it.
    fn parse(path: &str, name: &str, beside: Option<&str>) -> Result<Self, ChatError> {
        let problem = |namespace: &str| {
            let (name, namespace) = (name.to_owned(), namespace.to_owned());
            ChatError::new(path, ChatProblem::Namespace { name, namespace })
        };
        let split = Self::split(name).ok_or_else(|| problem("of at most one `::`"))?;
        match (&split.namespace, beside) {
            (Some(own), Some(beside)) if own != beside => Err(problem(beside)),
            (None, Some(beside)) => Ok(Self { namespace: Some(beside.to_owned()), ..split }),
            _ => Ok(split),
        }
    }
}

impl std::fmt::Display for ToolName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}::{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// A tool the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: ToolName,
    /// Its `function` object as the model is shown it: the qualified name, and the namespace's description before
    /// its own.
    pub schema: Value,
}

impl Tool {
    /// Reads `{"type": "function", "function": {"name", "description", "parameters"}, "namespace"}`.
    ///
    /// A namespace is a string or `{"name", "description"}`, in the function object or beside it. Words that a call
    /// could not carry are refused: the model would be offered what it cannot say.
    pub(super) fn parse(path: &str, value: &Value) -> Result<Self, ChatError> {
        let Function { mut fields, name, namespace } = Function::parse(path, value)?;
        check(&format!("{path}.function"), &name, &fields)?;
        if name.namespace.is_some() {
            fields.insert("name".to_owned(), name.to_string().into());
            if let Some(about) = namespace["description"].as_str().filter(|about| !about.is_empty()) {
                let own = fields.get("description").and_then(Value::as_str).unwrap_or_default();
                let both = format!("{about}\n{own}");
                fields.insert("description".to_owned(), both.into());
            }
        }
        Ok(Self { name, schema: Value::Object(fields) })
    }
}

/// Whether a reader of calls finds `text` whole before the `end` that follows it.
fn carried(text: &str, end: &str) -> bool {
    let written = format!("{text}{end}");
    [end, OPEN, CLOSE].iter().filter_map(|word| written.find(word)).min() == Some(text.len())
}

/// Refuses a tool whose name, arguments or listed values would end a tag or a value too early, and a description that is
/// no text.
fn check(path: &str, name: &ToolName, fields: &Map<String, Value>) -> Result<(), ChatError> {
    let written = name.to_string();
    if ToolName::written(&written).is_none() || !carried(&written, NAME_END) {
        let expected = "printable characters that a call can carry";
        return Err(ChatError::expected(format!("{path}.name"), expected, &written.into()));
    }
    if let Some(other) = fields.get("description").filter(|about| !about.is_null() && !about.is_string()) {
        return Err(ChatError::expected(format!("{path}.description"), "text", other));
    }
    let properties = fields.get("parameters").and_then(|schema| schema["properties"].as_object());
    for (key, schema) in properties.into_iter().flatten() {
        let path = format!("{path}.parameters.properties");
        if !carried(key, KIND) {
            return Err(ChatError::expected(path, "names that a call can carry", &key.as_str().into()));
        }
        let mut listed = schema["enum"].as_array().into_iter().flatten().chain([&schema["const"]]);
        if let Some(value) = listed.find(|value| value.as_str().is_some_and(|v| !carried(v, CLOSE))) {
            return Err(ChatError::expected(format!("{path}.{key}"), "values that a call can carry", value));
        }
    }
    Ok(())
}

/// Reads a JSON list of tools; `path` names it in errors.
///
/// # Errors
/// The first field that cannot be used, by its path.
pub fn parse_tools(path: &str, value: &Value) -> Result<Vec<Tool>, ChatError> {
    list(path, "a list of tools", value)?
        .iter()
        .enumerate()
        .map(|(i, tool)| Tool::parse(&format!("{path}[{i}]"), tool))
        .collect()
}

/// A call in an assistant message.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The id that the call's result refers to.
    pub id: Option<String>,
    /// The tool.
    pub name: ToolName,
    /// Arguments in order. Arguments that are no JSON object are one argument `arguments`; none at all are none.
    pub arguments: Map<String, Value>,
}

impl ToolCall {
    fn parse(path: &str, value: &Value) -> Result<Self, ChatError> {
        let Function { fields, name, .. } = Function::parse(path, value)?;
        let given = Some(&value["id"]).filter(|id| !id.is_null()).or_else(|| fields.get("id"));
        let id = match given {
            None | Some(Value::Null) => None,
            Some(Value::String(id)) => Some(id).filter(|id| !id.is_empty()),
            Some(other) => return Err(ChatError::expected(format!("{path}.id"), "text", other)),
        };
        let arguments = parse_arguments(fields.get("arguments").unwrap_or(&Value::Null));
        Ok(Self { id: id.cloned(), name, arguments })
    }
}

/// Reads the `tool_calls` of a message.
pub(super) fn parse_calls(path: &str, value: &Value) -> Result<Vec<ToolCall>, ChatError> {
    list(path, "a list of tool calls", value)?
        .iter()
        .enumerate()
        .map(|(i, call)| ToolCall::parse(&format!("{path}[{i}]"), call))
        .collect()
}

/// What tools and calls have in common.
struct Function {
    fields: Map<String, Value>,
    name: ToolName,
    /// The namespace as given, in the function object or beside it.
    namespace: Value,
}

impl Function {
    fn parse(path: &str, value: &Value) -> Result<Self, ChatError> {
        let Value::Object(fields) = &value["function"] else {
            return Err(ChatError::expected(format!("{path}.function"), "an object", &value["function"]));
        };
        let mut fields = fields.clone();
        let inside = fields.shift_remove("namespace").filter(truthy);
        let namespace = inside.unwrap_or_else(|| value["namespace"].clone());
        let beside =
            namespace.as_str().or_else(|| namespace["name"].as_str()).filter(|name| !name.is_empty());
        let path = format!("{path}.function.name");
        let name = match &value["function"]["name"] {
            Value::String(name) if !name.is_empty() => ToolName::parse(&path, name, beside)?,
            other => return Err(ChatError::expected(path, "a name", other)),
        };
        Ok(Self { fields, name, namespace })
    }
}

/// Arguments as an object; clients send them as an object, as its JSON text, or as JSON text of that text.
fn parse_arguments(given: &Value) -> Map<String, Value> {
    let mut value = given.clone();
    for _ in 0..2 {
        let Some(parsed) = value.as_str().and_then(|text| serde_json::from_str(text).ok()) else { break };
        value = parsed;
    }
    match value {
        Value::Object(arguments) => arguments,
        Value::Null => Map::new(),
        Value::String(text) if text.trim().is_empty() => Map::new(),
        _ => Map::from_iter([("arguments".to_owned(), given.clone())]),
    }
}

/// A list; an absent or null field is an empty one.
fn list<'a>(path: &str, expected: &'static str, value: &'a Value) -> Result<&'a [Value], ChatError> {
    match value {
        Value::Null => Ok(&[]),
        Value::Array(items) => Ok(items),
        other => Err(ChatError::expected(path, expected, other)),
    }
}

fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}
