//! Measured speeds of real engines.

use tokenfare_lanes::{Drafts, Lanes, LanesConfig};
use tokenfare_pricing::{CostTable, DepthConfig};

use crate::options::Options;
use crate::play::Tally;
use crate::trace::Cell;
use crate::{request, rules, support};

/// Tokens a second of each turn, by rule; nothing when no turn is wanted.
pub fn speeds(cell: &Cell, table: &CostTable, options: &Options, played: &[Tally]) -> Vec<Vec<f64>> {
    if options.turns == 0 {
        return Vec::new();
    }
    let start = |rule| {
        let config = LanesConfig {
            table: table.clone(),
            depth: DepthConfig { rule, ..DepthConfig::default() },
            lookup_min: usize::MAX,
            prompt_cache_bytes: 0,
            ..LanesConfig::default()
        };
        Lanes::start(support::model(Drafts::On, options.threads), config).expect("a thread")
    };
    let engines: Vec<Lanes> = rules().into_iter().map(start).collect();
    let length = options.length(cell);
    let mut speeds = vec![Vec::new(); engines.len()];
    for turn in 0..options.turns {
        let mut sums = vec![(0, 0.0, 0); engines.len()];
        for (number, recorded) in cell.replies.iter().enumerate() {
            for i in 0..engines.len() {
                let e = (i + number + turn) % engines.len();
                let (tokens, stats) = support::reply(&engines[e], request(cell, number, length));
                assert_eq!(tokens, recorded.tokens[..length], "{}: reply {number} changed", cell.load);
                sums[e].0 += tokens.len() - 1;
                sums[e].1 += stats.decode_s;
                sums[e].2 += stats.rounds;
            }
        }
        for ((speeds, sum), played) in speeds.iter_mut().zip(sums).zip(played) {
            // Later turns start with what the first has taught the estimate.
            assert!(turn > 0 || sum.2 == played.rounds, "{} rounds, modelled {}", sum.2, played.rounds);
            speeds.push(sum.0 as f64 / sum.1);
        }
    }
    speeds
}
