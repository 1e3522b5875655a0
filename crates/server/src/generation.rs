//! The parameters that all generating routes share.

use serde_json::Value;
use tokenfare_lanes::{
    Grammar, Priority, Report, Request, Sampling, ThinkingBudget, Validated, sampling::seed_of,
};

use crate::fields::{Fields, mismatch};
use crate::{ApiError, Calls, Guide, Prompt, ReplyText, Server};

/// What a request gets where it says nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Defaults {
    /// Temperature.
    pub temperature: f64,
    /// Nucleus mass.
    pub top_p: f64,
    /// Tokens kept; 0 keeps all.
    pub top_k: usize,
    /// Least relative probability.
    pub min_p: f64,
    /// Most tokens of a chat reply; `None`: the room left in the context.
    pub max_tokens: Option<usize>,
    /// Whether chat replies reason first.
    pub thinking: bool,
    /// Reasoning effort.
    pub effort: Option<Value>,
    /// Salt of prompt-derived seeds.
    pub seed_salt: String,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            min_p: 0.0,
            max_tokens: None,
            thinking: false,
            effort: None,
            seed_salt: "0".to_owned(),
        }
    }
}

/// Most choices of one request.
const MOST_CHOICES: i64 = 16;
/// Most stop strings of one request.
const MOST_STOPS: usize = 16;

/// Parsed parameters of a generating request, whatever protocol it came in.
#[derive(Debug, Clone, PartialEq)]
pub struct Generation {
    /// How tokens are drawn; the seed is apart.
    pub sampling: Sampling,
    /// Key of the draws; without one it follows from the prompt.
    pub seed: Option<u64>,
    /// Number of choices.
    pub n: usize,
    /// Most tokens, if given.
    pub max_tokens: Option<usize>,
    /// Strings that end the reply.
    pub stop: Vec<String>,
    /// Tokens that end the reply beside the family's own.
    pub stop_ids: Vec<u32>,
    /// Whether rounds may verify drafts.
    pub draft: bool,
    /// Whether the family's own end tokens are run over.
    pub ignore_eos: bool,
    /// Queue class.
    pub priority: Priority,
    /// Most tokens of the reasoning.
    pub thinking_budget: Option<usize>,
    /// Whether the reply is streamed.
    pub stream: bool,
    /// Whether a stream ends with a usage event.
    pub include_usage: bool,
}

/// What a prompt's replies are beside their sampling.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// The prompt.
    pub prompt: &'a Prompt,
    /// Most tokens of a reply.
    pub max_new: usize,
    /// Values to report.
    pub report: Report,
    /// How many tools a reply may call.
    pub calls: Calls,
    /// What a reply must be.
    pub guide: Option<&'a Guide>,
}

fn token_id(field: &str, value: &Value) -> Result<u32, ApiError> {
    value
        .as_u64()
        .and_then(|id| u32::try_from(id).ok())
        .ok_or_else(|| ApiError::field(field, format!("expected a token id, found {value}")))
}

fn stop_strings(fields: &Fields<'_>) -> Result<Vec<String>, ApiError> {
    let expected = "a string or an array of strings";
    let list = match fields.get("stop") {
        None => Vec::new(),
        Some(Value::String(s)) => vec![s.clone()],
        Some(Value::Array(items)) => items
            .iter()
            .map(|v| v.as_str().map(str::to_owned).ok_or_else(|| mismatch("stop", expected, v)))
            .collect::<Result<_, _>>()?,
        Some(other) => return Err(mismatch("stop", expected, other)),
    };
    if list.len() > MOST_STOPS {
        return Err(ApiError::field(
            "stop",
            format!("expected at most {MOST_STOPS} strings, found {}", list.len()),
        ));
    }
    if list.iter().any(String::is_empty) {
        return Err(ApiError::field("stop", "expected strings that are not empty"));
    }
    Ok(list)
}

/// Fields of this and related APIs that change a reply and are not served: refused rather than ignored.
const NOT_SERVED: [&str; 9] = [
    "functions",
    "function_call",
    "suffix",
    "bad_words",
    "allowed_token_ids",
    "logits_processors",
    "use_beam_search",
    "continue_final_message",
    "truncate_prompt_tokens",
];
/// Fields that are not served, with the one value that changes nothing.
const NEUTRAL: [(&str, f64); 4] =
    [("frequency_penalty", 0.0), ("presence_penalty", 0.0), ("repetition_penalty", 1.0), ("min_tokens", 0.0)];

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Bool(on) => !on,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

fn refuse_what_is_not_served(fields: &Fields<'_>) -> Result<(), ApiError> {
    if let Some(name) = NOT_SERVED.into_iter().find(|n| fields.get(n).is_some_and(|v| !is_empty(v))) {
        return Err(ApiError::field(name, "not supported"));
    }
    for (name, neutral) in NEUTRAL {
        let found = fields.number(name, f64::MIN..=f64::MAX, "a number")?.unwrap_or(neutral);
        if found != neutral {
            return Err(ApiError::field(name, format!("not supported, expected {neutral}, found {found}")));
        }
    }
    Ok(())
}

fn logit_bias(fields: &Fields<'_>) -> Result<Vec<(u32, f32)>, ApiError> {
    let Some(map) = fields.object("logit_bias")? else { return Ok(Vec::new()) };
    map.entries()
        .map(|(key, value)| {
            // One spelling for each id, so that no token is named twice.
            let id = key.parse::<u32>().ok().filter(|id| id.to_string() == *key).ok_or_else(|| {
                ApiError::field("logit_bias", format!("expected token ids as keys, found {key:?}"))
            })?;
            let bias = value.as_f64().ok_or_else(|| mismatch("logit_bias", "numbers as values", value))?;
            Ok((id, bias as f32))
        })
        .collect()
}

impl Generation {
    /// Reads the shared fields of a body.
    pub fn parse(fields: &Fields<'_>, defaults: &Defaults) -> Result<Self, ApiError> {
        refuse_what_is_not_served(fields)?;
        let temperature = fields.number("temperature", 0.0..=100.0, "a number from 0 to 100")?;
        let top_p = fields.number("top_p", f64::MIN_POSITIVE..=1.0, "a number above 0, at most 1")?;
        let min_p = fields.number("min_p", 0.0..=1.0, "a number from 0 to 1")?;
        let top_k = fields.integer("top_k", i64::from(i32::MIN)..=i64::from(i32::MAX))?;
        let tokens = |name| fields.integer(name, 0..=i64::from(i32::MAX));
        let (chat_max, plain_max) = (tokens("max_completion_tokens")?, tokens("max_tokens")?);
        let stop_ids = match fields.get("stop_token_ids") {
            None => Vec::new(),
            Some(Value::Array(items)) => {
                items.iter().map(|v| token_id("stop_token_ids", v)).collect::<Result<_, _>>()?
            }
            Some(other) => return Err(mismatch("stop_token_ids", "an array of token ids", other)),
        };
        let priority = fields.integer("priority", i64::from(i32::MIN)..=i64::from(i32::MAX))?;
        let seed = match fields.get("seed") {
            None => None,
            Some(v) => Some(match (v.as_u64(), v.as_i64()) {
                (Some(u), _) => u,
                (None, Some(i)) => i as u64,
                _ => return Err(mismatch("seed", "a whole number of 64 bits", v)),
            }),
        };
        Ok(Self {
            sampling: Sampling {
                temperature: temperature.unwrap_or(defaults.temperature),
                top_p: top_p.unwrap_or(defaults.top_p),
                top_k: top_k.map_or(defaults.top_k, |k| usize::try_from(k).unwrap_or(0)),
                min_p: min_p.unwrap_or(defaults.min_p),
                seed: 0,
                logit_bias: logit_bias(fields)?,
            },
            seed,
            n: fields.integer("n", 1..=MOST_CHOICES)?.unwrap_or(1) as usize,
            max_tokens: chat_max.or(plain_max).map(|n| n as usize),
            stop: stop_strings(fields)?,
            stop_ids,
            draft: fields.flag("draft")?.unwrap_or(true),
            ignore_eos: fields.flag("ignore_eos")?.unwrap_or(false),
            priority: if priority.unwrap_or(0) > 0 { Priority::Background } else { Priority::Foreground },
            thinking_budget: fields.integer("thinking_budget", 0..=i64::from(i32::MAX))?.map(|n| n as usize),
            stream: fields.flag("stream")?.unwrap_or(false),
            include_usage: fields.flag_in("stream_options", "include_usage")?.unwrap_or(false),
        })
    }

    /// One validated request a choice; choice `i` draws with seed + `i`. Blocks while a grammar is compiled.
    pub fn requests(&self, wanted: &Wanted<'_>, server: &Server) -> Result<Vec<Validated>, ApiError> {
        let (dialect, info, prompt) = (&*server.dialect, server.lanes.info(), wanted.prompt);
        let seed = self.seed.unwrap_or_else(|| seed_of(&prompt.ids, &server.defaults.seed_salt));
        let request = |text| Request::new(prompt.ids.clone(), wanted.max_new, text);
        // A prompt that does not fit is told before the time for a grammar is spent.
        request(Box::new(tokenfare_lanes::NoText)).validate(info)?;
        let grammar = wanted.guide.map(|guide| dialect.grammar(guide)).transpose()?;
        (0..self.n)
            .map(|choice| {
                let mut request = request(dialect.reply(ReplyText {
                    form: prompt.form,
                    stop: self.stop.clone(),
                    calls: wanted.calls,
                    grammar: grammar.as_deref().map(Grammar::fork),
                })?);
                request.sampling =
                    Sampling { seed: seed.wrapping_add(choice as u64), ..self.sampling.clone() };
                request.stop_tokens = self.stop_ids.clone();
                if !self.ignore_eos {
                    request.stop_tokens.extend(dialect.stop_tokens());
                }
                request.draft = self.draft;
                request.priority = self.priority;
                request.report = wanted.report;
                request.marks = prompt.marks.clone();
                request.thinking = match (self.thinking_budget, dialect.reasoning_close()) {
                    (Some(tokens), Some(close)) if prompt.form.reasons() => {
                        Some(ThinkingBudget { tokens, close })
                    }
                    _ => None,
                };
                Ok(request.validate(info)?)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn parse(body: Value) -> Result<Generation, ApiError> {
        Generation::parse(&Fields::of(&body)?, &Defaults::default())
    }

    #[rstest]
    #[case(json!({"temperature": true}), "temperature: expected a number from 0 to 100, found a boolean")]
    #[case(json!({"temperature": -1}), "temperature: expected a number from 0 to 100, found -1")]
    #[case(json!({"top_p": 0}), "top_p: expected a number above 0, at most 1, found 0")]
    #[case(json!({"stop": [1]}), "stop: expected a string or an array of strings, found a number")]
    #[case(json!({"stop": ""}), "stop: expected strings that are not empty")]
    #[case(json!({"seed": 1.5}), "seed: expected a whole number of 64 bits, found a number")]
    #[case(json!({"logit_bias": {"x": 1}}), "logit_bias: expected token ids as keys, found \"x\"")]
    #[case(json!({"logit_bias": {"5": 1, "05": 2}}), "logit_bias: expected token ids as keys, found \"05\"")]
    #[case(json!({"functions": [{}]}), "functions: not supported")]
    #[case(json!({"bad_words": ["a"]}), "bad_words: not supported")]
    #[case(json!({"frequency_penalty": 0.5}), "frequency_penalty: not supported, expected 0, found 0.5")]
    #[case(json!({"repetition_penalty": 0}), "repetition_penalty: not supported, expected 1, found 0")]
    #[case(json!({"stream_options": 3}), "stream_options: expected an object, found a number")]
    #[case(json!({"stream_options": {"include_usage": 1}}), "stream_options.include_usage: expected true or false, found a number")]
    #[case(json!({"n": 17}), "n: expected a whole number from 1 to 16, found 17")]
    #[case(json!({"stop_token_ids": [-1]}), "stop_token_ids: expected a token id, found -1")]
    fn a_malformed_field_is_named(#[case] body: Value, #[case] message: &str) {
        assert_eq!(parse(body).unwrap_err().message, message);
    }

    #[test]
    fn absent_fields_take_the_defaults_and_unknown_ones_are_ignored() {
        let g =
            parse(json!({"top_k": -1, "whatever": {}, "seed": -1, "functions": [], "presence_penalty": 0}))
                .unwrap();
        assert_eq!(g.sampling, Sampling { temperature: 1.0, ..Sampling::greedy() });
        assert_eq!((g.n, g.max_tokens, g.draft, g.seed), (1, None, true, Some(u64::MAX)));
    }
}
