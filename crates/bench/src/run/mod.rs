//! Measurements of one running server.

pub mod cell;
pub mod concurrent;
mod exactness;
pub mod openai;
pub mod prompt;
mod streams;

pub use cell::{Cell, CellPlan, CellRun, Part, Rep};
pub use exactness::{Exactness, Reference};
