//! `bench compare`: two arms, fresh servers, alternated runs, one verdict a cell.
//!
//! [`schedule`](schedule::compare) decides the order and what is run again; it drives a [`Driver`], which is
//! [`Servers`] in earnest and simulated in tests.

mod command;
mod driver;
mod outcome;
pub mod schedule;
mod series;
mod server;

pub use command::ArmCommand;
pub use driver::{Servers, Waiting};
pub use outcome::{CellOutcome, Comparison, Role, Run, SeriesRuns};
pub use schedule::{Driver, Event};
pub use series::{Arm, Plan, Series};
pub use server::Server;
