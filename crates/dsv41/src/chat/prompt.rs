//! An encoded conversation: control tokens and text, kept apart until they are ids.

use serde_json::Value;
use tokenfare_lanes::Channel;

use crate::tokenizer::{Control, TextError, Tokenizer};

/// A stretch of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// A control token written by the encoder.
    Control(Control),
    /// Text in which nothing is a control token, whoever wrote it.
    Text(String),
}

/// A prompt in pieces, ready to be made ids.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prompt {
    segments: Vec<Segment>,
    images: Vec<Value>,
    channel: Channel,
}

impl Prompt {
    /// Control tokens and text in order; no two texts are neighbours.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Image parts in the order of their [`Control::Image`] tokens.
    pub fn images(&self) -> &[Value] {
        &self.images
    }

    /// Where the reply starts: inside the reasoning if the prompt ends with an open `<think>`.
    pub fn channel(&self) -> Channel {
        self.channel
    }

    /// The prompt as one string. Ids made from it would turn control tokens in user text into real ones.
    pub fn text(&self) -> String {
        let text = |segment: &Segment| match segment {
            Segment::Control(kind) => kind.text().to_owned(),
            Segment::Text(text) => text.clone(),
        };
        self.segments.iter().map(text).collect()
    }

    /// Token ids: one of each control token, and those of each text taken plainly.
    ///
    /// # Errors
    /// The vocabulary lacks a control token of the prompt.
    pub fn ids(&self, tokenizer: &Tokenizer) -> Result<Vec<u32>, TextError> {
        let mut ids = Vec::new();
        for segment in &self.segments {
            match segment {
                Segment::Control(kind) => ids.push(tokenizer.require(*kind)?),
                Segment::Text(text) => ids.extend(tokenizer.encode_plain(text)?),
            }
        }
        Ok(ids)
    }

    /// Appends a control token.
    pub(super) fn control(&mut self, kind: Control) {
        match kind {
            Control::ThinkOpen => self.channel = Channel::Reasoning,
            Control::ThinkClose => self.channel = Channel::Content,
            _ => {}
        }
        self.segments.push(Segment::Control(kind));
    }

    /// Appends an image.
    pub(super) fn image(&mut self, part: &Value) {
        self.images.push(part.clone());
        self.control(Control::Image);
    }

    /// Appends text in which nothing is a control token.
    pub(super) fn push(&mut self, text: &str) {
        match self.segments.last_mut() {
            _ if text.is_empty() => {}
            Some(Segment::Text(last)) => last.push_str(text),
            _ => self.segments.push(Segment::Text(text.to_owned())),
        }
    }

    /// Appends the format's own text, in which the tags of reasoning and tool calls are control tokens.
    pub(super) fn markup(&mut self, mut text: &str) {
        const TAGS: [Control; 3] = [Control::ThinkOpen, Control::ThinkClose, Control::Dsml];
        let next = |text: &str| TAGS.iter().filter_map(|tag| Some((text.find(tag.text())?, *tag))).min();
        while let Some((at, tag)) = next(text) {
            self.push(&text[..at]);
            self.control(tag);
            text = &text[at + tag.text().len()..];
        }
        self.push(text);
    }
}
