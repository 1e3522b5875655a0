//! Settings of the engine, all typed; nothing is read from the environment.

use crate::{Clock, Observer, SystemClock};
use std::sync::Arc;
use tokenfare_pricing::{CostTable, DepthConfig};

/// Whether rounds may verify drafts at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Drafts {
    /// For every request that does not decline them.
    #[default]
    On,
    /// For none: no drafter pass, no copies.
    Off,
}

/// Whether drafts may be copied from a stream's own tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Copies {
    /// Wherever they are worth more than the drafter's.
    #[default]
    On,
    /// Never.
    Off,
}

/// Chooses depths in place of the depth rule; no choice changes a token.
pub trait DepthOracle: Send {
    /// The number of drafts to verify, of at most `most`, for the window of `slot` in round `round`; `None` leaves it to the rule.
    fn depth(&mut self, round: u64, slot: usize, most: usize) -> Option<usize>;
}

/// Every window of one round in so many verifies all drafts it may, so that deep positions keep being learnt from.
#[derive(Debug, Clone, Copy)]
pub struct Explore {
    /// Rounds from one exploring round to the next, at least 1.
    pub every: u64,
}

impl DepthOracle for Explore {
    fn depth(&mut self, round: u64, _slot: usize, most: usize) -> Option<usize> {
        round.is_multiple_of(self.every.max(1)).then_some(most)
    }
}

/// Settings of the lane engine.
pub struct LanesConfig {
    /// Most requests waiting for a lane.
    pub queue: usize,
    /// Whether rounds may verify drafts.
    pub drafts: Drafts,
    /// The depth rule; its row cap is lowered to what the model's windows hold.
    pub depth: DepthConfig,
    /// Prices of rounds.
    pub table: CostTable,
    /// Whether drafts may be copied.
    pub copies: Copies,
    /// Shortest match that a copy is drafted from.
    pub lookup_min: usize,
    /// Most tokens of a prompt piece, at most the model's own limit in any case.
    pub piece_rows: usize,
    /// Percent of a prompt piece's time that running streams get before the next piece, 0..=100; 0 feeds whole prompts first.
    pub piece_share: u32,
    /// Bytes of kept prompt states; 0 keeps none.
    pub prompt_cache_bytes: usize,
    /// The model family's name in log lines.
    pub family: &'static str,
    /// Where times come from.
    pub clock: Arc<dyn Clock>,
    /// Overrides the depth rule.
    pub oracle: Option<Box<dyn DepthOracle>>,
    /// Watches rounds.
    pub observer: Option<Box<dyn Observer>>,
}

impl Default for LanesConfig {
    /// 256 waiting requests, drafts on, priced by the built-in table, and a prompt cache of 1 GiB.
    fn default() -> Self {
        Self {
            queue: 256,
            drafts: Drafts::On,
            depth: DepthConfig::default(),
            table: CostTable::built_in(),
            copies: Copies::On,
            lookup_min: 4,
            piece_rows: usize::MAX,
            piece_share: 25,
            prompt_cache_bytes: 1 << 30,
            family: "dsv41",
            clock: Arc::new(SystemClock::new()),
            oracle: None,
            observer: None,
        }
    }
}
