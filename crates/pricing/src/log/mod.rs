//! The accept log: what was chosen in every round, and what was kept of it.
//!
//! A log is a file of JSON lines. Each start of the engine appends one `start` record; each round a `choose`
//! record, a `commit` record for each window that committed tokens, and a `round` record at its end. The writer and the
//! reader share the types of this module.

mod reader;
mod record;

pub use reader::{Item, LogError, LoggedRound, Reader, Warning};
pub use record::{FORMAT, LoggedAsk, LoggedChoice, LoggedCommit, LoggedEnd, LoggedStart, Prices, Record};
