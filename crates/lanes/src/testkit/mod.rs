//! What tests of lanes and of models share: a fake model whose every slip shows, texts with stop strings, a fixed
//! clock, depths at random, and the exactness suite.

mod collect;
mod exactness;
mod fake;
mod probe;
mod words;

pub use collect::{Collected, CollectedCall, collect, run};
pub use exactness::{
    Breadth, Compared, Mismatch, Workload, exactness, exactness_of_prompts, exactness_priced,
};
pub use fake::{FakeConfig, FakeModel, Repeat};
pub use probe::{Call, Fault, Probe};
pub use words::{Bound, Words};

use crate::{Clock, DepthOracle};
use std::time::Duration;

/// A clock that stands still.
#[derive(Debug, Clone, Copy, Default)]
pub struct FixedClock(pub Duration);

impl Clock for FixedClock {
    fn now(&self) -> Duration {
        self.0
    }
}

/// Depths from 0 to the most allowed, all equally likely, as a function of the seed, the round and the slot.
#[derive(Debug, Clone, Copy)]
pub struct RandomDepth {
    /// Changes every depth.
    pub seed: u64,
}

impl DepthOracle for RandomDepth {
    fn depth(&mut self, round: u64, slot: usize, most: usize) -> Option<usize> {
        let bits = crate::sampling::key(self.seed, round, slot as u64);
        Some((bits % (most as u64 + 1)) as usize)
    }
}
