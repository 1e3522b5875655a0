//! Rotary tables: frequencies once, angles for each row of a launch.

use crate::config::{Config, Yarn};

/// The frequencies of one rotary table.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    frequencies: Vec<f32>,
}

impl Rope {
    /// `dims / 2` frequencies `theta^(-2i/dims)`; with YaRN, those slower than the original context allows are
    /// divided by `factor`, with a linear ramp between `beta_fast` and `beta_slow` turns. No amplitude scaling.
    pub fn new(dims: usize, theta: f32, yarn: Option<&Yarn>) -> Self {
        let half = dims / 2;
        let plain = |i: usize| {
            let exponent = (2 * i) as f32 / dims as f32;
            1.0 / libm::pow(f64::from(theta), f64::from(exponent)) as f32
        };
        let Some(yarn) = yarn else { return Self { frequencies: (0..half).map(plain).collect() } };
        let dim_of = |turns: f32| {
            let wavelength = yarn.original as f64 / (f64::from(turns) * std::f64::consts::TAU);
            dims as f64 * libm::log(wavelength) / (2.0 * libm::log(f64::from(theta)))
        };
        let low = libm::floor(dim_of(yarn.beta_fast)).max(0.0);
        let high = libm::ceil(dim_of(yarn.beta_slow)).min((dims - 1) as f64);
        let span = (high - low).max(1e-3) as f32;
        let frequencies = (0..half)
            .map(|i| {
                let keep = 1.0 - ((i as f32 - low as f32) / span).clamp(0.0, 1.0);
                let f = plain(i);
                f / yarn.factor * (1.0 - keep) + f * keep
            })
            .collect();
        Self { frequencies }
    }

    /// The table of window rows where nothing is compressed, and of the drafter.
    pub fn plain(config: &Config) -> Self {
        Self::new(config.rope_dims, config.rope_theta, None)
    }

    /// The table of layers that read compressed rows.
    pub fn compressed(config: &Config) -> Self {
        Self::new(config.rope_dims, config.compress_rope_theta, Some(&config.yarn))
    }

    /// `[positions, dims]`: the cosines of each position, then its sines. An angle is an f32 product, as in training.
    pub fn rows(&self, positions: impl Iterator<Item = usize>) -> Vec<f32> {
        let mut rows = Vec::new();
        for position in positions {
            let angle = |f: &f32| f64::from(position as f32 * f);
            rows.extend(self.frequencies.iter().map(|f| libm::cos(angle(f)) as f32));
            rows.extend(self.frequencies.iter().map(|f| libm::sin(angle(f)) as f32));
        }
        rows
    }
}
