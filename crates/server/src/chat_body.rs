//! The body of another chat protocol in the words of chat completions.

use serde_json::{Map, Value, json};

use crate::chat::turn;
use crate::fields::{Fields, mismatch};
use crate::turn::{Prepared, Turn};
use crate::{ApiError, Defaults, Server};

/// Where the fields of a body come from.
#[derive(Debug, Default)]
struct Names(Vec<(String, String)>);

impl Names {
    /// The error with its field as the client wrote it: by the longest known beginning.
    fn rename(&self, error: ApiError) -> ApiError {
        let Some(field) = &error.param else { return error };
        let known = self.0.iter().filter_map(|(chat, own)| {
            let rest = field.strip_prefix(chat.as_str())?;
            (rest.is_empty() || rest.starts_with(['.', '['])).then_some((chat.len(), own, rest))
        });
        let Some((_, own, rest)) = known.max_by_key(|&(length, ..)| length) else { return error };
        let name = format!("{own}{rest}");
        let message = match error.message.strip_prefix(field.as_str()) {
            Some(problem) => format!("{name}{problem}"),
            None => error.message.clone(),
        };
        ApiError { message, param: Some(name), ..error }
    }
}

/// Fields of chat completions that give more than one reply or what the other protocols have no place for, with the
/// values that ask for nothing.
fn refuse_what_has_no_place(fields: &Fields<'_>) -> Result<(), ApiError> {
    fields.integer("n", 1..=1)?;
    fields.integer("top_logprobs", 0..=0)?;
    if fields.flag("logprobs")? == Some(true) {
        return Err(ApiError::field("logprobs", "not supported"));
    }
    Ok(())
}

/// A body of chat completions, made of another protocol's. What the protocol has no word for, such as `seed`, `draft`
/// and `guided_regex`, is read as in a chat.
#[derive(Debug)]
pub(crate) struct ChatBody {
    map: Map<String, Value>,
    messages: Vec<Value>,
    names: Names,
}

impl ChatBody {
    /// A body with all fields of `fields` but `own`, which the caller translates.
    ///
    /// # Errors
    /// A field that asks for several choices or for log-probabilities.
    pub(crate) fn new(fields: &Fields<'_>, own: &[&str]) -> Result<Self, ApiError> {
        refuse_what_has_no_place(fields)?;
        let kept = |name: &str| !own.contains(&name) && name != "top_logprobs" && name != "logprobs";
        let kept = fields.entries().filter(|(name, _)| kept(name.as_str()));
        let map = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
        Ok(Self { map, messages: Vec::new(), names: Names::default() })
    }

    /// Tells that the chat's field is one that the client calls `own`.
    pub(crate) fn name(&mut self, chat: impl Into<String>, own: impl Into<String>) {
        self.names.0.push((chat.into(), own.into()));
    }

    /// Sets a field of the chat, which the client calls `own`.
    pub(crate) fn set(&mut self, chat: &str, value: Value, own: &str) {
        self.map.insert(chat.to_owned(), value);
        self.name(chat, own);
    }

    /// Sets a field if the client gave `own`.
    pub(crate) fn copy(&mut self, fields: &Fields<'_>, own: &str, chat: &str) {
        if let Some(value) = fields.get(own) {
            self.set(chat, value.clone(), own);
        }
    }

    /// Adds a message, which the client calls `own`, and gives its name here.
    pub(crate) fn message(&mut self, message: Value, own: &str) -> String {
        let name = format!("messages[{}]", self.messages.len());
        self.name(&name, own);
        self.messages.push(message);
        name
    }

    /// Instructions that open the conversation, if the client gave them as `own`.
    pub(crate) fn instructions(&mut self, fields: &Fields<'_>, own: &str) {
        if let Some(text) = fields.get(own) {
            let name = self.message(json!({"role": "system", "content": text}), own);
            self.name(format!("{name}.content"), own);
        }
    }

    /// The last message.
    pub(crate) fn last(&mut self) -> Option<(String, &mut Value)> {
        let name = format!("messages[{}]", self.messages.len().checked_sub(1)?);
        self.messages.last_mut().map(|message| (name, message))
    }

    /// The body, ready to be read.
    pub(crate) fn finish(mut self) -> Ready {
        self.map.insert("messages".to_owned(), Value::Array(self.messages));
        Ready { body: Value::Object(self.map), names: self.names }
    }
}

/// A whole body in the words of chat completions.
#[derive(Debug)]
pub(crate) struct Ready {
    body: Value,
    names: Names,
}

impl Ready {
    /// The turn that it asks for.
    ///
    /// # Errors
    /// The first field that cannot be used, as the client wrote it.
    pub(crate) fn turn(&self, defaults: &Defaults) -> Result<Turn, ApiError> {
        let read = Fields::of(&self.body).and_then(|fields| turn(&fields, defaults));
        read.map_err(|error| self.names.rename(error))
    }

    /// The turn, ready for the lanes. Blocks for the time that this takes.
    ///
    /// # Errors
    /// The first field that cannot be used, as the client wrote it.
    pub(crate) fn prepare(&self, server: &Server) -> Result<(Turn, Prepared), ApiError> {
        let turn = self.turn(&server.defaults)?;
        let prepared = turn.prepare(server).map_err(|error| self.names.rename(error))?;
        Ok((turn, prepared))
    }

    /// Number of tokens of the prompt. Blocks for the time that encoding takes.
    ///
    /// # Errors
    /// The first field that cannot be used, as the client wrote it.
    pub(crate) fn count(&self, server: &Server) -> Result<usize, ApiError> {
        let chat = self.turn(&server.defaults)?.chat(&server.defaults);
        let prompt = server.dialect.encode_chat(&chat).map_err(ApiError::from);
        Ok(prompt.map_err(|error| self.names.rename(error))?.ids.len())
    }
}

/// An object of a list, with its name.
pub(crate) fn object<'a>(name: &str, value: &'a Value) -> Result<&'a Map<String, Value>, ApiError> {
    value.as_object().ok_or_else(|| mismatch(name, "an object", value))
}

/// A list of the body, which may be absent.
pub(crate) fn list<'a>(fields: &Fields<'a>, name: &str) -> Result<&'a [Value], ApiError> {
    match fields.get(name) {
        None => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(other) => Err(mismatch(name, "an array", other)),
    }
}

/// The word that says what an object is.
pub(crate) fn kind<'a>(name: &str, map: &'a Map<String, Value>) -> Result<Option<&'a str>, ApiError> {
    match map.get("type") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(kind)) => Ok(Some(kind)),
        Some(other) => Err(mismatch(&format!("{name}.type"), "a string", other)),
    }
}

/// The refusal of an object of another kind than those of `expected`.
pub(crate) fn other_kind(name: &str, expected: &str, found: Option<&str>) -> ApiError {
    let found = found.map_or("none".to_owned(), |kind| format!("{kind:?}"));
    ApiError::field(format!("{name}.type"), format!("expected {expected}, found {found}"))
}

/// A function's object of the fields that the model is told, by their names here and with the client.
pub(crate) fn function(map: &Map<String, Value>, fields: [(&str, &str); 3]) -> Value {
    let given = fields.iter().filter_map(|(chat, own)| Some(((*chat).to_owned(), map.get(*own)?.clone())));
    Value::Object(given.filter(|(_, value)| !value.is_null()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_field_of_the_client() {
        let mut names = Names::default();
        for (chat, own) in
            [("messages", "input"), ("messages[0]", "instructions"), ("messages[1]", "input[0]")]
        {
            names.0.push((chat.to_owned(), own.to_owned()));
        }
        let renamed = |field: &str| names.rename(ApiError::field(field, "missing"));
        for (field, own) in [
            ("messages", "input"),
            ("messages[0]", "instructions"),
            ("messages[1].content[2].text", "input[0].content[2].text"),
            ("messages[12]", "input[12]"),
            ("messages_too", "messages_too"),
        ] {
            let error = renamed(field);
            assert_eq!((error.param.as_deref(), error.message), (Some(own), format!("{own}: missing")));
        }
        let whole = ApiError::status(axum::http::StatusCode::OK, "messages");
        assert_eq!(names.rename(whole.clone()), whole);
    }
}
