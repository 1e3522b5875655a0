//! The HTTP API over the lane engine.
//!
//! Each protocol is a thin translation: a body becomes a validated [`tokenfare_lanes::Request`], and lane events become
//! the protocol's reply. What is particular to a model family (prompt encoding, meaning of tokens) is behind [`Dialect`].

mod admission;
mod answer;
mod anthropic;
mod auth;
mod blocks;
mod chat;
mod chat_body;
mod completions;
mod connections;
mod dialect;
mod error;
mod fields;
mod generation;
mod limits;
mod messages;
mod metrics;
mod openapi;
mod pricing;
mod reply;
mod responses;
mod router;
mod serve;
mod stream;
#[cfg(feature = "testkit")]
pub mod testkit;
mod tokenize;
mod tools;
mod turn;
mod watchdog;

pub use auth::{ApiKeys, KeyError};
pub use dialect::{Answer, Calls, Chat, Dialect, DialectError, Form, Guide, Prompt, ReplyText};
pub use error::ApiError;
pub use generation::Defaults;
pub use metrics::Metrics;
pub use pricing::Costs;
pub use router::router;
pub use serve::{Server, ServerOptions};
