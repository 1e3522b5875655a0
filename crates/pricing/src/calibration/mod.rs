//! The measurement of a cost table: what is timed, in which order, and what becomes of it.
//!
//! A [`Calibration`] says step by step what to run; whoever runs it owns the model and the clock, hands back how long
//! each step took and how much time has passed. In this order: prompts, what is not timed, every window once, the first
//! ingest, drafter passes, the two windows of the slot term side by side, and repeats as long as the budget lasts.
//!
//! ```
//! use std::time::Duration;
//! use tokenfare_pricing::{Calibration, CalibrationOptions, Room, Took};
//!
//! let room = Room { slots: 1, context: 4096, window_rows: 64, launch_bound: 16 };
//! let mut calibration = Calibration::new(CalibrationOptions::default(), room).unwrap();
//! let mut elapsed = Duration::ZERO;
//! while let Some(step) = calibration.next(elapsed) {
//!     let took = Took { whole: Duration::from_millis(10), ingest: Duration::from_millis(1) };
//!     elapsed += took.whole;
//!     calibration.record(&step, took);
//! }
//! let measured = calibration.finish().unwrap();
//! assert_eq!(measured.table.window_ms(6), 10.0);
//! ```

mod launch;
mod measurement;
mod options;
mod report;
mod run;

pub use launch::{Launch, Room};
pub use measurement::{Measurement, NoRoom, RunCounts};
pub use options::{CalibrationOptions, Statistic};
pub use report::{Tally, calibration_line, method_line};
pub use run::{Calibration, Step, Took, Use};
