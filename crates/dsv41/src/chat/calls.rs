//! Tool calls out of an answer's text, as it comes.
//!
//! The text is told apart by its tags alone, wherever it is cut. What the format does not have breaks off the call it
//! is in: the call gets no more arguments and no end, and the tags themselves never show. [`super::completion::parse`]
//! reads a whole text and refuses what this breaks off.

use tokenfare_lanes::{Channel, Piece};

use super::completion::{before_tag, find, json_string, whole_text};
use super::tool::ToolName;
use super::words::{ARGUMENT, ARGUMENT_END, CALLS, CLOSE, INVOKE, INVOKE_END, KIND, NAME_END, OPEN};

/// A JSON string is written around a value marked `true`; one marked `false` is JSON already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Json,
}

/// Where in the format the next character is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// The answer.
    #[default]
    Content,
    /// White space after the calls.
    After,
    /// Inside the calls, between tags.
    Between,
    /// Right after the mark that opens a tag.
    Open,
    /// Right after the mark that closes one, inside a value or not.
    Close(Option<Kind>),
    /// The name of a tool.
    Name,
    /// The name of an argument.
    Key,
    /// The kind of an argument's value.
    Kind,
    /// The value of an argument.
    Value(Kind),
    /// A tag that the format does not have, up to its end.
    Skip,
}

/// A call whose end has not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OpenCall {
    arguments: usize,
    broken: bool,
}

/// Splits the text of an answer into what is shown and the calls in it.
#[derive(Debug, Clone, Default)]
pub struct CallStream {
    state: State,
    /// Text that is not decided yet.
    held: String,
    /// The name that is being read.
    name: String,
    /// Whether the calls are open.
    inside: bool,
    call: Option<OpenCall>,
}

impl CallStream {
    /// Takes text and appends what it shows.
    pub fn push(&mut self, text: &str, pieces: &mut Vec<Piece>) {
        self.held.push_str(text);
        while self.step(pieces) {}
    }

    /// Whether the next character belongs to calls rather than to the answer's text.
    pub fn inside(&self) -> bool {
        !matches!(self.state, State::Content | State::After)
    }

    /// Shows what was held back unless it is half a tag, at the end of the answer. An open call stays open.
    pub fn finish(&mut self, pieces: &mut Vec<Piece>) {
        let held = std::mem::take(&mut self.held);
        if self.state == State::Content {
            let shown = whole_text(&held);
            show(&held[..shown], pieces);
        }
        *self = Self::default();
    }

    /// Goes on by one decision; false when that needs more text.
    fn step(&mut self, pieces: &mut Vec<Piece>) -> bool {
        match self.state {
            State::Content => self.content(pieces),
            State::After => {
                let rest = self.held.trim_start().len();
                self.held.drain(..self.held.len() - rest);
                self.state = if rest > 0 { State::Content } else { State::After };
                rest > 0
            }
            State::Between => {
                let broken = |text: &str| !text.trim().is_empty();
                let (done, word) = self.until(&[OPEN, CLOSE], |this, text| {
                    if broken(text) {
                        this.break_off();
                    }
                });
                self.mark(word, None);
                done
            }
            State::Name => {
                let (done, word) =
                    self.until(&[NAME_END, OPEN, CLOSE], |this, text| this.name.push_str(text));
                match word {
                    Some(NAME_END) => self.begin_call(pieces),
                    other => self.mark(other, None),
                }
                done
            }
            State::Key => {
                let (done, word) = self.until(&[KIND, OPEN, CLOSE], |this, text| this.name.push_str(text));
                match word {
                    Some(KIND) => self.state = State::Kind,
                    Some(_) => {
                        self.break_off();
                        self.mark(word, None);
                    }
                    None => {}
                }
                done
            }
            State::Value(kind) => {
                let (done, word) = self.until(&[OPEN, CLOSE], |this, text| this.value(kind, text, pieces));
                self.mark(word, Some(kind));
                done
            }
            State::Kind => self.kind(pieces),
            State::Open => self.open_tag(),
            State::Close(value) => self.close_tag(value, pieces),
            State::Skip => {
                let end = self.held.find(['>', '\n']);
                let skipped = match end {
                    Some(at) if self.held.as_bytes()[at] == b'>' => at + 1,
                    Some(at) => at,
                    None => self.held.len(),
                };
                self.held.drain(..skipped);
                if end.is_some() {
                    self.state = self.rest();
                }
                end.is_some()
            }
        }
    }

    /// The state between tags.
    fn rest(&self) -> State {
        if self.inside { State::Between } else { State::Content }
    }

    /// Gives `take` the text before the first of `words`, as far as it is decided; the word itself is passed over.
    fn until<'w>(
        &mut self,
        words: &[&'w str],
        take: impl FnOnce(&mut Self, &str),
    ) -> (bool, Option<&'w str>) {
        let (before, after, word) = match find(&self.held, words) {
            Ok((at, word)) => (at, at + word.len(), Some(word)),
            Err(at) => (at, at, None),
        };
        let text: String = self.held.drain(..after).collect();
        take(self, &text[..before]);
        (word.is_some(), word)
    }

    fn mark(&mut self, word: Option<&str>, value: Option<Kind>) {
        match word {
            Some(OPEN) => {
                if value.is_some() {
                    self.break_off();
                }
                self.state = State::Open;
            }
            Some(_) => self.state = State::Close(value),
            None => {}
        }
    }

    fn content(&mut self, pieces: &mut Vec<Piece>) -> bool {
        let (shown, end, word) = match find(&self.held, &[OPEN, CLOSE]) {
            Ok((at, word)) => (before_tag(&self.held[..at]), at + word.len(), Some(word)),
            Err(at) => {
                let shown = before_tag(&self.held[..at]);
                (shown, shown, None)
            }
        };
        show(&self.held[..shown], pieces);
        self.held.drain(..end);
        self.mark(word, None);
        word.is_some()
    }

    /// The first of `words` that the held text starts with; an error says whether one still may come.
    fn anchored<'w>(&mut self, words: &[&'w str]) -> Result<&'w str, bool> {
        match words.iter().find(|word| self.held.starts_with(**word)) {
            Some(word) => {
                self.held.drain(..word.len());
                Ok(word)
            }
            None => Err(words.iter().any(|word| word.starts_with(&self.held))),
        }
    }

    fn open_tag(&mut self) -> bool {
        let tag = match self.anchored(&[CALLS, INVOKE, ARGUMENT]) {
            Ok(tag) => tag,
            Err(true) => return false,
            Err(false) => return self.skip(),
        };
        match tag {
            ARGUMENT if self.call.is_some() => self.state = State::Key,
            ARGUMENT => self.state = State::Skip,
            INVOKE => {
                self.inside = true;
                self.call = None;
                self.state = State::Name;
            }
            _ => {
                self.inside = true;
                self.break_off();
                self.state = State::Between;
            }
        }
        self.name.clear();
        true
    }

    fn close_tag(&mut self, value: Option<Kind>, pieces: &mut Vec<Piece>) -> bool {
        let tag = match self.anchored(&[CALLS, INVOKE_END, ARGUMENT_END]) {
            Ok(tag) => tag,
            Err(true) => return false,
            Err(false) => return self.skip(),
        };
        match (tag, value) {
            (ARGUMENT_END, Some(Kind::Text)) => self.argue("\"", pieces),
            (ARGUMENT_END, Some(Kind::Json)) => {}
            (INVOKE_END, None) => self.end_call(pieces),
            (CALLS, _) => self.call = None,
            _ => self.break_off(),
        }
        if tag == INVOKE_END {
            self.call = None;
        }
        if tag == CALLS {
            self.state = if self.inside { State::After } else { State::Content };
            self.inside = false;
        } else {
            self.state = self.rest();
        }
        true
    }

    /// Leaves out a tag that the format does not have.
    fn skip(&mut self) -> bool {
        self.break_off();
        self.state = State::Skip;
        true
    }

    fn break_off(&mut self) {
        if let Some(call) = &mut self.call {
            call.broken = true;
        }
    }

    fn begin_call(&mut self, pieces: &mut Vec<Piece>) {
        let name = ToolName::written(&self.name);
        self.call = Some(OpenCall { arguments: 0, broken: name.is_none() });
        self.state = State::Between;
        pieces.extend(name.map(|name| Piece::Call(name.to_string())));
    }

    fn end_call(&mut self, pieces: &mut Vec<Piece>) {
        let Some(OpenCall { arguments, broken: false }) = self.call else { return };
        self.argue(if arguments == 0 { "{}" } else { "}" }, pieces);
        pieces.push(Piece::CallEnd);
    }

    fn kind(&mut self, pieces: &mut Vec<Piece>) -> bool {
        let kind = match self.anchored(&["true\">", "false\">"]) {
            Ok("true\">") => Kind::Text,
            Ok(_) => Kind::Json,
            Err(true) => return false,
            Err(false) => {
                self.break_off();
                self.state = State::Between;
                return true;
            }
        };
        self.state = State::Value(kind);
        if let Some(call) = &mut self.call {
            let gap = if call.arguments == 0 { "{" } else { ", " };
            call.arguments += 1;
            let quote = if kind == Kind::Text { "\"" } else { "" };
            let opening = format!("{gap}{}: {quote}", json_string(&self.name));
            self.argue(&opening, pieces);
        }
        true
    }

    fn value(&self, kind: Kind, text: &str, pieces: &mut Vec<Piece>) {
        match kind {
            Kind::Json => self.argue(text, pieces),
            Kind::Text => {
                let quoted = json_string(text);
                self.argue(&quoted[1..quoted.len() - 1], pieces);
            }
        }
    }

    /// Shows more of the arguments, unless the call is broken off.
    fn argue(&self, json: &str, pieces: &mut Vec<Piece>) {
        if json.is_empty() || self.call.is_none_or(|call| call.broken) {
            return;
        }
        match pieces.last_mut() {
            Some(Piece::Arguments(last)) => last.push_str(json),
            _ => pieces.push(Piece::Arguments(json.to_owned())),
        }
    }
}

/// Shows text of the answer.
fn show(text: &str, pieces: &mut Vec<Piece>) {
    match pieces.last_mut() {
        _ if text.is_empty() => {}
        Some(Piece::Text { channel: Channel::Content, text: last }) => last.push_str(text),
        _ => pieces.push(Piece::content(text)),
    }
}
