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

fn kinds(schema: &Value) -> Kinds {
    let of_types = |types: &mut dyn Iterator<Item = &Value>| {
        types.fold(Kinds { text: false, json: false }, |kinds, kind| match kind.as_str() {
            Some("string") => Kinds { text: true, ..kinds },
            _ => Kinds { json: true, ..kinds },
        })
    };
    match schema.get("type") {
        Some(Value::Array(types)) => of_types(&mut types.iter()),
        Some(one) => of_types(&mut std::iter::once(one)),
        None if listed(schema).is_some() => Kinds { text: true, json: false },
        None => Kinds { text: true, json: true },
    }
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
    fn argument(&mut self, name: &str, key: &str, schema: &Value) {
        let Kinds { text, json } = kinds(schema);
        let end = format!("{} {}", self.mark, quote(" parameter>\n"));
        let open = |kind: &str| self.tag("<", &format!(" parameter name=\"{key}\" string=\"{kind}\">"));
        let mut forms = Vec::new();
        if text {
            let value = match listed(schema) {
                Some(values) => {
                    let values: Vec<String> = values.into_iter().map(quote).collect();
                    format!("({}) \"</\"", values.join(" | "))
                }
                None => "any_text".to_owned(),
            };
            forms.push(format!("{} {value} {end}", open("true")));
        }
        if json {
            let schema = (self.json)(schema);
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
            let mut schema = schema.clone();
            for field in DEFINITIONS {
                if let (Value::Object(fields), Some(all)) = (&mut schema, parameters.get(field)) {
                    fields.entry(field).or_insert_with(|| all.clone());
                }
            }
            self.argument(&argument, key, &schema);
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
