//! What a draft is worth: cost tables, acceptance estimates and the rules that choose how many drafts a round verifies.
//!
//! Everything here is arithmetic over numbers handed in: no clock, no file, no environment, no model. A choice of
//! depth never changes a token of a reply, only how long the reply takes.
//!
//! ```
//! use tokenfare_pricing::{CostTable, Depth, DepthConfig, Outcome, Window};
//!
//! let mut depth = Depth::new(DepthConfig::default(), CostTable::built_in(), 5);
//! depth.admit(0);
//! let window = Window { slot: 0, held: &[0.9, 0.8, 0.2], first: Some(17), room: 100, copy: None };
//! let plan = depth.plan(1, &[window]);
//! let choice = &plan.choices()[0];
//! assert_eq!(choice.depth, 2);
//! depth.observe(&plan, &[Outcome { slot: 0, accepted: 2, committed: 3, next: 17 }]);
//! ```

mod acceptance;
mod calibration;
mod copies;
mod depth;
mod estimate;
mod history;
mod joint;
pub mod log;
mod plan;
pub mod replay;
mod rule;
mod shape;
pub mod simulate;
mod stored;
mod table;
mod timings;
mod value;

pub use acceptance::{
    Acceptance, CONFIDENCE_BINS, CONFIDENCE_EDGES, DraftCount, confidence_bin, mean_kept_error,
};
pub use calibration::{
    Calibration, CalibrationOptions, Launch, Measurement, NoRoom, Room, RunCounts, Statistic, Step, Tally,
    Took, Use, calibration_line, method_line,
};
pub use copies::{Band, CopyRecord};
pub use depth::Depth;
pub use estimate::{Estimate, confidence};
pub use history::{HISTORY_ROUNDS, History};
pub use joint::{Share, share_rows};
pub use plan::{Choice, Copied, DepthConfig, Outcome, Plan, SamplingClass, Source, Window};
pub use rule::{Joint, Rule, RuleError, Skip};
pub use shape::{Shape, non_decreasing};
pub use stored::{Candidate, NO_ID, Preference, TableShape, Wanted};
pub use table::{CostTable, Pass, TableError};
pub use timings::{Timings, TimingsError};
pub use value::{Priced, TIE, best_depth, expected_tokens, surplus};
