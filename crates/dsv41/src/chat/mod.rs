//! Conversations to prompts, and completions back to messages.
//!
//! The family has no template: the prompt is control tokens between texts, written by the rules of the official
//! encoding. [`Conversation`] reads messages, [`Conversation::encode`] gives a [`Prompt`], and
//! [`completion::parse`] reads what the model wrote after it.
//!
//! ```
//! use serde_json::json;
//! use tokenfare_dsv41::chat::{ChatOptions, Conversation, PastReasoning, Thinking, completion};
//! use tokenfare_lanes::Channel;
//!
//! let conversation = Conversation::from_json(&json!([{"role": "user", "content": "Hello"}]))?;
//! let options = ChatOptions { thinking: Thinking::Off, past_reasoning: PastReasoning::Drop };
//! let prompt = conversation.encode(&options);
//! assert_eq!(prompt.text(), "<｜begin▁of▁sentence｜><｜User｜>Hello<｜Assistant｜></think>");
//! assert_eq!(prompt.channel(), Channel::Content);
//!
//! let reply = completion::parse("Let me see.</think>Hi!", Channel::Reasoning)?;
//! assert_eq!((reply.reasoning.as_str(), reply.content.as_str()), ("Let me see.", "Hi!"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod call_grammar;
mod calls;
pub mod completion;
mod conversation;
mod encode;
mod error;
mod json;
mod message;
mod options;
mod prompt;
mod tool;
mod turns;
mod words;

pub use call_grammar::call_grammar;
pub use calls::CallStream;
pub use conversation::Conversation;
pub use error::{ChatError, ChatProblem};
pub use message::{Ending, Message, Part, Role, Task};
pub use options::{ChatOptions, Effort, EffortError, PastReasoning, Thinking};
pub use prompt::{Prompt, Segment};
pub use tool::{Tool, ToolCall, ToolName, parse_tools};
