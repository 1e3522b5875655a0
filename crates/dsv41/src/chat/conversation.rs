//! A conversation as a request describes it.

use serde_json::Value;

use super::encode::encode;
use super::error::{ChatError, ChatProblem};
use super::message::{Message, Role, response_format};
use super::options::ChatOptions;
use super::prompt::Prompt;
use super::tool::{Tool, parse_tools};
use super::turns::turns;

/// Messages joined to turns, at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    turns: Vec<Message>,
}

impl Conversation {
    /// Reads a JSON list of messages. Unknown fields are ignored.
    ///
    /// # Errors
    /// The first field that cannot be used, by its path from `messages`; messages that do not fit together.
    pub fn from_json(messages: &Value) -> Result<Self, ChatError> {
        match messages.as_array() {
            Some(list) if !list.is_empty() => {
                let parse = |(i, message)| Message::parse(&format!("messages[{i}]"), message);
                let messages = list.iter().enumerate().map(parse).collect::<Result<_, _>>()?;
                Ok(Self { turns: turns(messages)? })
            }
            Some(_) => {
                let (expected, found) = ("at least one message", "an empty list".to_owned());
                Err(ChatError::new("messages", ChatProblem::Expected { expected, found }))
            }
            None => Err(ChatError::expected("messages", "a list of messages", messages)),
        }
    }

    /// Offers a JSON list of tools, beside those that system messages offer.
    ///
    /// # Errors
    /// The first field that cannot be used, by its path from `tools`.
    pub fn with_tools(mut self, tools: &Value) -> Result<Self, ChatError> {
        let tools = parse_tools("tools", tools)?;
        if !tools.is_empty() {
            self.system().tools.extend(tools);
        }
        Ok(self)
    }

    /// Prescribes a schema for the reply; an absent or empty one prescribes nothing.
    pub fn with_response_format(mut self, format: &Value) -> Self {
        if let Some(format) = response_format(format) {
            self.system().response_format = Some(format);
        }
        self
    }

    /// The turns: as the messages, but neighbouring user messages and tool results are one user message.
    pub fn turns(&self) -> &[Message] {
        &self.turns
    }

    /// All tools offered.
    pub fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.turns.iter().flat_map(|turn| &turn.tools)
    }

    /// The prompt for the next reply.
    pub fn encode(&self, options: &ChatOptions) -> Prompt {
        encode(&self.turns, options)
    }

    /// The system message at the start, an empty one if there is none.
    fn system(&mut self) -> &mut Message {
        if self.turns[0].role != Role::System {
            self.turns.insert(0, Message::new(Role::System, Vec::new()));
        }
        &mut self.turns[0]
    }
}
