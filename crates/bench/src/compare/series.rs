//! What a comparison runs: arms and series.

use serde::{Deserialize, Serialize};

use crate::run::{Part, concurrent, openai, prompt};

/// One of the two servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arm {
    /// What is compared with.
    Base,
    /// What is judged.
    This,
}

impl std::fmt::Display for Arm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Base => "base",
            Self::This => "this",
        })
    }
}

/// One stream count and temperature of a measurement, all its loads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The measurement.
    pub part: Part,
    /// Streams at once.
    pub streams: usize,
    /// Temperature.
    pub temperature: f64,
}

impl std::fmt::Display for Series {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} x{} T{}", self.part, self.streams, self.temperature)
    }
}

/// What is compared.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Measurements, in order.
    pub parts: Vec<Part>,
    /// Concurrent cells.
    pub concurrent: concurrent::Options,
    /// Openai cells.
    pub openai: openai::Options,
    /// Prompt cells.
    pub prompt: prompt::Options,
    /// Least tokens a second of the control before each series: one greedy stream of base without drafts.
    pub gate: Option<f64>,
}

impl Plan {
    /// Every series, in order.
    pub fn series(&self) -> Vec<Series> {
        self.parts.iter().flat_map(|&part| self.of_part(part)).collect()
    }

    fn of_part(&self, part: Part) -> Vec<Series> {
        let options = &self.concurrent;
        let grid = |levels: &[usize], temperatures: &[f64]| -> Vec<Series> {
            let at = |t: f64| levels.iter().map(move |&streams| Series { part, streams, temperature: t });
            temperatures.iter().flat_map(|&t| at(t)).collect()
        };
        match part {
            Part::Concurrent => grid(&options.levels, &options.temperatures),
            Part::Openai => grid(&[1], &self.openai.temperatures),
            Part::NoDrafts => {
                let narrowest = options.levels.iter().min().copied();
                let mut levels: Vec<usize> =
                    narrowest.into_iter().chain(options.levels.iter().max().copied()).collect();
                levels.dedup();
                let coldest = options.temperatures.iter().copied().min_by(f64::total_cmp);
                grid(&levels, coldest.as_slice())
            }
            Part::Prompt => grid(&[1], &[0.0]),
        }
    }
}
