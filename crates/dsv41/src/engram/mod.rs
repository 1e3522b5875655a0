//! Engram: n-gram memory tables, and which of their rows a token reads.

mod hash;
pub mod primes;
mod seed;

pub use hash::{EngramHash, MissingPad, multipliers};
