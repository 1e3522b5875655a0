//! What a checkpoint is, in numbers: sizes, bytes by type, and what a token costs.

use std::collections::BTreeMap;
use std::convert::Infallible;

use crate::checkpoint::inventory::{inventory, visit_text};
use crate::checkpoint::{Checkpoint, Dtype, TensorSpec};
use crate::config::{ARCHITECTURE, Config};
use crate::model::CacheMode;

/// Tensors of one element type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// Number of tensors.
    pub tensors: u64,
    /// Trained values; scales count as none.
    pub parameters: u64,
    /// Stored bytes.
    pub bytes: u64,
}

/// The drafter of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrafterInfo {
    /// Blocks.
    pub blocks: usize,
    /// Drafts a pass.
    pub drafts: usize,
    /// Bytes of its weights.
    pub bytes: u64,
    /// Context rows that each lane keeps for it, in bytes.
    pub window_bytes: u64,
}

/// The Engram tables of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngramInfo {
    /// Layers that read a table.
    pub layers: Vec<usize>,
    /// Rows of all tables.
    pub rows: u64,
    /// Bytes of all tables, which stay on disk.
    pub bytes: u64,
    /// Bytes that a token reads from them.
    pub token_bytes: u64,
}

/// The model that a configuration describes.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    /// Name of the architecture.
    pub architecture: &'static str,
    /// Backbone layers.
    pub layers: usize,
    /// Width of a stream.
    pub hidden: usize,
    /// Token ids.
    pub vocab: usize,
    /// Routed experts a layer.
    pub experts: usize,
    /// Routed experts that a token visits.
    pub top_k: usize,
    /// Positions a lane can have.
    pub context: usize,
    /// Tensors by element type, vision tower included.
    pub types: BTreeMap<Dtype, Share>,
    /// All tensors.
    pub total: Share,
    /// Bytes of the vision tower and its aligner.
    pub vision_bytes: u64,
    /// Bytes that a text run holds in memory, drafter included, Engram tables not.
    pub resident_bytes: u64,
    /// Trained values that one backbone token uses.
    pub active_parameters: u64,
    /// Bytes of weights that one backbone token reads, Engram rows included.
    pub active_bytes: u64,
    /// Bytes that a lane grows by with each token, beyond its windows.
    pub growth: f64,
    /// Bytes of the sliding windows of one lane, all backbone layers.
    pub window_bytes: u64,
    /// The drafter.
    pub drafter: Option<DrafterInfo>,
    /// The Engram tables.
    pub engram: Option<EngramInfo>,
}

/// A checkpoint folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Info {
    /// Number of weight files.
    pub files: usize,
    /// Their bytes together.
    pub file_bytes: u64,
    /// What they hold.
    pub model: ModelInfo,
}

/// Sums up a checkpoint.
pub fn describe(checkpoint: &Checkpoint) -> Info {
    Info {
        files: checkpoint.shards().len(),
        file_bytes: checkpoint.shards().iter().map(|s| s.bytes).sum(),
        model: ModelInfo::of(checkpoint.config()),
    }
}

impl ModelInfo {
    /// Sums up the model of a configuration.
    pub fn of(config: &Config) -> Self {
        let mut types: BTreeMap<Dtype, Share> = BTreeMap::new();
        for spec in inventory(config) {
            types.entry(spec.dtype).or_default().add(&spec);
        }
        let total = types.values().fold(Share::default(), |sum, share| Share {
            tensors: sum.tensors + share.tensors,
            parameters: sum.parameters + share.parameters,
            bytes: sum.bytes + share.bytes,
        });
        let text = TextSums::of(config);
        Self {
            architecture: ARCHITECTURE,
            layers: config.layers,
            hidden: config.hidden,
            vocab: config.vocab,
            experts: config.experts,
            top_k: config.top_k,
            context: config.max_context,
            types,
            total,
            vision_bytes: total.bytes - text.bytes,
            resident_bytes: text.bytes - text.tables,
            active_parameters: text.active_parameters,
            active_bytes: text.active_bytes,
            growth: CacheMode::Trained.growth_per_token(config),
            window_bytes: window_bytes(config, config.layers),
            drafter: config.drafter.as_ref().map(|d| DrafterInfo {
                blocks: d.blocks,
                drafts: d.block,
                bytes: text.drafter,
                window_bytes: window_bytes(config, d.blocks),
            }),
            engram: config.engram.as_ref().map(|e| EngramInfo {
                layers: e.layers.clone(),
                rows: e.rows.iter().sum(),
                bytes: text.tables,
                token_bytes: (e.layers.len() * e.columns() * (e.width + e.width / 32)) as u64,
            }),
        }
    }
}

impl Share {
    fn add(&mut self, spec: &TensorSpec) {
        self.tensors += 1;
        self.parameters += spec.parameters();
        self.bytes += spec.bytes();
    }
}

/// Sums over the tensors of a text run.
#[derive(Default)]
struct TextSums {
    bytes: u64,
    drafter: u64,
    tables: u64,
    active_parameters: u64,
    active_bytes: u64,
}

impl TextSums {
    fn of(config: &Config) -> Self {
        let mut sums = Self::default();
        let Ok(()) = visit_text(config, &mut |spec| {
            sums.add(config, &spec);
            Ok::<(), Infallible>(())
        });
        sums
    }

    fn add(&mut self, config: &Config, spec: &TensorSpec) {
        let (bytes, name) = (spec.bytes(), spec.name.as_str());
        self.bytes += bytes;
        if name.starts_with("mtp.") {
            self.drafter += bytes;
            return;
        }
        // A token reads some rows of a table, and as many experts as the router chooses, all of one size.
        let rows = spec.shape[0] as u64;
        let (used, of) = if name.contains(".engram.embed.") {
            self.tables += bytes;
            (config.engram.as_ref().map_or(0, |e| e.columns()) as u64, rows)
        } else if name == "embed.weight" {
            (1, rows)
        } else if let Some((_, expert)) = name.split_once(".ffn.experts.") {
            let number = expert.split('.').next().and_then(|n| n.parse::<usize>().ok());
            (u64::from(number.is_some_and(|n| n < config.top_k)), 1)
        } else {
            (1, 1)
        };
        self.active_bytes += bytes / of * used;
        self.active_parameters += spec.parameters() / of * used;
    }
}

fn window_bytes(config: &Config, layers: usize) -> u64 {
    (layers * config.window * CacheMode::Trained.window().row_bytes(config.head_dim)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    #[test]
    fn the_released_model_has_the_published_figures() {
        let config = config::parse(include_bytes!("../tests/data/release_config.json")).unwrap();
        let info = ModelInfo::of(&config);
        assert_eq!(
            info.total,
            Share { tensors: 96_085, parameters: 763_205_315_794, bytes: 510_286_023_000 }
        );
        assert_eq!(info.types[&Dtype::I8].parameters, 2 * 278_585_671_680);
        assert_eq!(info.growth, 890.0);
        assert_eq!(info.window_bytes, 40 * 128 * 528);
        assert_eq!(info.vision_bytes, 970_536_960);
        assert_eq!((info.active_parameters, info.active_bytes), (16_130_606_192, 13_035_097_920));
        let drafter = info.drafter.unwrap();
        assert_eq!((drafter.blocks, drafter.drafts, drafter.bytes), (3, 5, 7_932_874_632));
        let engram = info.engram.unwrap();
        assert_eq!((engram.rows, engram.bytes), (768_022_850, 202_758_032_400));
        assert_eq!(engram.token_bytes, 2 * 24 * 264);
        assert_eq!(info.resident_bytes, 510_286_023_000 - 970_536_960 - 202_758_032_400);
    }
}
