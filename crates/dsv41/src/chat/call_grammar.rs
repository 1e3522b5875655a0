//! A grammar of tool calls: what a reply that must call a tool may be.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::tool::Tool;
use crate::reply::MostCalls;

/// Fields of a schema that references inside an argument's schema may lead to.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// What an argument's value may be.
struct Kinds {
    text: bool,
    json: bool,
}

/// The values of a schema of strings that lists them.
fn listed(schema: &Value) -> Option<Vec<&str>> {
    match (schema.get("enum"), schema.get("const")) {
        (Some(Value::Array(values)), _) => values.iter().map(Value::as_str).collect(),
        (None, Some(Value::String(value))) => Some(vec![value]),
        _ => None,
    }
}

/// Most references that lead on from each other.
const HOPS: usize = 8;
/// Most schemas that are looked at for the kind of one value.
const LOOKS: usize = 256;
/// The name among an argument's definitions of the whole schema that it comes from.
const WHOLE: &str = "tool parameters";

impl Kinds {
    const NONE: Self = Self { text: false, json: false };
    const ANY: Self = Self { text: true, json: true };

    /// The kinds of a schema inside `parameters`; any kind once `looks` are used up.
    fn of(schema: &Value, parameters: &Value, looks: &mut usize) -> Self {
        let Some(left) = looks.checked_sub(1) else { return Self::ANY };
        *looks = left;
        let of_type = |kind: &Value| Self { text: kind == "string", json: kind != "string" };
        let schema = meant(schema, parameters);
        let alternatives = ["anyOf", "oneOf"].iter().find_map(|field| schema.get(*field)?.as_array());
        match (schema.get("type"), alternatives) {
            (Some(Value::Array(types)), _) => types.iter().map(of_type).fold(Self::NONE, Self::or),
            (Some(one), _) => of_type(one),
            _ if listed(schema).is_some() => Self { text: true, json: false },
            (None, Some(list)) if !list.is_empty() => {
                let mut kinds = Self::NONE;
                for schema in list {
                    kinds = kinds.or(Self::of(schema, parameters, looks));
                    if kinds.text && kinds.json {
                        break;
                    }
                }
                kinds
            }
            _ => Self::ANY,
        }
    }

    fn or(self, other: Self) -> Self {
        Self { text: self.text || other.text, json: self.json || other.json }
    }
}

/// What a schema inside `parameters` refers to, or itself.
fn meant<'a>(schema: &'a Value, parameters: &'a Value) -> &'a Value {
    let next = |schema: &&'a Value| parameters.pointer(reference(schema)?);
    std::iter::successors(Some(schema), next).take(HOPS).last().unwrap_or(schema)
}

/// Where in the whole schema a schema refers to.
fn reference(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix('#')
}

/// Leads references into the whole schema, other than those into its definitions, to [`WHOLE`]; tells whether there
/// are any.
fn lead_to_whole(schema: &mut Value) -> bool {
    let definition = |to: &str| DEFINITIONS.iter().any(|field| to.starts_with(&format!("/{field}/")));
    let led = reference(schema).filter(|to| !definition(to)).map(|to| format!("#/$defs/{WHOLE}{to}"));
    let mut any = led.is_some();
    if let Some(led) = led {
        schema["$ref"] = led.into();
    }
    match schema {
        Value::Object(fields) => fields.values_mut().for_each(|inner| any |= lead_to_whole(inner)),
        Value::Array(items) => items.iter_mut().for_each(|inner| any |= lead_to_whole(inner)),
        _ => {}
    }
    any
}

/// The schema of an argument with all that it refers to in its tool's `parameters`.
fn whole(schema: &Value, parameters: &Value) -> Value {
    let mut schema = schema.clone();
    for field in DEFINITIONS {
        if let (Value::Object(fields), Some(all)) = (&mut schema, parameters.get(field)) {
            fields.entry(field).or_insert_with(|| all.clone());
        }
    }
    if lead_to_whole(&mut schema) {
        let mut parameters = parameters.clone();
        lead_to_whole(&mut parameters);
        if !schema["$defs"].is_object() {
            schema["$defs"] = Value::Object(Map::new());
        }
        schema["$defs"][WHOLE] = parameters;
    }
    schema
}

/// `text` as a string of a Lark grammar.
fn quote(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// A grammar in Lark's form as it is written.
struct Writer<'a> {
    lark: String,
    /// The token of the mark in every tag, in Lark's form.
    mark: String,
    json: &'a dyn Fn(&Value) -> Value,
}

impl Writer<'_> {
    fn rule(&mut self, name: &str, body: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.lark, "{name}: {body}");
    }

    /// A tag that opens, or the end of a value and the tag that closes it.
    fn tag(&self, bracket: &str, words: &str) -> String {
        format!("{} {} {}", quote(bracket), self.mark, quote(words))
    }

    /// The rule `name` of an argument.
    fn argument(&mut self, name: &str, key: &str, schema: &Value, parameters: &Value) {
        let Kinds { text, json } = Kinds::of(schema, parameters, &mut { LOOKS });
        let end = format!("{} {}", self.mark, quote(" parameter>\n"));
        let open = |kind: &str| self.tag("<", &format!(" parameter name=\"{key}\" string=\"{kind}\">"));
        let mut forms = Vec::new();
        if text {
            let value = match listed(meant(schema, parameters)) {
                Some(values) => {
                    let values: Vec<String> = values.into_iter().map(quote).collect();
                    format!("({}) \"</\"", values.join(" | "))
                }
                None => "any_text".to_owned(),
            };
            forms.push(format!("{} {value} {end}", open("true")));
        }
        if json {
            let schema = (self.json)(&whole(schema, parameters));
            forms.push(format!("{} %json {schema} \"</\" {end}", open("false")));
        }
        self.rule(name, &forms.join(" | "));
    }

    fn tool(&mut self, name: &str, tool: &Tool) {
        let parameters = tool.schema.get("parameters").unwrap_or(&Value::Null);
        let none = Map::new();
        let properties = parameters.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let required = parameters.get("required").and_then(Value::as_array);
        let required: Vec<&str> = required.into_iter().flatten().filter_map(Value::as_str).collect();
        let mut body = self.tag("<", &format!(" invoke name=\"{}\">\n", tool.name));
        for (i, (key, schema)) in properties.iter().enumerate() {
            let argument = format!("{name}_{i}");
            self.argument(&argument, key, schema, parameters);
            let optional = if required.contains(&key.as_str()) { "" } else { "?" };
            let _ = write!(body, " {argument}{optional}");
        }
        let closed = parameters.get("additionalProperties") == Some(&Value::Bool(false));
        if properties.is_empty() && !closed {
            body += " any_argument*";
        }
        let _ = write!(body, " {}", self.tag("</", " invoke>\n"));
        self.rule(name, &body);
    }
}

/// The calls of `tools` that a reply consists of, in the form of a Lark grammar: at least one, and as many as `most`
/// allows (where it allows none, one).
///
/// Arguments come in the order of their schema, required ones always; a tool without properties takes any. `dsml` is
/// the token of the mark in every tag; `json` adds what the grammar's library is told about a schema.
pub fn call_grammar(tools: &[&Tool], dsml: u32, most: MostCalls, json: &dyn Fn(&Value) -> Value) -> String {
    let mut writer = Writer { lark: String::new(), mark: format!("<[{dsml}]>"), json };
    let names: Vec<String> = (0..tools.len()).map(|i| format!("t{i}")).collect();
    let repeated = if most == MostCalls::Any { "+" } else { "" };
    let (open, close) = (writer.tag("\n\n<", " calls>\n"), writer.tag("</", " calls>"));
    writer.rule("start", &format!("{open} ({}){repeated} {close}", names.join(" | ")));
    for (name, tool) in names.iter().zip(tools) {
        writer.tool(name, tool);
    }
    writer.rule("any_text", "/(?s:.)*<\\//");
    let key = writer.tag("<", " parameter name=\"");
    let any = (writer.json)(&Value::Bool(true));
    let (mark, end) = (writer.mark.clone(), quote(" parameter>\n"));
    let body = format!(
        "{key} /[^\"\\n]+/ (\"\\\" string=\\\"true\\\">\" any_text | \"\\\" string=\\\"false\\\">\" %json {any} \"</\") {mark} {end}"
    );
    writer.rule("any_argument", &body);
    writer.lark
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"type": "integer"}), (false, true))]
    #[case(json!({"type": ["string", "null"]}), (true, true))]
    #[case(json!({"enum": ["a"]}), (true, false))]
    #[case(json!({}), (true, true))]
    #[case(json!({"$ref": "#/$defs/word"}), (true, false))]
    #[case(json!({"$ref": "#/$defs/alias"}), (true, false))]
    #[case(json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}), (false, true))]
    #[case(json!({"oneOf": [{"type": "integer"}, {"$ref": "#/$defs/word"}]}), (true, true))]
    #[case(json!({"$ref": "#/$defs/missing"}), (true, true))]
    #[case(json!({"$ref": "#/$defs/itself"}), (true, true))]
    fn the_kind_of_a_value_is_that_of_what_its_schema_means(
        #[case] schema: Value,
        #[case] kinds: (bool, bool),
    ) {
        let parameters = json!({"$defs": {
            "word": {"type": "string"}, "alias": {"$ref": "#/$defs/word"}, "itself": {"$ref": "#/$defs/itself"}
        }});
        let found = Kinds::of(&schema, &parameters, &mut { LOOKS });
        assert_eq!((found.text, found.json), kinds);
    }

    #[test]
    fn alternatives_that_multiply_end() {
        let level = |i: usize| json!({"anyOf": vec![json!({"$ref": format!("#/$defs/{}", i + 1)}); 100]});
        let mut levels: Map<String, Value> = (0..8).map(|i| (i.to_string(), level(i))).collect();
        levels.insert("8".into(), json!({"type": "integer"}));
        let found = Kinds::of(&level(0), &json!({"$defs": levels}), &mut { LOOKS });
        assert!(found.text && found.json);
    }

    #[test]
    fn references_lead_to_definitions_and_to_the_whole() {
        let parameters = json!({"properties": {"a": {"$ref": "#"}}, "$defs": {"d": {"type": "null"}}});
        let schema = json!({"items": {"$ref": "#/properties/a"}, "not": {"$ref": "#/$defs/d"}});
        let to = "#/$defs/tool parameters";
        let expected = json!({
            "items": {"$ref": format!("{to}/properties/a")}, "not": {"$ref": "#/$defs/d"},
            "$defs": {"d": {"type": "null"}, "tool parameters": {
                "properties": {"a": {"$ref": to}}, "$defs": {"d": {"type": "null"}}
            }}
        });
        assert_eq!(whole(&schema, &parameters), expected);
        assert_eq!(whole(&json!({"type": "null"}), &json!({})), json!({"type": "null"}));
    }
}
