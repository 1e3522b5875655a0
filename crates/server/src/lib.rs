//! The HTTP API over the lane engine.
//!
//! Each protocol is a thin translation: a body becomes a validated [`tokenfare_lanes::Request`], and lane events become
//! the protocol's reply. What is particular to a model family (prompt encoding, meaning of tokens) is behind [`Dialect`].

mod answer;
mod chat;
mod completions;
mod connections;
mod dialect;
mod error;
mod fields;
mod generation;
mod messages;
mod reply;
mod serve;
mod stream;
mod tools;
mod turn;

pub use dialect::{Answer, Calls, Chat, Dialect, DialectError, Form, Guide, Prompt, ReplyText};
pub use error::ApiError;
pub use generation::Defaults;
pub use serve::{Server, ServerOptions, router};
