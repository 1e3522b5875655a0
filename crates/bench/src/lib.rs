//! Measures inference servers over HTTP, and compares two of them.
//!
//! Every measurement is made from outside, with requests that any OpenAI-compatible server takes; where a server tells the
//! hash of a reply's tokens, replies are compared by it. A comparison starts fresh servers, alternates them, and judges each
//! cell by one pure [`verdict`]. What it saw becomes a receipt.

pub mod client;
pub mod compare;
mod error;
pub mod load;
pub mod machine;
pub mod nullserver;
pub mod receipt;
pub mod run;
pub mod stats;
pub mod stop;
pub mod sweep;
pub mod table;
#[cfg(feature = "testkit")]
pub mod testkit;
pub mod verdict;

pub use client::{Client, Reply};
pub use error::BenchError;
pub use load::Load;
