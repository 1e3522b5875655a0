//! The HTTP API over the lane engine.
//!
//! Each protocol is a thin translation: a body becomes a validated [`tokenfare_lanes::Request`], and lane events become
//! the protocol's reply. What is particular to a model family (prompt encoding, meaning of tokens) is behind [`Dialect`].

mod chat;
mod completions;
mod dialect;
mod error;
mod fields;
mod generation;
mod reply;
mod serve;
mod stream;

pub use dialect::{Chat, Dialect, DialectError, Form, Prompt, ReplyText};
pub use error::ApiError;
pub use generation::Defaults;
pub use serve::{Server, ServerOptions, router};
