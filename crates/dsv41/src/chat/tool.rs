//! Tools offered to the model and calls it made.

use serde_json::{Map, Value};

use super::error::{ChatError, ChatProblem};

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
    /// A namespace is a string or `{"name", "description"}`, in the function object or beside it.
    pub(super) fn parse(path: &str, value: &Value) -> Result<Self, ChatError> {
        let Function { mut fields, name, namespace } = Function::parse(path, value)?;
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
        let id = value["id"].as_str().or_else(|| fields.get("id")?.as_str()).filter(|id| !id.is_empty());
        let arguments = parse_arguments(fields.get("arguments").unwrap_or(&Value::Null));
        Ok(Self { id: id.map(str::to_owned), name, arguments })
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
