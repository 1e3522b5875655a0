//! What rules would have chosen on logged rounds, and what they would have earned.
//!
//! A log says what became of the drafts that were verified, and of nothing beyond them. So a rule's choice falls into
//! one of three kinds. It is *known* when it goes no deeper than the log can tell: up to the drafts verified, to the
//! first one rejected, or to the reply's end. A deeper choice is *estimated*, position by position, from explored
//! rounds alone, whose depth nobody's expectation chose, where enough of them saw a draft of the same class, source,
//! position and confidence. What remains is *unknown*, and bounds a result from both sides instead of being guessed.
//!
//! Rounds stand for themselves: every rule is asked at the positions where the logged rounds began, though it would
//! have come by others.

mod evidence;
mod judge;
mod seen;
mod summary;

pub use evidence::{BINS, Cell, Evidence, Kept, LEAST_TRIES, bin};
pub use judge::{Replay, SETTLED, StartError, Verdict};
pub use summary::{ClassSummary, Observed, Summary};
