//! The text of a reply, token by token.

mod stop;
mod utf8;

pub use stop::{StopStringError, StopStrings};

use std::sync::Arc;

use tokenfare_lanes::{Channel, Grammar, GrammarError, Piece, Step, Text, TextEnd};

use crate::chat::CallStream;
use crate::tokenizer::{Control, Tokenizer};
use utf8::Utf8;

/// How many tools a reply may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MostCalls {
    /// None: the mark that every call needs is never chosen.
    None,
    /// One: the reply ends with it.
    One,
    /// Any number.
    #[default]
    Any,
}

/// Detokenization, channels, stop strings, tool calls and grammar of one reply.
///
/// Tokens flagged special have no text. In a chat, `<think>` and `</think>` switch the channel and have no text, and
/// tool calls are told from the answer; in a raw completion tags are text like any other and all text is content. Stop
/// strings are looked for in the answer as the model writes it, up to the tag that opens the calls, across tokens but
/// not across a change of channel. A grammar bounds what comes after the reasoning.
pub struct ReplyText {
    tokenizer: Arc<Tokenizer>,
    /// The tags that switch the channel and the calls, in a chat.
    chat: Option<Chat>,
    channel: Channel,
    utf8: Utf8,
    stops: StopStrings,
    grammar: Option<Box<dyn Grammar>>,
    /// Why the grammar cannot go on: told when the next token is to be decided.
    failed: Option<GrammarError>,
    ended: bool,
}

struct Chat {
    open: Option<u32>,
    close: Option<u32>,
    dsml: Option<u32>,
    calls: CallStream,
    most: MostCalls,
}

/// Takes a token out of the allowed ones.
fn forbid(allowed: &mut [u32], token: Option<u32>) {
    if let Some(token) = token
        && let Some(word) = allowed.get_mut(token as usize / 32)
    {
        *word &= !(1 << (token % 32));
    }
}

impl ReplyText {
    /// The text of a raw completion.
    pub fn completion(tokenizer: Arc<Tokenizer>, stops: StopStrings) -> Self {
        Self {
            tokenizer,
            chat: None,
            channel: Channel::Content,
            utf8: Utf8::default(),
            stops,
            grammar: None,
            failed: None,
            ended: false,
        }
    }

    /// The text of a reply in a chat that starts in `channel` (of [`crate::chat::Prompt::channel`]).
    pub fn chat(tokenizer: Arc<Tokenizer>, channel: Channel, stops: StopStrings, most: MostCalls) -> Self {
        let chat = Chat {
            open: tokenizer.control(Control::ThinkOpen),
            close: tokenizer.control(Control::ThinkClose),
            dsml: tokenizer.control(Control::Dsml),
            calls: CallStream::default(),
            most,
        };
        Self { chat: Some(chat), channel, ..Self::completion(tokenizer, stops) }
    }

    /// The same reply, whose answer `grammar` bounds and ends.
    pub fn with_grammar(self, grammar: Box<dyn Grammar>) -> Self {
        Self { grammar: Some(grammar), ..self }
    }

    /// The channel that `token` switches to, if it is a tag.
    fn switch(&self, token: u32) -> Option<Channel> {
        let Chat { open, close, .. } = self.chat.as_ref()?;
        match Some(token) {
            token if token == *open => Some(Channel::Reasoning),
            token if token == *close => Some(Channel::Content),
            _ => None,
        }
    }

    /// Releases `text` as far as it cannot become a stop string or a tag.
    fn show(&mut self, text: &str, pieces: &mut Vec<Piece>) -> Option<TextEnd> {
        let end = match (self.channel, &self.chat) {
            (Channel::Reasoning, _) => {
                self.piece(text.to_owned(), pieces);
                None
            }
            (Channel::Content, Some(_)) => self.answer(text, pieces),
            (Channel::Content, None) => {
                let mut shown = String::new();
                let end = self.stops.push(text, &mut shown).map(TextEnd::StopString);
                self.piece(shown, pieces);
                end
            }
        };
        self.ended |= end.is_some();
        end
    }

    /// Releases text of a chat's answer, letter by letter: a stop string is looked for as long as no call is open.
    fn answer(&mut self, text: &str, pieces: &mut Vec<Piece>) -> Option<TextEnd> {
        let Chat { calls, most, .. } = self.chat.as_mut()?;
        for (at, letter) in text.char_indices() {
            let letter = &text[at..at + letter.len_utf8()];
            if calls.inside() {
                calls.push(letter, pieces);
                if *most == MostCalls::One && pieces.last() == Some(&Piece::CallEnd) {
                    return Some(TextEnd::Call);
                }
                continue;
            }
            let mut shown = String::new();
            let found = self.stops.push(letter, &mut shown);
            calls.push(&shown, pieces);
            if let Some(string) = found {
                calls.finish(pieces);
                return Some(TextEnd::StopString(string));
            }
            if calls.inside() {
                calls.push(&self.stops.release(), pieces);
            }
        }
        None
    }

    /// Releases everything held back.
    fn flush(&mut self, pieces: &mut Vec<Piece>) -> Option<TextEnd> {
        let rest = self.utf8.finish();
        let end = self.show(rest, pieces);
        let held = self.stops.release();
        match &mut self.chat {
            Some(chat) if self.channel == Channel::Content => {
                chat.calls.push(&held, pieces);
                chat.calls.finish(pieces);
            }
            _ => self.piece(held, pieces),
        }
        end
    }

    /// Moves the grammar past a token of the answer; says whether it is complete.
    fn advance(&mut self, token: u32) -> bool {
        let Some(grammar) = self.grammar.as_mut().filter(|_| self.channel == Channel::Content) else {
            return false;
        };
        self.failed = grammar.accept(token).err();
        self.failed.is_none() && grammar.is_complete()
    }

    /// Appends text of the current channel.
    fn piece(&self, text: String, pieces: &mut Vec<Piece>) {
        match pieces.last_mut() {
            _ if text.is_empty() => {}
            Some(Piece::Text { channel, text: last }) if *channel == self.channel => last.push_str(&text),
            _ => pieces.push(Piece::Text { channel: self.channel, text }),
        }
    }
}

impl Text for ReplyText {
    fn push(&mut self, token: u32, silent: bool) -> Step {
        let mut step = Step::default();
        if silent || self.ended {
            return step;
        }
        let complete = self.advance(token);
        if let Some(channel) = self.switch(token) {
            if channel != self.channel {
                step.end = self.flush(&mut step.pieces);
                self.channel = channel;
            }
        } else if !self.tokenizer.is_special(token) {
            let text = self.utf8.push(self.tokenizer.bytes(token).unwrap_or_default());
            step.end = self.show(&text, &mut step.pieces);
        }
        if complete {
            step.end.get_or_insert(TextEnd::Grammar);
        }
        step
    }

    fn finish(&mut self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        if !self.ended {
            self.flush(&mut pieces);
            self.ended = true;
        }
        pieces
    }

    fn reasoning(&self) -> bool {
        self.channel == Channel::Reasoning
    }

    fn mask(&mut self, allowed: &mut [u32]) -> Result<bool, GrammarError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        match (&mut self.grammar, self.channel, &self.chat) {
            (Some(grammar), Channel::Content, chat) => {
                grammar.mask(allowed)?;
                if let Some(Chat { open, close, .. }) = chat {
                    forbid(allowed, *open);
                    forbid(allowed, *close);
                }
                Ok(true)
            }
            // A reply that ended in its reasoning would never meet its grammar.
            (Some(_), Channel::Reasoning, _) => {
                forbid(allowed, self.tokenizer.control(Control::Eos));
                Ok(true)
            }
            (None, Channel::Content, Some(Chat { most: MostCalls::None, dsml, .. })) => {
                forbid(allowed, *dsml);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn admits(&mut self, drafts: &[u32]) -> usize {
        let eos = self.tokenizer.control(Control::Eos);
        let mut channel = self.channel;
        for (i, &draft) in drafts.iter().enumerate() {
            let switch = self.switch(draft);
            let forbidden = match (&mut self.grammar, channel, &self.chat) {
                (Some(grammar), Channel::Content, _) => return i + grammar.admits(&drafts[i..]),
                (Some(_), Channel::Reasoning, _) => eos == Some(draft),
                (None, Channel::Content, Some(Chat { most: MostCalls::None, dsml, .. })) => {
                    *dsml == Some(draft)
                }
                _ => false,
            };
            if forbidden {
                return i;
            }
            channel = switch.unwrap_or(channel);
        }
        drafts.len()
    }
}
