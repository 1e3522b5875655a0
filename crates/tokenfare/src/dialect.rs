//! The DeepSeek-V4.1 family as the API's dialect.

use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use serde_json::Value;
use tokenfare_dsv41::chat::{
    ChatError, ChatOptions, Conversation, Effort, Ending, Role, Thinking, Tool, call_grammar, parse_tools,
};
use tokenfare_dsv41::reply::{self, MostCalls, StopStrings};
use tokenfare_dsv41::tokenizer::{Control, Special, TextError, Tokenizer};
use tokenfare_grammar::{Compiler, Source, Vocabulary, json_options};
use tokenfare_lanes::{Grammar, Text};
use tokenfare_server::{Answer, Calls, Chat, Dialect, DialectError, Form, Guide, Prompt, ReplyText};

/// Prompts and replies by a checkpoint's tokenizer.
pub struct Dsv41Dialect {
    tokenizer: Arc<Tokenizer>,
    eos: u32,
    /// Built with the first grammar.
    compiler: OnceLock<Compiler>,
}

impl Dsv41Dialect {
    /// The dialect of a tokenizer whose model ends its turns with `eos`.
    pub fn new(tokenizer: Arc<Tokenizer>, eos: u32) -> Self {
        Self { tokenizer, eos, compiler: OnceLock::new() }
    }

    fn compile(&self, source: &Source, field: &str) -> Result<Box<dyn Grammar>, DialectError> {
        let compiler = self.compiler.get_or_init(|| Compiler::new(&self.vocabulary()));
        compiler.compile(source).map_err(|e| error(field, e))
    }

    /// The tokens that grammars are over. Special tokens and the tags of a chat are no text.
    fn vocabulary(&self) -> Vocabulary {
        let tags =
            [Control::ThinkOpen, Control::ThinkClose, Control::Dsml].map(|c| self.tokenizer.control(c));
        let mut vocabulary = Vocabulary::new(self.eos);
        for id in 0..self.tokenizer.vocab() as u32 {
            let bytes = self.bytes(id);
            if self.tokenizer.is_special(id) || tags.contains(&Some(id)) {
                vocabulary.push_control(&String::from_utf8_lossy(bytes));
            } else {
                vocabulary.push(bytes);
            }
        }
        vocabulary
    }

    /// A grammar of calls of any of `tools`.
    fn calls(&self, tools: &[&Tool], calls: Calls) -> Result<Source, DialectError> {
        let dsml = self.tokenizer.require(Control::Dsml).map_err(|e| error("tools", e))?;
        Ok(Source::Grammar(call_grammar(tools, dsml, most(calls), &json_options)))
    }

    /// Why a grammar of `tools`, each with its place, does not compile: the first that does not by itself, if one does
    /// not.
    fn blame(&self, tools: &[(usize, &Tool)], calls: Calls, whole: DialectError) -> DialectError {
        for (place, tool) in tools {
            let field = format!("tools[{place}].function.parameters");
            if let Err(error) = self.calls(&[tool], calls).and_then(|s| self.compile(&s, &field)) {
                return error;
            }
        }
        whole
    }
}

fn error(field: &str, message: impl ToString) -> DialectError {
    DialectError { field: field.to_owned(), message: message.to_string() }
}

fn chat_error(error: ChatError) -> DialectError {
    DialectError { field: error.path, message: error.problem.to_string() }
}

fn most(calls: Calls) -> MostCalls {
    match calls {
        Calls::None => MostCalls::None,
        Calls::One => MostCalls::One,
        Calls::Any => MostCalls::Any,
    }
}

fn source(answer: &Answer) -> Source {
    match answer.clone() {
        Answer::JsonSchema(schema) => Source::JsonSchema(schema),
        Answer::Regex(pattern) => Source::Regex(pattern),
        Answer::Choice(texts) => Source::Choice(texts),
        Answer::Grammar(text) => Source::Grammar(text),
    }
}

/// A reasoning effort: a level of this or another family, or a number.
pub fn effort(value: &Value) -> Result<Effort, DialectError> {
    let text = match value {
        // Levels that clients of other families send lie between and below this family's own.
        Value::String(word) if word == "minimal" => "25".to_owned(),
        Value::String(word) if word == "medium" => "62".to_owned(),
        Value::String(word) if word == "xhigh" => "100".to_owned(),
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
        let offered = Value::Array(chat.tools.clone());
        let conversation = Conversation::from_json(&messages).map_err(chat_error)?;
        check_last(&conversation, chat.messages.len())?;
        let mut conversation = conversation.with_tools(&offered).map_err(chat_error)?;
        if let Some(schema) = &chat.schema {
            conversation = conversation.with_response_format(schema);
        }
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

    fn grammar(&self, guide: &Guide) -> Result<Box<dyn Grammar>, DialectError> {
        let offered = parse_tools("tools", &Value::Array(guide.tools.clone())).map_err(chat_error)?;
        let named = |place: usize| guide.named.is_none_or(|named| named == place);
        let offered: Vec<(usize, &Tool)> = offered.iter().enumerate().filter(|t| named(t.0)).collect();
        let tools: Vec<&Tool> = offered.iter().map(|t| t.1).collect();
        let calls = if tools.is_empty() { None } else { Some(self.calls(&tools, guide.calls)?) };
        match (&guide.answer, calls) {
            (Some((field, answer)), None) => self.compile(&source(answer), field),
            (None, Some(calls)) => {
                self.compile(&calls, "tools").map_err(|e| self.blame(&offered, guide.calls, e))
            }
            (Some((field, answer)), Some(calls)) => {
                let either = Source::Any(vec![source(answer), calls]);
                self.compile(&either, field).map_err(|e| match self.compile(&source(answer), field) {
                    Err(alone) => alone,
                    Ok(_) => self.blame(&offered, guide.calls, e),
                })
            }
            (None, None) => Err(error("response_format", "expected a form of the answer or tools")),
        }
    }

    fn reply(&self, how: ReplyText) -> Result<Box<dyn Text>, DialectError> {
        let stops = StopStrings::new(how.stop).map_err(|e| error("stop", e))?;
        let tokenizer = self.tokenizer.clone();
        let text = match how.form {
            Form::Raw => reply::ReplyText::completion(tokenizer, stops),
            Form::Chat(channel) => reply::ReplyText::chat(tokenizer, channel, stops, most(how.calls)),
        };
        Ok(Box::new(match how.grammar {
            Some(grammar) => text.with_grammar(grammar),
            None => text,
        }))
    }

    fn stop_tokens(&self) -> Vec<u32> {
        vec![self.eos]
    }

    fn reasoning_close(&self) -> Option<u32> {
        self.tokenizer.control(Control::ThinkClose)
    }
}
