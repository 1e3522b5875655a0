//! From the bytes of `config.json` to a checked [`Config`].

use serde_json::{Value, json};

use super::check::check;
use super::fields::{ConfigError, Result, Section, shown};
use super::{ARCHITECTURE, Config, DrafterConfig, EngramConfig, VisionConfig, Yarn};
use crate::engram::primes::bucket_primes;

/// Parses and checks the bytes of a `config.json`.
///
/// # Errors
/// Names the field, what was expected and what was found.
pub fn parse(bytes: &[u8]) -> Result<Config> {
    let value: Value = serde_json::from_slice(bytes).map_err(|e| ConfigError::Json(e.to_string()))?;
    let root = Section::root(&value)?;
    architecture(root)?;
    quantization(root.section("quantization_config", "quantization_config")?)?;
    let text = root.section("text_config", "text_config")?;
    fixed(text)?;
    let config = sizes(root, text)?;
    check(&config, text)?;
    Ok(config)
}

fn architecture(root: Section<'_>) -> Result<()> {
    let found = root.get("architectures");
    if found.and_then(Value::as_array).is_some_and(|names| names.iter().any(|n| n == ARCHITECTURE)) {
        return Ok(());
    }
    let found = found.map_or_else(|| "nothing".to_owned(), shown);
    Err(ConfigError::Architecture { expected: ARCHITECTURE, found })
}

fn quantization(section: Section<'_>) -> Result<()> {
    section.only("quant_method", json!("fp8"))?;
    section.only("weight_block_size", json!([32, 32]))?;
    section.only("scale_fmt", json!("ue8m0"))?;
    section.only("expert_dtype", json!("fp4"))
}

/// Fields whose single accepted value the forward pass is written for.
fn fixed(text: Section<'_>) -> Result<()> {
    text.only("num_key_value_heads", json!(1))?;
    text.only("n_shared_experts", json!(1))?;
    text.only("hidden_act", json!("silu"))?;
    text.only("scoring_func", json!("sqrtsoftplus"))?;
    text.only("topk_method", json!("noaux_tc"))?;
    text.only("attention_bias", json!(false))?;
    text.only("tie_word_embeddings", json!(false))
}

fn sizes(root: Section<'_>, text: Section<'_>) -> Result<Config> {
    let vocab = text.size("vocab_size")?;
    let layers = text.integer("num_hidden_layers", 1, 1024)? as usize;
    let blocks = text.integer("num_nextn_predict_layers", 0, 64)? as usize;
    let vision = root.optional("vision_config", "vision_config")?.map(vision).transpose()?;
    let image_token = vision.as_ref().map(|_| root.token("image_token_id", vocab)).transpose()?;
    Ok(Config {
        bos: root.token("bos_token_id", vocab)?,
        eos: root.token("eos_token_id", vocab)?,
        vocab,
        hidden: text.multiple("hidden_size", 32)?,
        layers,
        heads: text.size("num_attention_heads")?,
        head_dim: text.multiple("head_dim", 32)?,
        rope_dims: text.multiple("qk_rope_head_dim", 2)?,
        q_lora: text.multiple("q_lora_rank", 32)?,
        o_lora: text.multiple("o_lora_rank", 32)?,
        o_groups: text.size("o_groups")?,
        inner: text.multiple("moe_intermediate_size", 32)?,
        experts: text.size("n_routed_experts")?,
        top_k: text.size("num_experts_per_tok")?,
        norm_topk: text.flag("norm_topk_prob")?,
        route_scale: text.positive("routed_scaling_factor")?,
        swiglu_limit: text.non_negative("swiglu_limit")?,
        norm_eps: text.positive("rms_norm_eps")?,
        window: text.size("sliding_window")?,
        ratios: ratios(text, layers, blocks)?,
        rope_theta: text.positive("rope_theta")?,
        compress_rope_theta: text.positive("compress_rope_theta")?,
        yarn: yarn(text.section("rope_scaling", "text_config.rope_scaling")?)?,
        max_context: text.size("max_position_embeddings")?,
        kv_sources: text.layer_ids("kv_source_layer_ids", layers)?,
        index_sources: text.layer_ids("index_source_layer_ids", layers)?,
        index_heads: text.size("index_n_heads")?,
        index_dim: text.multiple("index_head_dim", 32)?,
        index_top_k: text.size("index_topk")?,
        candidate_source: text.integer("candidate_source_layer_id", 0, layers as u64 - 1)? as usize,
        candidate_blocks: text.size("candidate_topk_blocks")?,
        candidate_block: text.size("candidate_block_size")?,
        streams: text.integer("hc_mult", 1, 64)? as usize,
        sinkhorn_iters: text.integer("hc_sinkhorn_iters", 1, 1000)? as usize,
        hc_eps: text.positive("hc_eps")?,
        engram: engram(text, layers, vocab)?,
        drafter: drafter(text, layers, vocab, blocks)?,
        image_token,
        vision,
    })
}

/// The backbone's compress ratios; entries of drafter blocks may follow and must be 0.
fn ratios(text: Section<'_>, layers: usize, blocks: usize) -> Result<Vec<usize>> {
    const KEY: &str = "compress_ratios";
    let list = text.list(KEY)?;
    if list.len() != layers && list.len() != layers + blocks {
        let expected = format!("{layers} entries, or {} with the drafter's", layers + blocks);
        return Err(text.wrong(KEY, expected, format!("{} entries", list.len())));
    }
    let (backbone, drafter) = list.split_at(layers);
    if let Some(at) = backbone.iter().position(|r| *r > 2) {
        return Err(text.wrong(KEY, "0, 1 or 2 for each layer", format!("{} for layer {at}", backbone[at])));
    }
    if let Some(ratio) = drafter.iter().find(|r| **r != 0) {
        return Err(text.wrong(KEY, "0 for each drafter block", ratio.to_string()));
    }
    Ok(backbone.iter().map(|r| *r as usize).collect())
}

fn yarn(section: Section<'_>) -> Result<Yarn> {
    let kind = if section.get("rope_type").is_some() { "rope_type" } else { "type" };
    section.only(kind, json!("yarn"))?;
    let yarn = Yarn {
        factor: section.positive("factor")?,
        beta_fast: section.positive("beta_fast")?,
        beta_slow: section.positive("beta_slow")?,
        original: section.size("original_max_position_embeddings")?,
    };
    if yarn.beta_fast < yarn.beta_slow {
        return Err(section.refuse("beta_fast", format!("at least beta_slow {}", yarn.beta_slow)));
    }
    Ok(yarn)
}

fn engram(text: Section<'_>, layers: usize, vocab: usize) -> Result<Option<EngramConfig>> {
    let ids = text.layer_ids("engram_layer_ids", layers)?;
    if ids.is_empty() {
        return Ok(None);
    }
    let engram = EngramConfig {
        rows: text.list("engram_num_embeddings")?,
        ngram: text.integer("engram_max_ngram_size", 2, 16)? as usize,
        buckets: text.integer("engram_vocab_size", 1, 1 << 32)?,
        heads: text.integer("engram_n_heads", 1, 64)? as usize,
        width: text.multiple("engram_head_dim", 32)?,
        pad: text.token("engram_pad_token_id", vocab)?,
        compressed_vocab: text.integer("engram_compressed_vocab_size", 1, vocab as u64)?,
        layers: ids,
    };
    let columns = engram.layers.len() * engram.columns();
    if columns > 4096 {
        return Err(text.wrong("engram_layer_ids", "at most 4096 hash columns in all", columns.to_string()));
    }
    let primes = bucket_primes(engram.layers.len(), engram.ngram, engram.heads, engram.buckets);
    let rows: Vec<u64> = primes.iter().map(|layer| layer.iter().flatten().sum()).collect();
    if rows != engram.rows {
        return Err(text.refuse("engram_num_embeddings", format!("the sums of the bucket primes, {rows:?}")));
    }
    Ok(Some(engram))
}

fn drafter(text: Section<'_>, layers: usize, vocab: usize, blocks: usize) -> Result<Option<DrafterConfig>> {
    if blocks == 0 {
        return Ok(None);
    }
    let drafter = DrafterConfig {
        blocks,
        block: text.integer("dspark_block_size", 1, 1024)? as usize,
        noise: text.token("dspark_noise_token_id", vocab)?,
        taps: text.layer_ids("dspark_target_layer_ids", layers)?,
        rank: text.multiple("dspark_markov_rank", 32)?,
        experts: text.size("dspark_n_routed_experts")?,
        top_k: text.size("dspark_num_experts_per_tok")?,
    };
    if drafter.taps.is_empty() {
        return Err(text.refuse("dspark_target_layer_ids", "at least one layer"));
    }
    if drafter.top_k > drafter.experts {
        let expected = format!("at most dspark_n_routed_experts {}", drafter.experts);
        return Err(text.refuse("dspark_num_experts_per_tok", expected));
    }
    Ok(Some(drafter))
}

fn vision(section: Section<'_>) -> Result<VisionConfig> {
    Ok(VisionConfig {
        layers: section.integer("num_hidden_layers", 1, 1024)? as usize,
        hidden: section.size("hidden_size")?,
        inner: section.size("intermediate_size")?,
        patch: section.integer("patch_size", 1, 1024)? as usize,
        downsample: section.integer("downsample_ratio", 1, 64)? as usize,
    })
}
