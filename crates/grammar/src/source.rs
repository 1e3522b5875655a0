//! What a reply must be.

use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use serde_json::{Map, Value, json};

use crate::CompileError;
use crate::ebnf;
use crate::lark::quote;

/// White space between the parts of a JSON text: at most a few spaces or one line break with its indentation.
const WHITE_SPACE: &str = r"[ ]{1,4}|\r?\n[ \t]{0,64}";

/// What a reply must be.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// A JSON text that a JSON schema describes.
    JsonSchema(Value),
    /// A text that matches a regular expression as a whole.
    Regex(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// A text of a grammar in Lark's form, or in EBNF with `::=` and a rule `root`.
    Grammar(String),
    /// A text of any of these.
    Any(Vec<Source>),
}

/// `schema` with the options for JSON inside it, as the `%json` of a Lark grammar takes it.
pub fn json_options(schema: &Value) -> Value {
    let mut schema = match schema {
        Value::Object(fields) => fields.clone(),
        // A schema may be `true`; any other value is not one, and the library says so.
        Value::Bool(true) => Map::new(),
        other => return other.clone(),
    };
    // Options that came with the schema would lift the bound on white space.
    schema.insert("x-guidance".to_owned(), json!({"whitespace_pattern": WHITE_SPACE, "lenient": true}));
    Value::Object(schema)
}

fn choice(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quote(text)).collect();
    format!("start: {}", texts.join(" | "))
}

impl Source {
    /// The size in bytes of what is compiled.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::JsonSchema(schema) => schema.to_string().len(),
            Self::Regex(text) | Self::Grammar(text) => text.len(),
            Self::Choice(texts) => texts.iter().map(String::len).sum(),
            Self::Any(sources) => sources.iter().map(Self::size).sum(),
        }
    }

    pub(crate) fn grammar(&self) -> Result<TopLevelGrammar, CompileError> {
        let grammars = match self {
            Self::Any(sources) => {
                let names: Vec<String> = (0..sources.len()).map(|i| format!("s{i}")).collect();
                let start = names.iter().map(|name| format!("@{name}")).collect::<Vec<_>>().join(" | ");
                let mut grammars = vec![GrammarWithLexer::from_lark(format!("start: {start}"))];
                for (source, name) in sources.iter().zip(names) {
                    grammars.push(GrammarWithLexer { name: Some(name), ..source.single()? });
                }
                grammars
            }
            other => vec![other.single()?],
        };
        Ok(TopLevelGrammar { grammars, max_tokens: None })
    }

    fn single(&self) -> Result<GrammarWithLexer, CompileError> {
        Ok(match self {
            Self::JsonSchema(schema) => GrammarWithLexer::from_json_schema(json_options(schema)),
            Self::Regex(pattern) => GrammarWithLexer::from_regex(pattern),
            Self::Choice(texts) if texts.is_empty() => {
                return Err(CompileError::Invalid("no text to choose from".to_owned()));
            }
            Self::Choice(texts) => GrammarWithLexer::from_lark(choice(texts)),
            Self::Grammar(text) if ebnf::is_ebnf(text) => {
                let lark = ebnf::to_lark(text).map_err(|e| CompileError::Invalid(e.to_string()))?;
                GrammarWithLexer::from_lark(lark)
            }
            Self::Grammar(text) => GrammarWithLexer::from_lark(text.clone()),
            Self::Any(_) => return Err(CompileError::Invalid("alternatives inside alternatives".to_owned())),
        })
    }
}
