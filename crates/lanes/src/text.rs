//! What a reply's tokens mean as text. The model family implements it; lanes call it token by token.

use crate::GrammarError;

/// Which part of a reply a piece of text belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Channel {
    /// The answer.
    #[default]
    Content,
    /// The reasoning before the answer, without its tags.
    Reasoning,
}

/// What a reply shows next: complete UTF-8, no part of a stop string that may still complete, no markup of tool calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text of a channel, never empty.
    Text {
        /// Part of the reply.
        channel: Channel,
        /// The text.
        text: String,
    },
    /// A tool call begins; the tool's name is complete.
    Call(String),
    /// More of the arguments of the call begun last, never empty. Together they are the text of one JSON object.
    Arguments(String),
    /// The call begun last is complete. A call without it was broken off and must not be acted on.
    CallEnd,
}

impl Piece {
    /// Text of the answer.
    pub fn content(text: impl Into<String>) -> Self {
        Self::Text { channel: Channel::Content, text: text.into() }
    }

    /// Text of the reasoning.
    pub fn reasoning(text: impl Into<String>) -> Self {
        Self::Text { channel: Channel::Reasoning, text: text.into() }
    }
}

/// Why a reply's text ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextEnd {
    /// A stop string; the text before it has been released, the string itself and what follows is dropped.
    StopString(String),
    /// The grammar is complete.
    Grammar,
    /// The one tool call that the request allows is complete.
    Call,
}

/// What one committed token did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Step {
    /// Released text, in order. Concatenated over a reply it does not depend on how tokens were grouped in rounds.
    pub pieces: Vec<Piece>,
    /// Set when the reply ends with this token.
    pub end: Option<TextEnd>,
}

/// Detokenization, stop strings, reasoning state and grammar of one reply.
///
/// Lanes push committed tokens one at a time, exactly as serial decoding would, and stop at [`Step::end`]. Stop
/// tokens are pushed with `silent` set: they are delivered without text.
pub trait Text: Send {
    /// Takes the next token of the reply.
    fn push(&mut self, token: u32, silent: bool) -> Step;

    /// Releases what was held back, at the end of the reply (an unfinished UTF-8 sequence becomes U+FFFD).
    fn finish(&mut self) -> Vec<Piece>;

    /// Whether the next token is inside the reasoning.
    fn reasoning(&self) -> bool;

    /// Clears `allowed` bits (token `t` is bit `t % 32` of word `t / 32`) of tokens that cannot come next.
    /// Returns whether any rule applies; `false` leaves `allowed` untouched.
    ///
    /// # Errors
    /// The grammar cannot go on. The reply fails at this token, however rounds group it.
    fn mask(&mut self, allowed: &mut [u32]) -> Result<bool, GrammarError>;

    /// How many of `drafts`, from the first, could come next in this order. Leaves the state unchanged.
    fn admits(&mut self, drafts: &[u32]) -> usize;
}

/// Text that shows nothing and allows everything: for tests and for callers that want ids alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoText;

impl Text for NoText {
    fn push(&mut self, _token: u32, _silent: bool) -> Step {
        Step::default()
    }
    fn finish(&mut self) -> Vec<Piece> {
        Vec::new()
    }
    fn reasoning(&self) -> bool {
        false
    }
    fn mask(&mut self, _allowed: &mut [u32]) -> Result<bool, GrammarError> {
        Ok(false)
    }
    fn admits(&mut self, drafts: &[u32]) -> usize {
        drafts.len()
    }
}
