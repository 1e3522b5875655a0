//! How a model is set up, and what can be wrong with it.

use tokenfare_device::{CacheFormat, DeviceError};

use super::state::Layout;
use crate::config::Config;
use crate::engram::MissingPad;

/// How cache rows are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CacheMode {
    /// The formats the model was trained with: window rows FP8, compressed rows FP4 in groups of 16, index keys and
    /// queries FP4 in groups of 32.
    #[default]
    Trained,
    /// f32 everywhere and no round trip of index queries: the exact mathematics of the weights.
    Exact,
}

impl CacheMode {
    /// Window rows and drafter context.
    pub const fn window(self) -> CacheFormat {
        self.or_exact(CacheFormat::Fp8)
    }

    /// Compressed rows.
    pub const fn compressed(self) -> CacheFormat {
        self.or_exact(CacheFormat::Fp4Group16)
    }

    /// Index keys, and the round trip of index queries.
    pub const fn index(self) -> CacheFormat {
        self.or_exact(CacheFormat::Fp4Group32)
    }

    const fn or_exact(self, trained: CacheFormat) -> CacheFormat {
        match self {
            Self::Trained => trained,
            Self::Exact => CacheFormat::F32,
        }
    }

    /// Bytes that each further token of one stream takes for good: compressed rows and index keys, each source's
    /// divided by its ratio. Rings do not grow.
    pub fn growth_per_token(self, config: &Config) -> f64 {
        let row = self.compressed().row_bytes(config.head_dim) + self.index().row_bytes(config.index_dim);
        config.kv_sources.iter().map(|&layer| row as f64 / config.ratios[layer] as f64).sum()
    }
}

/// Sizes of a model's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelOptions {
    /// Streams held at once.
    pub slots: usize,
    /// Most positions of a stream.
    pub context: usize,
    /// Most tokens of one prompt piece.
    pub piece_rows: usize,
    /// Most rows of one verify window, all streams together.
    pub window_rows: usize,
    /// How cache rows are stored.
    pub caches: CacheMode,
}

impl ModelOptions {
    /// Rows of the largest launch: what the device must be made for.
    pub fn launch_rows(&self, config: &Config) -> usize {
        let block = config.drafter.as_ref().map_or(0, |d| d.block);
        self.piece_rows.max(self.window_rows).max(block)
    }

    /// Bytes of state that each slot takes, drafter context included.
    pub fn slot_bytes(&self, config: &Config) -> u64 {
        Layout::new(self, config).slot_bytes(self.caches, config) as u64
    }

    pub(super) fn check(&self, config: &Config) -> Result<(), ModelError> {
        let positive = [
            ("slots", self.slots),
            ("context", self.context),
            ("piece rows", self.piece_rows),
            ("window rows", self.window_rows),
        ];
        if let Some((what, _)) = positive.into_iter().find(|(_, value)| *value == 0) {
            return Err(ModelError::Option { what, found: 0, expected: "at least 1".into() });
        }
        if self.context > config.max_context {
            let expected = format!("at most max_position_embeddings, {}", config.max_context);
            return Err(ModelError::Option { what: "context", found: self.context, expected });
        }
        let rows = self.slots.saturating_mul(self.context);
        if rows >= u32::MAX as usize {
            let expected = format!("slots * context below {}", u32::MAX);
            return Err(ModelError::Option { what: "slots * context", found: rows, expected });
        }
        Ok(())
    }
}

/// Why a model could not be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// An option out of range.
    #[error("{what}: {found}, expected {expected}")]
    Option {
        /// The option.
        what: &'static str,
        /// Its value.
        found: usize,
        /// The accepted range.
        expected: String,
    },
    /// The configuration does not describe a forward pass.
    #[error("layer {layer}: {problem}")]
    Layer {
        /// Backbone layer.
        layer: usize,
        /// What is missing or contradictory.
        problem: &'static str,
    },
    /// The weights have another number of layers or blocks than the configuration.
    #[error("weights: {found} {what}, expected {expected}")]
    Count {
        /// `layers` or `drafter blocks`.
        what: &'static str,
        /// In the weights.
        found: usize,
        /// By the configuration.
        expected: usize,
    },
    /// The map of compressed token ids does not cover the vocabulary.
    #[error("token map: {found} tokens, expected at least the vocabulary of {vocab}")]
    TokenMap {
        /// Entries of the map.
        found: usize,
        /// Vocabulary size.
        vocab: usize,
    },
    /// The map of compressed token ids has no padding token.
    #[error(transparent)]
    Pad(#[from] MissingPad),
    /// The device refused an allocation.
    #[error(transparent)]
    Device(#[from] DeviceError),
}
