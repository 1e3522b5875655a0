//! What can be earned by one who knows the world.

use super::run::Simulation;
use crate::{CostTable, Share, share_rows};

/// Steps after which the rate has long settled: each at least doubles the exact digits.
const STEPS: usize = 12;

/// The best tokens a millisecond of rounds that run a pass, when the true probabilities and mean costs are known and any
/// depth is allowed.
///
/// The best choice at a rate `lambda` maximises `tokens - lambda * ms` in every round; the rate it earns is at least
/// `lambda` unless that is the best already (Dinkelbach's method for ratios).
pub(super) fn drafting(simulation: &Simulation, table: &CostTable) -> f64 {
    let world = &simulation.world;
    let mut lambda = 1.0 / (table.rows_ms(1) + world.costs.host);
    for _ in 0..STEPS {
        let (mut tokens, mut ms) = (0.0, 0.0);
        for round in 0..simulation.rounds {
            let truths: Vec<Vec<f64>> = (0..world.streams)
                .map(|stream| simulation.load(round, stream).drafts(simulation.random(), round, stream).truth)
                .collect();
            let share = |(slot, q): (usize, &'_ Vec<f64>)| (slot, q.len());
            let sizes: Vec<(usize, usize)> = truths.iter().enumerate().map(share).collect();
            let shares: Vec<Share<'_>> =
                sizes.iter().zip(&truths).map(|(&(slot, top), q)| Share { slot, q, floor: 0, top }).collect();
            let depths = share_rows(&shares, 0, super::run::ROW_CAP, table, lambda);
            let rows = depths.iter().map(|d| d + 1).sum();
            tokens += truths.iter().zip(&depths).map(|(q, &d)| crate::expected_tokens(q, d)).sum::<f64>();
            ms += table.round_ms(rows, world.streams, crate::Pass::Run) + world.costs.host;
        }
        lambda = tokens / ms;
    }
    lambda
}

/// Tokens a millisecond of rounds without drafts.
pub(super) fn plain(simulation: &Simulation, table: &CostTable) -> f64 {
    let streams = simulation.world.streams;
    let ms = table.round_ms(streams, streams, crate::Pass::Skipped) + simulation.world.costs.host;
    streams as f64 / ms
}
