//! What the answer must be: `response_format`, the `guided_` fields and `structured_outputs`.

use serde_json::{Value, json};

use crate::fields::{Fields, inside, mismatch};
use crate::{Answer, ApiError, Form, Guide};

/// A form of the answer, with the field that asks for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The field.
    pub field: String,
    /// The form.
    pub answer: Answer,
    /// A schema that the model is told.
    pub told: Option<Value>,
}

fn any_object() -> Answer {
    Answer::JsonSchema(json!({"type": "object"}))
}

/// A schema as an object or as its JSON text.
fn schema(field: &str, value: &Value) -> Result<Answer, ApiError> {
    let parsed = match value {
        Value::String(text) => serde_json::from_str(text)
            .map_err(|e| ApiError::field(field, format!("expected a JSON schema: {e}")))?,
        other => other.clone(),
    };
    if parsed.is_object() || parsed.is_boolean() {
        Ok(Answer::JsonSchema(parsed))
    } else {
        Err(mismatch(field, "a JSON schema", value))
    }
}

fn text(field: &str, value: &Value) -> Result<String, ApiError> {
    match value.as_str() {
        Some("") => Err(ApiError::field(field, "expected text that is not empty")),
        Some(text) => Ok(text.to_owned()),
        None => Err(mismatch(field, "a string", value)),
    }
}

fn choice(field: &str, value: &Value) -> Result<Answer, ApiError> {
    let expected = "an array of strings";
    let Value::Array(items) = value else { return Err(mismatch(field, expected, value)) };
    let texts =
        items.iter().map(|v| v.as_str().map(str::to_owned).ok_or_else(|| mismatch(field, expected, v)));
    let texts: Vec<String> = texts.collect::<Result<_, _>>()?;
    if texts.is_empty() {
        return Err(ApiError::field(field, "expected at least one string"));
    }
    Ok(Answer::Choice(texts))
}

/// The answer that one of the named fields asks for.
fn named(name: &str, field: &str, value: &Value) -> Result<Option<Answer>, ApiError> {
    Ok(Some(match name {
        "json" => schema(field, value)?,
        "regex" => Answer::Regex(text(field, value)?),
        "choice" => choice(field, value)?,
        "grammar" => Answer::Grammar(text(field, value)?),
        "json_object" => match value {
            Value::Bool(true) => any_object(),
            Value::Bool(false) => return Ok(None),
            other => return Err(mismatch(field, "true or false", other)),
        },
        "structural_tag" => return Err(ApiError::field(field, "not supported")),
        _ => return Ok(None),
    }))
}

fn response_format(fields: &Fields<'_>) -> Result<Option<Asked>, ApiError> {
    let Some(format) = fields.object("response_format")? else { return Ok(None) };
    let asked = |field: &str, answer, told| Some(Asked { field: field.to_owned(), answer, told });
    match format.text("type").map_err(|e| inside("response_format", e))? {
        None => Err(ApiError::field("response_format.type", "missing")),
        Some("text") => Ok(None),
        Some("json_object") => Ok(asked("response_format", any_object(), None)),
        Some("json_schema") => {
            let field = "response_format.json_schema.schema";
            let outer = format.object("json_schema").map_err(|e| inside("response_format", e))?;
            let found = outer.and_then(|o| o.get("schema"));
            let found = found.ok_or_else(|| ApiError::field(field, "missing"))?;
            if !found.is_object() {
                return Err(mismatch(field, "an object", found));
            }
            Ok(asked(field, Answer::JsonSchema(found.clone()), Some(found.clone())))
        }
        Some(kind) => Err(ApiError::field(
            "response_format.type",
            format!("expected \"text\", \"json_object\" or \"json_schema\", found {kind:?}"),
        )),
    }
}

impl Asked {
    /// Reads the fields of a body; at most one may ask for a form.
    pub fn parse(fields: &Fields<'_>) -> Result<Option<Self>, ApiError> {
        let mut asked: Vec<Self> = response_format(fields)?.into_iter().collect();
        for name in ["json", "regex", "choice", "grammar"] {
            let field = format!("guided_{name}");
            if let Some(value) = fields.get(&field)
                && let Some(answer) = named(name, &field, value)?
            {
                asked.push(Self { field, answer, told: None });
            }
        }
        for (name, value) in fields.object("structured_outputs")?.iter().flat_map(Fields::entries) {
            let field = format!("structured_outputs.{name}");
            if !value.is_null()
                && let Some(answer) = named(name, &field, value)?
            {
                asked.push(Self { field, answer, told: None });
            }
        }
        if let [first, second, ..] = &asked[..] {
            let problem = format!("expected one form of the answer, found {} too", first.field);
            return Err(ApiError::field(&second.field, problem));
        }
        Ok(asked.pop())
    }

    /// The guide of a raw completion.
    pub fn guide(self) -> Guide {
        Guide { form: Form::Raw, answer: Some((self.field, self.answer)), ..Guide::default() }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn parse(body: Value) -> Result<Option<Asked>, ApiError> {
        Asked::parse(&Fields::of(&body).unwrap())
    }

    #[rstest]
    #[case(json!({"response_format": {"type": "json_object"}}), "response_format", any_object())]
    #[case(json!({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "null"}}}}), "response_format.json_schema.schema", Answer::JsonSchema(json!({"type": "null"})))]
    #[case(json!({"guided_json": "{\"type\": \"null\"}"}), "guided_json", Answer::JsonSchema(json!({"type": "null"})))]
    #[case(json!({"guided_regex": "a+"}), "guided_regex", Answer::Regex("a+".into()))]
    #[case(json!({"guided_choice": ["a", "b"]}), "guided_choice", Answer::Choice(vec!["a".into(), "b".into()]))]
    #[case(json!({"guided_grammar": "start: \"a\""}), "guided_grammar", Answer::Grammar("start: \"a\"".into()))]
    #[case(json!({"structured_outputs": {"regex": "a", "json": null}}), "structured_outputs.regex", Answer::Regex("a".into()))]
    #[case(json!({"structured_outputs": {"json_object": true}}), "structured_outputs.json_object", any_object())]
    fn a_form_is_read_with_its_field(#[case] body: Value, #[case] field: &str, #[case] answer: Answer) {
        let asked = parse(body).unwrap().unwrap();
        assert_eq!((asked.field.as_str(), asked.answer), (field, answer));
    }

    #[rstest]
    #[case(json!({}))]
    #[case(json!({"response_format": {"type": "text"}, "guided_regex": null, "structured_outputs": {}}))]
    #[case(json!({"structured_outputs": {"json_object": false, "whitespace_pattern": " "}}))]
    fn no_form_is_asked_for(#[case] body: Value) {
        assert_eq!(parse(body).unwrap(), None);
    }

    #[rstest]
    #[case(json!({"response_format": {"json_schema": {"schema": {}}}}), "response_format.type: missing")]
    #[case(json!({"response_format": {"type": "x"}}), "response_format.type: expected \"text\", \"json_object\" or \"json_schema\", found \"x\"")]
    #[case(json!({"response_format": {"type": 1}}), "response_format.type: expected a string, found a number")]
    #[case(json!({"response_format": {"type": "json_schema"}}), "response_format.json_schema.schema: missing")]
    #[case(json!({"response_format": {"type": "json_schema", "json_schema": 1}}), "response_format.json_schema: expected an object, found a number")]
    #[case(json!({"response_format": {"type": "json_schema", "json_schema": {"schema": []}}}), "response_format.json_schema.schema: expected an object, found an array")]
    #[case(json!({"guided_json": 1}), "guided_json: expected a JSON schema, found a number")]
    #[case(json!({"guided_choice": []}), "guided_choice: expected at least one string")]
    #[case(json!({"guided_choice": [1]}), "guided_choice: expected an array of strings, found a number")]
    #[case(json!({"guided_regex": ""}), "guided_regex: expected text that is not empty")]
    #[case(json!({"guided_regex": "a", "guided_choice": ["a"]}), "guided_choice: expected one form of the answer, found guided_regex too")]
    #[case(json!({"structured_outputs": {"structural_tag": "x"}}), "structured_outputs.structural_tag: not supported")]
    fn a_malformed_field_is_named(#[case] body: Value, #[case] message: &str) {
        assert_eq!(parse(body).unwrap_err().message, message);
    }
}
