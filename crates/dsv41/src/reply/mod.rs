//! The text of a reply, token by token.

mod stop;
mod utf8;

pub use stop::{StopStringError, StopStrings};

use std::sync::Arc;

use tokenfare_lanes::{Channel, Piece, Step, Text, TextEnd};

use crate::tokenizer::{Control, Tokenizer};
use utf8::Utf8;

/// Detokenization, channels and stop strings of one reply.
///
/// Tokens flagged special have no text. In a chat, `<think>` and `</think>` switch the channel and have no text; in
/// a raw completion they are text like any other and all text is content. Stop strings are looked for in content
/// only, across tokens but not across a change of channel.
#[derive(Debug)]
pub struct ReplyText {
    tokenizer: Arc<Tokenizer>,
    /// The tags that switch the channel, in a chat.
    tags: Option<Tags>,
    channel: Channel,
    utf8: Utf8,
    stops: StopStrings,
    ended: bool,
}

#[derive(Debug, Clone, Copy)]
struct Tags {
    open: Option<u32>,
    close: Option<u32>,
}

impl ReplyText {
    /// The text of a raw completion.
    pub fn completion(tokenizer: Arc<Tokenizer>, stops: StopStrings) -> Self {
        let (utf8, channel) = (Utf8::default(), Channel::Content);
        Self { tokenizer, tags: None, channel, utf8, stops, ended: false }
    }

    /// The text of a reply in a chat that starts in `channel` (of [`crate::chat::Prompt::channel`]).
    pub fn chat(tokenizer: Arc<Tokenizer>, channel: Channel, stops: StopStrings) -> Self {
        let open = tokenizer.control(Control::ThinkOpen);
        let close = tokenizer.control(Control::ThinkClose);
        Self { tags: Some(Tags { open, close }), channel, ..Self::completion(tokenizer, stops) }
    }

    /// The channel that `token` switches to, if it is a tag.
    fn switch(&self, token: u32) -> Option<Channel> {
        match self.tags {
            Some(Tags { open, .. }) if open == Some(token) => Some(Channel::Reasoning),
            Some(Tags { close, .. }) if close == Some(token) => Some(Channel::Content),
            _ => None,
        }
    }

    /// Releases `text` as far as it cannot become a stop string.
    fn show(&mut self, text: &str, pieces: &mut Vec<Piece>) -> Option<TextEnd> {
        let mut shown = String::new();
        let end = match self.channel {
            Channel::Content => self.stops.push(text, &mut shown),
            Channel::Reasoning => {
                shown.push_str(text);
                None
            }
        };
        self.ended |= end.is_some();
        self.piece(shown, pieces);
        end.map(TextEnd::StopString)
    }

    /// Releases everything held back.
    fn flush(&mut self, pieces: &mut Vec<Piece>) -> Option<TextEnd> {
        let rest = self.utf8.finish();
        let end = self.show(rest, pieces);
        let held = self.stops.release();
        self.piece(held, pieces);
        end
    }

    /// Appends text of the current channel.
    fn piece(&self, text: String, pieces: &mut Vec<Piece>) {
        match pieces.last_mut() {
            _ if text.is_empty() => {}
            Some(last) if last.channel == self.channel => last.text.push_str(&text),
            _ => pieces.push(Piece { channel: self.channel, text }),
        }
    }
}

impl Text for ReplyText {
    fn push(&mut self, token: u32, silent: bool) -> Step {
        let mut step = Step::default();
        if silent || self.ended {
            return step;
        }
        if let Some(channel) = self.switch(token) {
            if channel != self.channel {
                step.end = self.flush(&mut step.pieces);
                self.channel = channel;
            }
        } else if !self.tokenizer.is_special(token) {
            let text = self.utf8.push(self.tokenizer.bytes(token).unwrap_or_default());
            step.end = self.show(&text, &mut step.pieces);
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

    fn mask(&mut self, _allowed: &mut [u32]) -> bool {
        false
    }

    fn admits(&mut self, drafts: &[u32]) -> usize {
        drafts.len()
    }
}
