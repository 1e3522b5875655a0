//! `tools`, `tool_choice` and `parallel_tool_calls`.

use serde_json::Value;

use crate::fields::{Fields, mismatch};
use crate::{ApiError, Calls};

/// Whether the reply calls tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// As the model sees fit.
    #[default]
    Auto,
    /// Not at all.
    None,
    /// At least one.
    Required,
    /// This one, by its place among the tools.
    Named(usize),
}

/// The tools of a request and how they may be called.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tools {
    /// In the form of OpenAI's chat completions.
    pub list: Vec<Value>,
    /// Whether they are called.
    pub choice: ToolChoice,
    /// Whether a reply may have several calls.
    pub parallel: bool,
}

/// A tool's name with its namespace, as the model writes it.
fn qualified(tool: &Value) -> String {
    let name = tool["function"]["name"].as_str().unwrap_or_default();
    match beside(tool) {
        Some(namespace) if !name.contains("::") => format!("{namespace}::{name}"),
        _ => name.to_owned(),
    }
}

/// A namespace that a tool has beside its name.
fn beside(tool: &Value) -> Option<&str> {
    let spaces = [&tool["function"]["namespace"], &tool["namespace"]];
    spaces.into_iter().find_map(|s| s.as_str().or_else(|| s["name"].as_str()).filter(|n| !n.is_empty()))
}

fn tool(index: usize, value: &Value) -> Result<Value, ApiError> {
    let at = |name: &str| format!("tools[{index}]{name}");
    if !value.is_object() {
        return Err(mismatch(&at(""), "an object", value));
    }
    match &value["type"] {
        Value::Null => {}
        Value::String(kind) if kind == "function" => {}
        other => return Err(ApiError::field(at(".type"), format!("expected \"function\", found {other}"))),
    }
    let parameters = &value["function"]["parameters"];
    if !parameters.is_null() && !parameters.is_object() {
        return Err(mismatch(&at(".function.parameters"), "a JSON schema of an object", parameters));
    }
    Ok(value.clone())
}

impl Tools {
    /// Reads the fields of a body.
    pub fn parse(fields: &Fields<'_>) -> Result<Self, ApiError> {
        let list = match fields.get("tools") {
            None => Vec::new(),
            Some(Value::Array(items)) => {
                items.iter().enumerate().map(|(i, t)| tool(i, t)).collect::<Result<_, _>>()?
            }
            Some(other) => return Err(mismatch("tools", "an array", other)),
        };
        let parallel = fields.flag("parallel_tool_calls")?.unwrap_or(true);
        let mut tools = Self { list, choice: ToolChoice::Auto, parallel };
        if let Some(choice) = fields.get("tool_choice") {
            tools.choice = tools.choice(choice)?;
        }
        Ok(tools)
    }

    fn choice(&self, value: &Value) -> Result<ToolChoice, ApiError> {
        let expected = "expected \"auto\", \"none\", \"required\" or {\"type\": \"function\", \"function\": {\"name\": ...}}";
        let choice = match value {
            Value::String(word) => match word.as_str() {
                "auto" => ToolChoice::Auto,
                "none" => ToolChoice::None,
                "required" => ToolChoice::Required,
                other => return Err(ApiError::field("tool_choice", format!("{expected}, found {other:?}"))),
            },
            Value::Object(_) if value["type"] == "function" => {
                let name = value["function"]["name"].as_str().ok_or_else(|| {
                    mismatch("tool_choice.function.name", "a string", &value["function"]["name"])
                })?;
                let named = |tool: &Value| qualified(tool) == name || tool["function"]["name"] == name;
                let place = self.list.iter().position(named).ok_or_else(|| {
                    let problem = format!("expected the name of one of the tools, found {name:?}");
                    ApiError::field("tool_choice.function.name", problem)
                })?;
                ToolChoice::Named(place)
            }
            other => return Err(ApiError::field("tool_choice", format!("{expected}, found {other}"))),
        };
        if choice == ToolChoice::Required && self.list.is_empty() {
            return Err(ApiError::field("tool_choice", "expected tools to call, found none"));
        }
        Ok(choice)
    }

    /// The tools that the model is told of: none where it may not call any.
    pub fn offered(&self) -> &[Value] {
        if self.choice == ToolChoice::None { &[] } else { &self.list }
    }

    /// Whether a tool must be called.
    pub fn demands(&self) -> bool {
        matches!(self.choice, ToolChoice::Required | ToolChoice::Named(_))
    }

    /// The place of the tool that must be called, if it is named.
    pub fn named(&self) -> Option<usize> {
        if let ToolChoice::Named(place) = self.choice { Some(place) } else { None }
    }

    /// How many calls a reply may have.
    pub fn most(&self) -> Calls {
        match self.choice {
            ToolChoice::None => Calls::None,
            ToolChoice::Named(_) => Calls::One,
            _ if !self.parallel => Calls::One,
            _ => Calls::Any,
        }
    }

    /// A name that the model wrote as the client knows it: split from its namespace where the client gave one beside.
    pub fn known<'a>(&self, written: &'a str) -> (&'a str, Option<&'a str>) {
        let split = written.split_once("::");
        let given = |namespace: &str, name: &str| {
            self.list.iter().any(|t| t["function"]["name"] == name && beside(t) == Some(namespace))
        };
        match split {
            Some((namespace, name)) if given(namespace, name) => (name, Some(namespace)),
            _ => (written, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn two() -> Value {
        json!([
            {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
            {"type": "function", "function": {"name": "g"}, "namespace": {"name": "ns"}},
        ])
    }

    fn parse(choice: Value, parallel: Value) -> Result<Tools, ApiError> {
        let body = json!({"tools": two(), "tool_choice": choice, "parallel_tool_calls": parallel});
        Tools::parse(&Fields::of(&body)?)
    }

    #[rstest]
    #[case(json!(null), json!(null), ToolChoice::Auto, Calls::Any, (2, false))]
    #[case(json!("auto"), json!(false), ToolChoice::Auto, Calls::One, (2, false))]
    #[case(json!("none"), json!(true), ToolChoice::None, Calls::None, (0, false))]
    #[case(json!("required"), json!(true), ToolChoice::Required, Calls::Any, (2, true))]
    #[case(json!({"type": "function", "function": {"name": "g"}}), json!(true), ToolChoice::Named(1), Calls::One, (2, true))]
    #[case(json!({"type": "function", "function": {"name": "ns::g"}}), json!(null), ToolChoice::Named(1), Calls::One, (2, true))]
    fn a_choice_says_which_calls_may_come(
        #[case] choice: Value,
        #[case] parallel: Value,
        #[case] expected: ToolChoice,
        #[case] most: Calls,
        #[case] (offered, demands): (usize, bool),
    ) {
        let tools = parse(choice, parallel).unwrap();
        assert_eq!((&tools.choice, tools.most()), (&expected, most));
        assert_eq!((tools.offered().len(), tools.demands()), (offered, demands));
    }

    #[rstest]
    #[case(json!({"tools": {}}), "tools: expected an array, found an object")]
    #[case(json!({"tools": [1]}), "tools[0]: expected an object, found a number")]
    #[case(json!({"tools": [{"type": "web_search"}]}), "tools[0].type: expected \"function\", found \"web_search\"")]
    #[case(json!({"tools": [{"function": {"name": "f", "parameters": []}}]}), "tools[0].function.parameters: expected a JSON schema of an object, found an array")]
    #[case(json!({"tool_choice": "required"}), "tool_choice: expected tools to call, found none")]
    #[case(json!({"tools": two(), "tool_choice": {"type": "function", "function": {"name": "h"}}}), "tool_choice.function.name: expected the name of one of the tools, found \"h\"")]
    #[case(json!({"parallel_tool_calls": 1}), "parallel_tool_calls: expected true or false, found a number")]
    fn a_malformed_field_is_named(#[case] body: Value, #[case] message: &str) {
        assert_eq!(Tools::parse(&Fields::of(&body).unwrap()).unwrap_err().message, message);
    }

    #[test]
    fn a_name_comes_back_as_the_client_gave_it() {
        let tools = parse(json!(null), json!(null)).unwrap();
        assert_eq!(tools.known("ns::g"), ("g", Some("ns")));
        assert_eq!(tools.known("other::g"), ("other::g", None));
        assert_eq!(tools.known("f"), ("f", None));
    }
}
