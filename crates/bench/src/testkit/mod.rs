//! Simulated servers, for tests of comparisons: one over HTTP that sleeps through its rounds, and one without a clock.

mod runs;
mod server;

pub use runs::SimulatedRuns;
pub use server::{Pace, SimulatedServer};
