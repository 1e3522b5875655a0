//! What the API needs of a model family.

use serde_json::Value;
use tokenfare_lanes::{Channel, Grammar, Text};

/// A conversation as the API received it, checked for shape but not for the family's rules.
#[derive(Debug, Clone, PartialEq)]
pub struct Chat {
    /// Messages in the form of OpenAI's chat completions.
    pub messages: Vec<Value>,
    /// Tools that the reply may call, in the form of OpenAI's chat completions.
    pub tools: Vec<Value>,
    /// A JSON schema that the model is told to answer by.
    pub schema: Option<Value>,
    /// Whether the reply may reason first.
    pub thinking: bool,
    /// Reasoning effort: a level's name or a number, as the family accepts it.
    pub effort: Option<Value>,
}

/// A prompt ready for a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Token ids.
    pub ids: Vec<u32>,
    /// Prompt lengths at which a kept state is likely to be resumed, such as the end of the system message.
    pub marks: Vec<usize>,
    /// What the reply to it looks like.
    pub form: Form,
}

/// What a reply's tokens mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// Raw text; tags are shown as they are.
    #[default]
    Raw,
    /// An assistant's turn that starts in this channel.
    Chat(Channel),
}

impl Form {
    /// Whether the reply starts inside the reasoning.
    pub fn reasons(self) -> bool {
        self == Self::Chat(Channel::Reasoning)
    }
}

/// How many tools a reply may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Calls {
    /// None.
    None,
    /// One, which ends the reply.
    One,
    /// Any number.
    #[default]
    Any,
}

/// What an answer must be.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// A JSON text that the schema describes.
    JsonSchema(Value),
    /// A text that matches the regular expression as a whole.
    Regex(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// A text of the grammar, in Lark's form or in EBNF.
    Grammar(String),
}

/// What a reply must be after its reasoning: the answer, or calls of the tools, or either if both are given.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Guide {
    /// What the reply is guided in.
    pub form: Form,
    /// The answer, with the field that asks for it.
    pub answer: Option<(String, Answer)>,
    /// Tools in the form of OpenAI's chat completions.
    pub tools: Vec<Value>,
    /// The place of the only tool that may be called, if one is named.
    pub named: Option<usize>,
    /// How many calls there may be.
    pub calls: Calls,
}

/// How a reply's tokens become text.
#[derive(Default)]
pub struct ReplyText {
    /// What they mean.
    pub form: Form,
    /// Strings that end the reply.
    pub stop: Vec<String>,
    /// How many tools it may call.
    pub calls: Calls,
    /// What bounds the answer.
    pub grammar: Option<Box<dyn Grammar>>,
}

/// A field the family does not accept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DialectError {
    /// The field, such as `messages[2].content`.
    pub field: String,
    /// What was expected and found.
    pub message: String,
}

/// Prompt encoding and token text of one model family.
pub trait Dialect: Send + Sync + 'static {
    /// Encodes a conversation, ready for the assistant's turn.
    fn encode_chat(&self, chat: &Chat) -> Result<Prompt, DialectError>;

    /// Encodes raw text; control tokens written in it are control tokens.
    fn encode(&self, text: &str) -> Result<Vec<u32>, DialectError>;

    /// Text of tokens, control tokens included; broken UTF-8 becomes U+FFFD.
    fn decode(&self, ids: &[u32]) -> String;

    /// Bytes of a token, which need not be UTF-8 by themselves.
    fn bytes(&self, id: u32) -> &[u8];

    /// What bounds a guided reply. Blocks for the time that a grammar takes to compile, which is bounded.
    fn grammar(&self, guide: &Guide) -> Result<Box<dyn Grammar>, DialectError>;

    /// The text state of one reply.
    fn reply(&self, how: ReplyText) -> Result<Box<dyn Text>, DialectError>;

    /// Tokens that end every reply unless the caller ignores them.
    fn stop_tokens(&self) -> Vec<u32>;

    /// The token that closes the reasoning.
    fn reasoning_close(&self) -> Option<u32>;
}
