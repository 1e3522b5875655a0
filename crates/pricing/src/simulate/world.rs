//! What is true in a simulation.

use super::random::{Random, Use};
use crate::{CostTable, TableError};
use serde::{Deserialize, Serialize};

/// Rows that the table of a world's true costs lists.
const TABLE_ROWS: usize = 64;

/// A world. Fields that a file leaves out have the values of the preset `linear`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct World {
    /// Streams in every round.
    pub streams: usize,
    /// Tokens of a reply.
    pub reply: usize,
    /// What replies are like; those of a stream take turns.
    pub loads: Vec<Load>,
    /// What rounds cost.
    pub costs: Costs,
}

/// What drafts are like. In logits, a draft's true probability is that of `accept` plus a normal deviation `spread`, and
/// its confidence is `shift + scale * truth` plus a normal deviation `noise`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Load {
    /// Middle probability that the draft of each position is kept once those before it are.
    pub accept: Vec<f64>,
    /// How much drafts differ.
    pub spread: f64,
    /// Below 0 the head is under-confident, above 0 over-confident.
    pub shift: f64,
    /// Below 1 confidences differ less than the truth does.
    pub scale: f64,
    /// What the head does not know.
    pub noise: f64,
}

/// What rounds cost, in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Costs {
    /// A window without rows.
    pub base: f64,
    /// Each row.
    pub row: f64,
    /// Steps, as at the end of a launch.
    pub cliffs: Vec<Cliff>,
    /// A drafter pass.
    pub pass: f64,
    /// Each further stream.
    pub slot: f64,
    /// Work of the host in every round, which no table knows.
    pub host: f64,
    /// Deviation of a round's time, as a share of it.
    pub noise: f64,
}

/// A step in the cost of rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cliff {
    /// First row count behind it.
    pub rows: usize,
    /// Milliseconds that it adds.
    pub ms: f64,
}

impl Default for World {
    fn default() -> Self {
        Self { streams: 1, reply: 256, loads: vec![Load::default()], costs: Costs::default() }
    }
}

impl Default for Load {
    fn default() -> Self {
        Self { accept: vec![0.85, 0.75, 0.65, 0.6, 0.55], spread: 1.5, shift: 0.0, scale: 1.0, noise: 0.5 }
    }
}

impl Default for Costs {
    /// The built-in table's.
    fn default() -> Self {
        Self { base: 37.0, row: 5.0, cliffs: Vec::new(), pass: 5.6, slot: 0.0, host: 0.0, noise: 0.02 }
    }
}

/// Names of the presets, each with what it is for.
pub const PRESETS: [(&str, &str); 9] = [
    ("linear", "rows at the built-in prices and an honest head"),
    ("under", "an under-confident head"),
    ("over", "an over-confident head"),
    ("mixed", "replies that take turns between an under- and an over-confident head"),
    ("poor", "drafts that are seldom right"),
    ("cliff", "a launch that ends after 4 rows"),
    ("host", "host work of half a window in every round"),
    ("noisy", "a head that knows little and times that vary"),
    ("shared", "four streams whose loads take turns"),
];

/// A world that cannot be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WorldError {
    /// No such preset.
    #[error("world {0:?}: expected one of {names}", names = PRESETS.map(|p| p.0).join(", "))]
    Name(String),
    /// A value out of its range.
    #[error("{field}: {found}, expected {expected}")]
    Value {
        /// Where.
        field: &'static str,
        /// The value.
        found: String,
        /// The range.
        expected: &'static str,
    },
    /// Costs that make no table.
    #[error("costs: {0}")]
    Costs(#[from] TableError),
}

impl World {
    /// The preset of this name.
    ///
    /// # Errors
    /// A name that is none of [`PRESETS`].
    pub fn preset(name: &str) -> Result<Self, WorldError> {
        let load = Load::default();
        let (under, over) = (Load { shift: -1.5, ..load.clone() }, Load { shift: 1.5, ..load.clone() });
        let poor = Load { accept: vec![0.3, 0.25, 0.2, 0.2, 0.2], ..load.clone() };
        let world = Self::default();
        let one = |load| Self { loads: vec![load], ..world.clone() };
        let costs = |costs| Self { costs, ..world.clone() };
        Ok(match name {
            "linear" => world,
            "under" => one(under),
            "over" => one(over),
            "mixed" => Self { loads: vec![under, over], ..world },
            "poor" => one(poor),
            "cliff" => costs(Costs { cliffs: vec![Cliff { rows: 5, ms: 30.0 }], ..Costs::default() }),
            "host" => costs(Costs { host: 20.0, ..Costs::default() }),
            "noisy" => Self {
                loads: vec![Load { noise: 2.0, ..load }],
                costs: Costs { noise: 0.2, ..Costs::default() },
                ..world
            },
            "shared" => Self {
                streams: 4,
                loads: vec![load, poor],
                costs: Costs { cliffs: vec![Cliff { rows: 17, ms: 20.0 }], slot: 1.0, ..Costs::default() },
                ..world
            },
            _ => return Err(WorldError::Name(name.to_owned())),
        })
    }

    /// Refuses what cannot be.
    ///
    /// # Errors
    /// A value out of its range, by field.
    pub fn check(&self) -> Result<(), WorldError> {
        let whole = |field, found: usize, most: usize, expected| {
            let fine = (1..=most).contains(&found);
            fine.then_some(()).ok_or(WorldError::Value { field, found: found.to_string(), expected })
        };
        whole("streams", self.streams, TABLE_ROWS, "1 to 64")?;
        whole("reply", self.reply, 1 << 20, "1 to 1048576 tokens")?;
        whole("loads", self.loads.len(), 1 << 10, "1 to 1024 loads")?;
        for load in &self.loads {
            whole("loads: accept", load.accept.len(), 15, "1 to 15 positions")?;
            if load.accept.len() != self.block() {
                let found = load.accept.len().to_string();
                return Err(WorldError::Value {
                    field: "loads: accept",
                    found,
                    expected: "equally many in all loads",
                });
            }
            for &p in &load.accept {
                number("loads: accept", p, (p > 0.0) & (p < 1.0), "probabilities between 0 and 1")?;
            }
            number("loads: spread", load.spread, load.spread >= 0.0, "a number from 0")?;
            number("loads: noise", load.noise, load.noise >= 0.0, "a number from 0")?;
            number("loads: shift", load.shift, true, "a number")?;
            number("loads: scale", load.scale, true, "a number")?;
        }
        let Costs { base, row, pass, slot, host, noise, cliffs } = &self.costs;
        let steps = cliffs.iter().map(|c| ("costs: cliffs", c.ms));
        let costs =
            [("costs: base", *base), ("costs: row", *row), ("costs: pass", *pass), ("costs: slot", *slot)];
        for (field, ms) in costs.into_iter().chain([("costs: host", *host)]).chain(steps) {
            number(field, ms, ms >= 0.0, "milliseconds from 0")?;
        }
        number("costs: noise", *noise, (0.0..=1.0).contains(noise), "0 to 1")?;
        self.table().map(|_| ())
    }

    /// Positions of a draft.
    pub fn block(&self) -> usize {
        self.loads[0].accept.len()
    }

    /// The table of the true costs, without the host's work.
    ///
    /// # Errors
    /// Costs that make no table.
    pub fn table(&self) -> Result<CostTable, WorldError> {
        let rows: Vec<f64> = (1..=TABLE_ROWS).map(|rows| self.costs.rows_ms(rows)).collect();
        Ok(CostTable::new(&rows, self.costs.pass, self.costs.slot)?)
    }
}

fn number(field: &'static str, value: f64, fine: bool, expected: &'static str) -> Result<(), WorldError> {
    let fine = fine && value.is_finite();
    fine.then_some(()).ok_or(WorldError::Value { field, found: value.to_string(), expected })
}

impl Costs {
    fn rows_ms(&self, rows: usize) -> f64 {
        let steps: f64 = self.cliffs.iter().filter(|c| rows >= c.rows).map(|c| c.ms).sum();
        self.base + self.row * rows as f64 + steps
    }
}

/// Drafts of one stream in one round.
pub(super) struct Drafts {
    /// True probability of each.
    pub truth: Vec<f64>,
    /// What the head says.
    pub confidence: Vec<f64>,
    /// How many are right, from the first on.
    pub right: usize,
}

fn logit(p: f64) -> f64 {
    libm::log(p / (1.0 - p))
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

impl Load {
    pub(super) fn drafts(&self, random: Random, round: u64, stream: usize) -> Drafts {
        let mut drafts = Drafts { truth: Vec::new(), confidence: Vec::new(), right: 0 };
        let mut unbroken = true;
        for (j, &accept) in self.accept.iter().enumerate() {
            let normal = |what| random.normal(what, round, stream, j);
            let truth = logit(accept) + self.spread * normal(Use::Truth);
            let head = self.shift + self.scale * truth + self.noise * normal(Use::Head);
            drafts.truth.push(sigmoid(truth));
            drafts.confidence.push(sigmoid(head));
            unbroken &= random.even(Use::Kept, round, stream, j) < sigmoid(truth);
            drafts.right += usize::from(unbroken);
        }
        drafts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_can_be_and_reads_back() {
        for (name, _) in PRESETS {
            let world = World::preset(name).unwrap();
            assert_eq!(world.check(), Ok(()), "{name}");
            let text = serde_json::to_string(&world).unwrap();
            assert_eq!(serde_json::from_str::<World>(&text).unwrap(), world);
        }
        assert!(
            World::preset("flat")
                .unwrap_err()
                .to_string()
                .starts_with("world \"flat\": expected one of linear, ")
        );
        assert_eq!(serde_json::from_str::<World>("{}").unwrap(), World::default());
        assert_eq!(World::default().table().unwrap().window_ms(16), CostTable::built_in().window_ms(16));
    }

    #[test]
    fn what_cannot_be_is_named() {
        let world = World { streams: 0, ..World::default() };
        assert_eq!(world.check().unwrap_err().to_string(), "streams: 0, expected 1 to 64");
        let load = Load { accept: vec![0.5, 1.0], ..Load::default() };
        let world = World { loads: vec![load], ..World::default() };
        let expected = "loads: accept: 1, expected probabilities between 0 and 1";
        assert_eq!(world.check().unwrap_err().to_string(), expected);
        let costs = Costs { pass: f64::NAN, ..Costs::default() };
        let world = World { costs, ..World::default() };
        assert_eq!(world.check().unwrap_err().to_string(), "costs: pass: NaN, expected milliseconds from 0");
        let costs = Costs { pass: 90.0, ..Costs::default() };
        assert!(matches!(World { costs, ..World::default() }.check(), Err(WorldError::Costs(_))));
    }

    #[test]
    fn drafts_are_right_as_often_as_they_should_be_and_heads_err_as_told() {
        let random = Random { seed: 9 };
        let load = Load { accept: vec![0.8, 0.5], spread: 0.0, shift: -1.0, noise: 0.0, ..Load::default() };
        let all: Vec<Drafts> = (0..20_000).map(|r| load.drafts(random, r, 0)).collect();
        let share = |least: usize| all.iter().filter(|d| d.right >= least).count() as f64 / 20_000.0;
        assert!((share(1) - 0.8).abs() < 0.01 && (share(2) - 0.4).abs() < 0.01);
        let head = 0.8 / (0.8 + 0.2 * std::f64::consts::E);
        assert!((all[0].truth[0] - 0.8).abs() < 1e-12 && (all[0].confidence[0] - head).abs() < 1e-12);
    }
}
