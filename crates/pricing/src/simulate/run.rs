//! Playing rules in a world.

use super::oracle;
use super::random::{Random, Use};
use super::world::{Drafts, Load, World, WorldError};
use crate::{CostTable, Depth, DepthConfig, Outcome, Pass, Rule, Window};
use serde::Serialize;

/// Most rows of one launch.
pub(super) const ROW_CAP: usize = 64;
/// Tokens that drafts are compared with; which ones they are does not matter.
const RIGHT: u32 = 1;
const WRONG: u32 = 0;

/// A world and how long it is played.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulation {
    /// The world.
    pub world: World,
    /// Rounds.
    pub rounds: u64,
    /// Decides everything random.
    pub seed: u64,
}

/// The table that rules price rounds with.
#[derive(Debug, Clone, PartialEq)]
pub enum Beliefs {
    /// The world's true costs, without the host's work.
    True,
    /// This one.
    Table(CostTable),
}

/// What a rule earned.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Earned {
    /// Short name of the rule.
    pub rule: String,
    /// Drafts a window.
    pub mean_depth: f64,
    /// Tokens a round.
    pub tokens: f64,
    /// Milliseconds a round, the host's included.
    pub ms: f64,
    /// Tokens a millisecond.
    pub rate: f64,
    /// What is missing to the oracle's rate, as a share of it; chance can take it a little below 0.
    pub regret: f64,
}

/// Every rule in one world.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Tokens a millisecond of the oracle: the better of the best depth in every round and of no drafts at all.
    pub oracle: f64,
    /// One entry a rule.
    pub rules: Vec<Earned>,
}

impl Simulation {
    /// Plays every rule.
    ///
    /// # Errors
    /// A world that cannot be.
    pub fn run(&self, rules: &[Rule], beliefs: &Beliefs) -> Result<Report, WorldError> {
        self.world.check()?;
        let truth = self.world.table()?;
        let table = match beliefs {
            Beliefs::True => &truth,
            Beliefs::Table(table) => table,
        };
        let oracle = oracle::drafting(self, &truth).max(oracle::plain(self, &truth));
        let rules = rules.iter().map(|&rule| self.play(rule, table, &truth, oracle)).collect();
        Ok(Report { oracle, rules })
    }

    pub(super) fn random(&self) -> Random {
        Random { seed: self.seed }
    }

    /// What the reply of `stream` is like in `round`, for one who does not count tokens.
    pub(super) fn load(&self, round: u64, stream: usize) -> &Load {
        self.turn(stream + (round as usize) % self.world.loads.len())
    }

    fn turn(&self, number: usize) -> &Load {
        &self.world.loads[number % self.world.loads.len()]
    }

    fn play(&self, rule: Rule, table: &CostTable, truth: &CostTable, oracle: f64) -> Earned {
        let World { streams, reply, costs, .. } = &self.world;
        let config = DepthConfig { rule, row_cap: ROW_CAP, ..DepthConfig::default() };
        let mut depth = Depth::new(config, table.clone(), self.world.block());
        (0..*streams).for_each(|slot| depth.admit(slot));
        let drafting = depth.drafts_wanted(*streams);
        // Streams do not begin and end together.
        let mut left: Vec<usize> = (0..*streams).map(|s| 1 + reply * (s + 1) / streams).collect();
        let mut turns: Vec<usize> = (0..*streams).collect();
        let (mut tokens, mut ms, mut verified) = (0, 0.0, 0);
        for round in 0..self.rounds {
            let draw = |(slot, &turn): (usize, &usize)| self.turn(turn).drafts(self.random(), round, slot);
            let drafts: Vec<Drafts> = turns.iter().enumerate().map(draw).collect();
            let windows: Vec<Window<'_>> = drafts
                .iter()
                .enumerate()
                .map(|(slot, d)| {
                    let held = if drafting { &d.confidence[..] } else { &[] };
                    let first = drafting.then_some(if d.right > 0 { RIGHT } else { WRONG + 2 });
                    Window { slot, held, first, room: held.len(), copy: None }
                })
                .collect();
            let plan = depth.plan(*streams, &windows);
            let outcome = |(c, d): (&crate::Choice, &Drafts)| {
                let accepted = d.right.min(c.depth);
                let next = if d.right > 0 { RIGHT } else { WRONG };
                Outcome { slot: c.slot, accepted, committed: accepted + 1, next }
            };
            let outcomes: Vec<Outcome> = plan.choices().iter().zip(&drafts).map(outcome).collect();
            depth.observe(&plan, &outcomes);

            let deep: usize = plan.choices().iter().map(|c| c.depth).sum();
            let pass = if drafting { Pass::Run } else { Pass::Skipped };
            let mean = truth.round_ms(streams + deep, *streams, pass) + costs.host;
            ms += mean * (1.0 + costs.noise * self.random().normal(Use::Time, round, 0, 0)).max(0.1);
            verified += deep;
            for o in &outcomes {
                tokens += o.committed;
                left[o.slot] = left[o.slot].saturating_sub(o.committed);
                if left[o.slot] == 0 {
                    left[o.slot] = *reply;
                    turns[o.slot] += 1;
                    depth.admit(o.slot);
                }
            }
        }
        let rounds = self.rounds.max(1) as f64;
        let rate = if ms > 0.0 { tokens as f64 / ms } else { 0.0 };
        Earned {
            rule: rule.to_string(),
            mean_depth: verified as f64 / (rounds * *streams as f64),
            tokens: tokens as f64 / rounds,
            ms: ms / rounds,
            rate,
            regret: 1.0 - rate / oracle,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::PRESETS;

    fn rules() -> Vec<Rule> {
        let names = (0..=5).map(|k| format!("static:{k}")).chain(["cost".to_owned()]);
        names.map(|name| name.parse().unwrap()).collect()
    }

    fn report(world: World, rounds: u64) -> Report {
        Simulation { world, rounds, seed: 1 }.run(&rules(), &Beliefs::True).unwrap()
    }

    #[test]
    fn no_rule_beats_the_oracle_and_results_repeat() {
        for (name, _) in PRESETS {
            let found = report(World::preset(name).unwrap(), 4_000);
            assert_eq!(found, report(World::preset(name).unwrap(), 4_000));
            for rule in &found.rules {
                assert!(rule.regret > -0.02, "{name}: {rule:?}");
            }
        }
    }

    #[test]
    fn an_honest_head_lets_the_rule_beat_every_fixed_depth() {
        let found = report(World::default(), 20_000);
        let (cost, fixed) = found.rules.split_last().unwrap();
        let best = fixed.iter().map(|r| r.rate).fold(0.0, f64::max);
        assert!(cost.rate > 1.02 * best, "{found:?}");
        assert!(cost.regret < 0.03, "{found:?}");
    }

    #[test]
    fn where_drafts_are_free_and_right_all_are_verified() {
        let load = crate::simulate::Load { accept: vec![0.999; 5], spread: 0.0, ..Default::default() };
        let costs = crate::simulate::Costs { row: 0.0, noise: 0.0, ..Default::default() };
        let found = report(World { loads: vec![load], costs, ..World::default() }, 500);
        let cost = found.rules.last().unwrap();
        assert_eq!(cost.mean_depth, 5.0);
        assert!((cost.ms - 42.6).abs() < 1e-9 && cost.tokens > 5.9, "{cost:?}");
    }

    #[test]
    fn without_drafts_a_token_takes_a_round() {
        let found = report(World::preset("poor").unwrap(), 500);
        let plain = &found.rules[0];
        assert_eq!((plain.tokens, plain.mean_depth), (1.0, 0.0));
        assert!((plain.ms / 42.0 - 1.0).abs() < 0.01, "{plain:?}");
    }
}
