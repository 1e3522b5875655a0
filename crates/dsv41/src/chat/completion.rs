//! What the model wrote, back to reasoning, content and tool calls.
//!
//! This reads a complete text. [`crate::reply`] and [`super::CallStream`] read it as it comes; all use the format's
//! words.

use std::fmt::Write;

use serde_json::Value;
use tokenfare_lanes::Channel;

use super::json::python_json;
use super::tool::ToolName;
use super::words::{ARGUMENT, ARGUMENT_END, CALLS, CLOSE, INVOKE, INVOKE_END, KIND, NAME_END, OPEN};
use crate::tokenizer::Control;

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
    let ended = reader.rest().split(Control::Eos.text()).next().unwrap_or_default();
    match find(ended, &[OPEN, CLOSE]) {
        Ok((at, _)) => {
            completion.content = ended[..before_tag(&ended[..at])].to_owned();
            reader.at += at;
            reader.require(&[OPEN, CALLS])?;
            completion.calls = reader.calls()?;
        }
        Err(_) => {
            completion.content = ended[..whole_text(ended)].to_owned();
            reader.at += ended.len();
        }
    }
    reader.eat(Control::Eos.text());
    if reader.rest().is_empty() { Ok(completion) } else { Err(reader.unexpected("the end")) }
}

/// The first of `words` in `text`, or the place from which on one may still come.
pub(super) fn find<'w>(text: &str, words: &[&'w str]) -> Result<(usize, &'w str), usize> {
    let found = words.iter().filter_map(|word| Some((text.find(word)?, *word))).min();
    found.ok_or_else(|| {
        let may_begin = |end: &str| words.iter().any(|word| word.starts_with(end));
        text.char_indices().map(|(at, _)| at).find(|&at| may_begin(&text[at..])).unwrap_or(text.len())
    })
}

/// Length of `text` without the line breaks, at most two, that belong to the tag after it.
pub(super) fn before_tag(text: &str) -> usize {
    (0..2).fold(text, |text, _| text.strip_suffix('\n').unwrap_or(text)).len()
}

/// Length of `text`, which has no mark, without the half of one at its end. A bracket counts as half a mark after
/// the line breaks that belong to one.
pub(super) fn whole_text(text: &str) -> usize {
    let half = find(text, &[OPEN, CLOSE]).map_or_else(|at| at, |(at, _)| at);
    let begins = text[half..].contains('｜') || text.ends_with("\n\n<");
    if begins { before_tag(&text[..half]) } else { text.len() }
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

    /// Passes over `words`, one after the other.
    fn require(&mut self, words: &[&'static str]) -> Result<(), CompletionError> {
        words.iter().try_for_each(|word| if self.eat(word) { Ok(()) } else { Err(self.unexpected(word)) })
    }

    /// The text before `word`, which is passed over, with no mark in it.
    fn require_until(&mut self, word: &'static str) -> Result<&'a str, CompletionError> {
        match find(self.rest(), &[word, OPEN, CLOSE]) {
            Ok((at, found)) if found == word => {
                let text = &self.rest()[..at];
                self.at += at + word.len();
                Ok(text)
            }
            _ => Err(self.unexpected(word)),
        }
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
            if !calls.is_empty() && self.eat(CLOSE) {
                self.require(&[CALLS])?;
                return Ok(calls);
            }
            self.require(&[OPEN, INVOKE])?;
            let at = self.at;
            let name = self.require_until(NAME_END)?;
            let name =
                ToolName::written(name).ok_or_else(|| CompletionError::Name { at, name: name.to_owned() })?;
            calls.push(Call { name, arguments: self.arguments()? });
        }
    }

    /// Arguments up to the end of their call.
    fn arguments(&mut self) -> Result<String, CompletionError> {
        let mut arguments = String::from("{");
        loop {
            self.skip_lines();
            if self.eat(CLOSE) {
                self.require(&[INVOKE_END])?;
                return Ok(arguments + "}");
            }
            self.require(&[OPEN, ARGUMENT])?;
            let name = self.require_until(KIND)?;
            let is_string = self.eat("true");
            if !is_string {
                self.require(&["false"])?;
            }
            self.require(&[NAME_END])?;
            let value = self.require_until(CLOSE)?;
            self.require(&[ARGUMENT_END])?;
            let gap = if arguments.len() > 1 { ", " } else { "" };
            let value = if is_string { json_string(value) } else { value.to_owned() };
            write!(arguments, "{gap}{}: {value}", json_string(name)).expect("a string takes any text");
        }
    }
}

/// `text` as a JSON string, in the spelling of [`python_json`].
pub(super) fn json_string(text: &str) -> String {
    python_json(&Value::from(text))
}
