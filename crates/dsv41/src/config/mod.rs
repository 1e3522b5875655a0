//! `config.json`: the sizes of a checkpoint, checked before anything is allocated by them.

mod check;
mod fields;
mod parse;

pub use fields::ConfigError;
pub use parse::parse;

use std::path::Path;

use crate::checkpoint::{CheckpointError, read_json_file};

/// The one architecture that is accepted.
pub const ARCHITECTURE: &str = "DeepseekV41ForCausalLM";

/// YaRN scaling of the long-range rotary table (`rope_scaling`).
#[derive(Debug, Clone, PartialEq)]
pub struct Yarn {
    /// `factor`.
    pub factor: f32,
    /// `beta_fast`.
    pub beta_fast: f32,
    /// `beta_slow`.
    pub beta_slow: f32,
    /// `original_max_position_embeddings`.
    pub original: usize,
}

/// Engram sizes (`engram_*`).
#[derive(Debug, Clone, PartialEq)]
pub struct EngramConfig {
    /// `engram_layer_ids`.
    pub layers: Vec<usize>,
    /// `engram_num_embeddings`: table rows of each of these layers.
    pub rows: Vec<u64>,
    /// `engram_max_ngram_size`: longest n-gram, at least 2.
    pub ngram: usize,
    /// `engram_vocab_size`: where the search for bucket primes starts.
    pub buckets: u64,
    /// `engram_n_heads`: hash heads an order.
    pub heads: usize,
    /// `engram_head_dim`: values a table row.
    pub width: usize,
    /// `engram_pad_token_id`.
    pub pad: u32,
    /// `engram_compressed_vocab_size`.
    pub compressed_vocab: u64,
}

impl EngramConfig {
    /// Table rows read for each token: `(ngram - 1) * heads`.
    pub fn columns(&self) -> usize {
        (self.ngram - 1) * self.heads
    }
}

/// Drafter sizes (`dspark_*`).
#[derive(Debug, Clone, PartialEq)]
pub struct DrafterConfig {
    /// `num_nextn_predict_layers`: blocks.
    pub blocks: usize,
    /// `dspark_block_size`: drafts a pass.
    pub block: usize,
    /// `dspark_noise_token_id`.
    pub noise: u32,
    /// `dspark_target_layer_ids`: layers whose input is tapped.
    pub taps: Vec<usize>,
    /// `dspark_markov_rank`.
    pub rank: usize,
    /// `dspark_n_routed_experts`.
    pub experts: usize,
    /// `dspark_num_experts_per_tok`.
    pub top_k: usize,
}

/// Sizes of the vision tower and its aligner (`vision_config`), which a text-only run leaves on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct VisionConfig {
    /// `num_hidden_layers`.
    pub layers: usize,
    /// `hidden_size`.
    pub hidden: usize,
    /// `intermediate_size`.
    pub inner: usize,
    /// `patch_size`: pixels a patch edge.
    pub patch: usize,
    /// `downsample_ratio`: patches a cell edge.
    pub downsample: usize,
}

/// A checked `text_config` with the root ids beside it. Field docs give the names in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `bos_token_id`.
    pub bos: u32,
    /// `eos_token_id`.
    pub eos: u32,
    /// `vocab_size`.
    pub vocab: usize,
    /// `hidden_size`.
    pub hidden: usize,
    /// `num_hidden_layers`.
    pub layers: usize,
    /// `num_attention_heads`.
    pub heads: usize,
    /// `head_dim`.
    pub head_dim: usize,
    /// `qk_rope_head_dim`.
    pub rope_dims: usize,
    /// `q_lora_rank`.
    pub q_lora: usize,
    /// `o_lora_rank`.
    pub o_lora: usize,
    /// `o_groups`.
    pub o_groups: usize,
    /// `moe_intermediate_size`.
    pub inner: usize,
    /// `n_routed_experts`.
    pub experts: usize,
    /// `num_experts_per_tok`.
    pub top_k: usize,
    /// `norm_topk_prob`.
    pub norm_topk: bool,
    /// `routed_scaling_factor`.
    pub route_scale: f32,
    /// `swiglu_limit`.
    pub swiglu_limit: f32,
    /// `rms_norm_eps`.
    pub norm_eps: f32,
    /// `sliding_window`.
    pub window: usize,
    /// `compress_ratios`, backbone layers only: 0, 1 or 2 each.
    pub ratios: Vec<usize>,
    /// `rope_theta`.
    pub rope_theta: f32,
    /// `compress_rope_theta`.
    pub compress_rope_theta: f32,
    /// `rope_scaling`.
    pub yarn: Yarn,
    /// `max_position_embeddings`.
    pub max_context: usize,
    /// `kv_source_layer_ids`.
    pub kv_sources: Vec<usize>,
    /// `index_source_layer_ids`.
    pub index_sources: Vec<usize>,
    /// `index_n_heads`.
    pub index_heads: usize,
    /// `index_head_dim`.
    pub index_dim: usize,
    /// `index_topk`.
    pub index_top_k: usize,
    /// `candidate_source_layer_id`.
    pub candidate_source: usize,
    /// `candidate_topk_blocks`.
    pub candidate_blocks: usize,
    /// `candidate_block_size`.
    pub candidate_block: usize,
    /// `hc_mult`: streams.
    pub streams: usize,
    /// `hc_sinkhorn_iters`.
    pub sinkhorn_iters: usize,
    /// `hc_eps`.
    pub hc_eps: f32,
    /// `engram_*`, if any layer has it.
    pub engram: Option<EngramConfig>,
    /// `dspark_*` and `num_nextn_predict_layers`, if there is a drafter.
    pub drafter: Option<DrafterConfig>,
    /// `image_token_id`, if there is a vision tower.
    pub image_token: Option<u32>,
    /// `vision_config`, if there is a vision tower.
    pub vision: Option<VisionConfig>,
}

impl Config {
    /// Reads and checks `dir/config.json`.
    ///
    /// # Errors
    /// Names the file, the field, what was expected and what was found.
    pub fn read(dir: &Path) -> Result<Self, CheckpointError> {
        let path = dir.join("config.json");
        let bytes = read_json_file(&path)?;
        parse(&bytes).map_err(|cause| CheckpointError::Config { path, cause })
    }

    /// Hyper-connection mixes a row: `2s + s*s`.
    pub fn mixes(&self) -> usize {
        2 * self.streams + self.streams * self.streams
    }

    /// The layer whose compressed rows `layer` reads, if its ratio is above 0.
    pub fn kv_source(&self, layer: usize) -> Option<usize> {
        if self.ratios[layer] == 0 {
            None
        } else {
            self.kv_sources.iter().copied().filter(|&s| s <= layer).max()
        }
    }

    /// The layer whose selection `layer` uses, if its ratio is above 0.
    pub fn index_source(&self, layer: usize) -> Option<usize> {
        if self.ratios[layer] == 0 {
            None
        } else {
            self.index_sources.iter().copied().filter(|&s| s <= layer).max()
        }
    }
}
