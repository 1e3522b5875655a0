//! Rules in worlds whose acceptance and costs are known, against an oracle that knows them too.
//!
//! A world says how likely drafts are kept, what the confidence head makes of that, and what rounds really cost. A
//! rule sees confidences and a table, as on a server. Everything random is keyed by the seed, the round, the stream
//! and the position, so that every rule meets the same rounds and a result repeats to the last bit.

mod oracle;
mod random;
mod run;
mod world;

pub use run::{Beliefs, Earned, Report, Simulation};
pub use world::{Cliff, Costs, Load, PRESETS, World, WorldError};
