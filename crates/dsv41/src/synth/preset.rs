//! The sizes of synthetic checkpoints.

use serde_json::{Value, json};

use super::tokenizer::{SYSTEM, VOCAB};
use crate::config::ARCHITECTURE;
use crate::engram::primes::bucket_primes;

/// Which sizes a synthetic checkpoint has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// 10 layers of width 128: about 4 MB, for tests.
    Tiny,
    /// The released model's widths with 4 layers, 32 experts and a small vocabulary: about 4 GB, for
    /// measurements.
    Wide,
}

/// What differs between the presets.
struct Sizes {
    hidden: usize,
    heads: usize,
    head_dim: usize,
    rope_dims: usize,
    q_lora: usize,
    o_lora: usize,
    o_groups: usize,
    inner: usize,
    experts: usize,
    top_k: usize,
    swiglu_limit: f64,
    window: usize,
    context: usize,
    yarn_factor: usize,
    yarn_original: usize,
    ratios: &'static [usize],
    kv_sources: &'static [usize],
    index_sources: &'static [usize],
    index_heads: usize,
    index_dim: usize,
    index_top_k: usize,
    candidate_source: usize,
    candidate_blocks: usize,
    candidate_block: usize,
    engram_layers: &'static [usize],
    engram_buckets: u64,
    engram_heads: usize,
    engram_width: usize,
    taps: &'static [usize],
    rank: usize,
    drafter_experts: usize,
    drafter_top_k: usize,
}

const TINY: Sizes = Sizes {
    hidden: 128,
    heads: 4,
    head_dim: 64,
    rope_dims: 16,
    q_lora: 64,
    o_lora: 32,
    o_groups: 2,
    inner: 64,
    experts: 8,
    top_k: 2,
    swiglu_limit: 1.5,
    window: 16,
    context: 4096,
    yarn_factor: 4,
    yarn_original: 64,
    ratios: &[0, 0, 2, 2, 2, 2, 1, 1, 1, 1],
    kv_sources: &[2, 4, 6],
    index_sources: &[2, 4, 6, 8],
    index_heads: 8,
    index_dim: 32,
    index_top_k: 16,
    candidate_source: 6,
    candidate_blocks: 8,
    candidate_block: 4,
    engram_layers: &[1, 4],
    engram_buckets: 200,
    engram_heads: 2,
    engram_width: 32,
    taps: &[7, 8, 9],
    rank: 32,
    drafter_experts: 4,
    drafter_top_k: 2,
};

const WIDE: Sizes = Sizes {
    hidden: 5120,
    heads: 64,
    head_dim: 512,
    rope_dims: 64,
    q_lora: 1280,
    o_lora: 1024,
    o_groups: 8,
    inner: 2304,
    experts: 32,
    top_k: 6,
    swiglu_limit: 10.0,
    window: 128,
    context: 1 << 20,
    yarn_factor: 16,
    yarn_original: 65_536,
    ratios: &[0, 2, 1, 1],
    kv_sources: &[1, 2],
    index_sources: &[1, 2, 3],
    index_heads: 32,
    index_dim: 128,
    index_top_k: 512,
    candidate_source: 2,
    candidate_blocks: 2048,
    candidate_block: 8,
    engram_layers: &[1],
    engram_buckets: 4096,
    engram_heads: 8,
    engram_width: 256,
    taps: &[1, 2, 3],
    rank: 256,
    drafter_experts: 4,
    drafter_top_k: 3,
};

const DRAFTER_BLOCKS: usize = 3;
const NGRAM: usize = 4;

impl Preset {
    /// The text of `config.json`, for a tokenizer whose ids compress to `compressed_vocab`.
    pub(super) fn config(self, compressed_vocab: usize) -> String {
        let sizes = match self {
            Preset::Tiny => TINY,
            Preset::Wide => WIDE,
        };
        let root = json!({
            "architectures": [ARCHITECTURE], "model_type": "deepseek_v41", "dtype": "bfloat16",
            "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2, "image_token_id": VOCAB - 1,
            "quantization_config": {
                "quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [32, 32],
                "scale_fmt": "ue8m0", "expert_dtype": "fp4",
            },
            "text_config": sizes.text(compressed_vocab),
        });
        format!("{root:#}\n")
    }
}

impl Sizes {
    fn text(&self, compressed_vocab: usize) -> Value {
        let parts = [self.backbone(), self.long_range(), self.engram(compressed_vocab), self.drafter()];
        Value::Object(parts.into_iter().filter_map(|part| part.as_object().cloned()).flatten().collect())
    }

    fn backbone(&self) -> Value {
        json!({
            "model_type": "deepseek_v41_text", "vocab_size": VOCAB, "hidden_size": self.hidden,
            "moe_intermediate_size": self.inner, "num_hidden_layers": self.ratios.len(),
            "num_attention_heads": self.heads, "num_key_value_heads": 1, "head_dim": self.head_dim,
            "qk_rope_head_dim": self.rope_dims, "q_lora_rank": self.q_lora, "o_lora_rank": self.o_lora,
            "o_groups": self.o_groups, "hidden_act": "silu", "swiglu_limit": self.swiglu_limit,
            "rms_norm_eps": 1e-20, "attention_bias": false, "attention_dropout": 0.0, "use_cache": true,
            "tie_word_embeddings": false, "max_position_embeddings": self.context, "rope_theta": 10000,
            "rope_scaling": {
                "rope_type": "yarn", "factor": self.yarn_factor, "beta_fast": 32, "beta_slow": 1,
                "original_max_position_embeddings": self.yarn_original,
            },
            "n_routed_experts": self.experts, "n_shared_experts": 1, "num_experts_per_tok": self.top_k,
            "scoring_func": "sqrtsoftplus", "topk_method": "noaux_tc", "norm_topk_prob": true,
            "routed_scaling_factor": 1.5, "sliding_window": self.window,
            "hc_mult": 4, "hc_sinkhorn_iters": 20, "hc_eps": 1e-6,
        })
    }

    fn long_range(&self) -> Value {
        let ratios: Vec<usize> = self.ratios.iter().copied().chain([0; DRAFTER_BLOCKS]).collect();
        json!({
            "compress_ratios": ratios, "compress_rope_theta": 160000, "kv_source_layer_ids": self.kv_sources,
            "index_source_layer_ids": self.index_sources, "index_n_heads": self.index_heads,
            "index_head_dim": self.index_dim, "index_topk": self.index_top_k,
            "candidate_source_layer_id": self.candidate_source, "candidate_topk_blocks": self.candidate_blocks,
            "candidate_block_size": self.candidate_block,
        })
    }

    fn engram(&self, compressed_vocab: usize) -> Value {
        let primes = bucket_primes(self.engram_layers.len(), NGRAM, self.engram_heads, self.engram_buckets);
        let rows: Vec<u64> = primes.iter().map(|layer| layer.iter().flatten().sum()).collect();
        json!({
            "engram_layer_ids": self.engram_layers, "engram_num_embeddings": rows,
            "engram_max_ngram_size": NGRAM, "engram_vocab_size": self.engram_buckets,
            "engram_n_heads": self.engram_heads, "engram_head_dim": self.engram_width, "engram_pad_token_id": 2,
            "engram_compressed_vocab_size": compressed_vocab,
        })
    }

    fn drafter(&self) -> Value {
        json!({
            "num_nextn_predict_layers": DRAFTER_BLOCKS, "dspark_block_size": 5,
            "dspark_noise_token_id": SYSTEM, "dspark_target_layer_ids": self.taps,
            "dspark_markov_rank": self.rank, "dspark_n_routed_experts": self.drafter_experts,
            "dspark_num_experts_per_tok": self.drafter_top_k,
        })
    }
}
