//! The DeepSeek-V4.1 family as the API's dialect.

use std::str::FromStr;
use std::sync::Arc;

use serde_json::Value;
use tokenfare_dsv41::chat::{ChatOptions, Conversation, Effort, Ending, Role, Thinking};
use tokenfare_dsv41::reply::{self, StopStrings};
use tokenfare_dsv41::tokenizer::{Control, Special, TextError, Tokenizer};
use tokenfare_lanes::Text;
use tokenfare_server::{Chat, Dialect, DialectError, Form, Prompt, ReplyText};

/// Prompts and replies by a checkpoint's tokenizer.
pub struct Dsv41Dialect {
    tokenizer: Arc<Tokenizer>,
    eos: u32,
}

impl Dsv41Dialect {
    /// The dialect of a tokenizer whose model ends its turns with `eos`.
    pub fn new(tokenizer: Arc<Tokenizer>, eos: u32) -> Self {
        Self { tokenizer, eos }
    }
}

/// A reasoning effort: a level of this or another family, or a number.
pub fn effort(value: &Value) -> Result<Effort, DialectError> {
    let text = match value {
        // Levels that clients of other families send lie between and below this family's own.
        Value::String(word) if word == "minimal" => "25".to_owned(),
        Value::String(word) if word == "medium" => "62".to_owned(),
        Value::String(word) => word.clone(),
        other => other.to_string(),
    };
    Effort::from_str(&text)
        .map_err(|e| DialectError { field: "reasoning_effort".to_owned(), message: e.to_string() })
}

fn text_error(error: TextError) -> DialectError {
    DialectError { field: "prompt".to_owned(), message: error.to_string() }
}

/// Refuses a conversation that leaves no place for a reply: the format opens one after a user's turn only.
fn check_last(conversation: &Conversation, messages: usize) -> Result<(), DialectError> {
    let turns = conversation.turns();
    let found = match turns.last() {
        Some(turn) if turn.role == Role::Assistant && turn.ending == Ending::Closed => "an assistant message",
        Some(turn) if turn.role == Role::System && turns.len() == 1 => "a system message alone",
        _ => return Ok(()),
    };
    let message = format!("expected a user or tool message at the end, found {found}");
    Err(DialectError { field: format!("messages[{}].role", messages.saturating_sub(1)), message })
}

impl Dialect for Dsv41Dialect {
    fn encode_chat(&self, chat: &Chat) -> Result<Prompt, DialectError> {
        let thinking = match (chat.thinking, &chat.effort) {
            (false, None) => Thinking::Off,
            (on, given) => {
                let effort = given.as_ref().map(effort).transpose()?.unwrap_or_default();
                if on { Thinking::On(effort) } else { Thinking::Off }
            }
        };
        let messages = Value::Array(chat.messages.clone());
        let conversation = Conversation::from_json(&messages)
            .map_err(|e| DialectError { field: e.path, message: e.problem.to_string() })?;
        check_last(&conversation, chat.messages.len())?;
        let prompt = conversation.encode(&ChatOptions { thinking, ..ChatOptions::default() });
        let ids = prompt.ids(&self.tokenizer).map_err(text_error)?;
        // A system message ends where the first user turn opens: later conversations may share it.
        let user = self.tokenizer.control(Control::User);
        let marks = ids.iter().position(|&id| Some(id) == user).into_iter().collect();
        Ok(Prompt { ids, marks, form: Form::Chat(prompt.channel()) })
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>, DialectError> {
        self.tokenizer.encode(text).map_err(text_error)
    }

    fn decode(&self, ids: &[u32]) -> String {
        self.tokenizer.decode(ids, Special::Show).unwrap_or_default()
    }

    fn bytes(&self, id: u32) -> &[u8] {
        self.tokenizer.bytes(id).unwrap_or_default()
    }

    fn reply(&self, how: ReplyText) -> Result<Box<dyn Text>, DialectError> {
        let stops = StopStrings::new(how.stop)
            .map_err(|e| DialectError { field: "stop".to_owned(), message: e.to_string() })?;
        let tokenizer = self.tokenizer.clone();
        Ok(Box::new(match how.form {
            Form::Raw => reply::ReplyText::completion(tokenizer, stops),
            Form::Chat(channel) => reply::ReplyText::chat(tokenizer, channel, stops),
        }))
    }

    fn stop_tokens(&self) -> Vec<u32> {
        vec![self.eos]
    }

    fn reasoning_close(&self) -> Option<u32> {
        self.tokenizer.control(Control::ThinkClose)
    }
}
