//! What the model wrote, back to reasoning, content and tool calls.
//!
//! This reads a complete text. [`crate::reply`] tells reasoning from content token by token; both use the format's
//! words below.

use std::fmt::Write;

use serde_json::Value;
use tokenfare_lanes::Channel;

use super::json::python_json;
use super::tool::ToolName;
use crate::tokenizer::Control;

/// Opens the tool calls, after the content.
pub const CALLS: &str = "\n\n<｜DSML｜ calls>";
/// Closes the tool calls.
pub const CALLS_END: &str = "</｜DSML｜ calls>";
/// Opens a call; its name and [`NAME_END`] follow.
pub const INVOKE: &str = "<｜DSML｜ invoke name=\"";
/// Closes a call.
pub const INVOKE_END: &str = "</｜DSML｜ invoke>";
/// Opens an argument; its name, [`KIND`], its kind, [`NAME_END`] and its value follow.
pub const PARAMETER: &str = "<｜DSML｜ parameter name=\"";
/// Between the name of an argument and its kind: `true` for a string, `false` for JSON.
pub const KIND: &str = "\" string=\"";
/// Closes an opening tag.
pub const NAME_END: &str = "\">";
/// Closes an argument.
pub const PARAMETER_END: &str = "</｜DSML｜ parameter>";

/// A parsed completion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completion {
    /// Reasoning, without its tags.
    pub reasoning: String,
    /// The answer, without tool calls.
    pub content: String,
    /// Calls in order.
    pub calls: Vec<Call>,
}

/// A call that the model made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The tool.
    pub name: ToolName,
    /// A JSON object as text: strings escaped, other values as the model wrote them.
    pub arguments: String,
}

/// Why a completion is not in the model's format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompletionError {
    /// The reasoning is not closed.
    #[error("the reasoning has no </think>")]
    OpenReasoning,
    /// Something else than the format has at a place.
    #[error("byte {at}: expected {expected:?}, found {found:?}")]
    Expected {
        /// Byte offset in the completion.
        at: usize,
        /// What the format has there.
        expected: &'static str,
        /// The next characters.
        found: String,
    },
    /// A call without a name, or with a name of several namespaces.
    #[error("byte {at}: {name:?} is no tool name")]
    Name {
        /// Byte offset in the completion.
        at: usize,
        /// The name.
        name: String,
    },
}

/// Reads a complete completion that began in channel `start`. The end token's text may follow it.
///
/// # Errors
/// Reasoning or calls that are not closed, text after the end, markup of another form.
pub fn parse(text: &str, start: Channel) -> Result<Completion, CompletionError> {
    let mut reader = Reader { text, at: 0 };
    let mut completion = Completion::default();
    if start == Channel::Reasoning {
        let close = Control::ThinkClose.text();
        completion.reasoning = reader.until(close).ok_or(CompletionError::OpenReasoning)?.to_owned();
    }
    match reader.until(CALLS) {
        Some(content) => {
            completion.content = content.to_owned();
            completion.calls = reader.calls()?;
        }
        None => {
            let rest = reader.rest();
            let content = rest.split(Control::Eos.text()).next().unwrap_or(rest);
            completion.content = content.to_owned();
            reader.at += content.len();
        }
    }
    reader.eat(Control::Eos.text());
    if reader.rest().is_empty() { Ok(completion) } else { Err(reader.unexpected("the end")) }
}

/// A place in a completion.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn eat(&mut self, word: &str) -> bool {
        let found = self.rest().starts_with(word);
        self.at += if found { word.len() } else { 0 };
        found
    }

    /// The text before `word`, which is passed over, if it occurs.
    fn until(&mut self, word: &str) -> Option<&'a str> {
        let (before, _) = self.rest().split_once(word)?;
        self.at += before.len() + word.len();
        Some(before)
    }

    fn require(&mut self, word: &'static str) -> Result<(), CompletionError> {
        if self.eat(word) { Ok(()) } else { Err(self.unexpected(word)) }
    }

    fn require_until(&mut self, word: &'static str) -> Result<&'a str, CompletionError> {
        self.until(word).ok_or_else(|| self.unexpected(word))
    }

    fn unexpected(&self, expected: &'static str) -> CompletionError {
        CompletionError::Expected { at: self.at, expected, found: self.rest().chars().take(32).collect() }
    }

    fn skip_lines(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches('\n').len();
    }

    /// Calls up to their end; at least one.
    fn calls(&mut self) -> Result<Vec<Call>, CompletionError> {
        let mut calls = Vec::new();
        loop {
            self.skip_lines();
            if !calls.is_empty() && self.eat(CALLS_END) {
                return Ok(calls);
            }
            self.require(INVOKE)?;
            let at = self.at;
            let name = self.require_until(NAME_END)?;
            let no_name = || CompletionError::Name { at, name: name.to_owned() };
            let name = ToolName::split(name).filter(|name| !name.name.is_empty()).ok_or_else(no_name)?;
            calls.push(Call { name, arguments: self.arguments()? });
        }
    }

    /// Arguments up to the end of their call.
    fn arguments(&mut self) -> Result<String, CompletionError> {
        let mut arguments = String::from("{");
        loop {
            self.skip_lines();
            if self.eat(INVOKE_END) {
                return Ok(arguments + "}");
            }
            self.require(PARAMETER)?;
            let name = self.require_until(KIND)?;
            let is_string = self.eat("true");
            if !is_string {
                self.require("false")?;
            }
            self.require(NAME_END)?;
            let value = self.require_until(PARAMETER_END)?;
            let gap = if arguments.len() > 1 { ", " } else { "" };
            let value = if is_string { json_string(value) } else { value.to_owned() };
            write!(arguments, "{gap}{}: {value}", json_string(name)).expect("a string takes any text");
        }
    }
}

fn json_string(text: &str) -> String {
    python_json(&Value::from(text))
}
