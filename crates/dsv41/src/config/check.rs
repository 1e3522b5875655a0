//! Checks across fields: what the forward pass takes for granted.

use super::Config;
use super::fields::{Result, Section};

/// Widest accepted row of a derived matrix: two such sizes and an element fit 64 bits.
const WIDEST: usize = 1 << 28;

pub(super) fn check(config: &Config, text: Section<'_>) -> Result<()> {
    widths(config, text)?;
    attention(config, text)?;
    sources(config, text)?;
    candidates(config, text)
}

/// Products of sizes, each within [`WIDEST`].
fn widths(c: &Config, text: Section<'_>) -> Result<()> {
    let drafter = c.drafter.as_ref();
    let engram = c.engram.as_ref();
    let products = [
        ("num_attention_heads", c.heads, "head_dim", c.head_dim),
        ("o_groups", c.o_groups, "o_lora_rank", c.o_lora),
        ("index_n_heads", c.index_heads, "index_head_dim", c.index_dim),
        ("hc_mult + 1", c.streams + 1, "hidden_size", c.hidden),
        ("dspark_target_layer_ids", drafter.map_or(0, |d| d.taps.len()), "hidden_size", c.hidden),
        ("hash columns", engram.map_or(0, |e| e.columns()), "engram_head_dim", engram.map_or(0, |e| e.width)),
    ];
    for (left, a, right, b) in products {
        if a.checked_mul(b).is_none_or(|width| width > WIDEST) {
            let expected = format!("{left} * {right} of at most {WIDEST}");
            return Err(text.wrong(right, expected, format!("{a} * {b}")));
        }
    }
    Ok(())
}

fn attention(c: &Config, text: Section<'_>) -> Result<()> {
    if c.rope_dims > c.head_dim.min(c.index_dim) {
        let most = c.head_dim.min(c.index_dim);
        return Err(text.refuse("qk_rope_head_dim", format!("at most head_dim and index_head_dim, {most}")));
    }
    let per_group = c.heads * c.head_dim / c.o_groups;
    if !c.heads.is_multiple_of(c.o_groups) || !per_group.is_multiple_of(32) {
        return Err(text.refuse("o_groups", format!("a divisor of num_attention_heads {}", c.heads)));
    }
    if c.top_k > c.experts {
        return Err(text.refuse("num_experts_per_tok", format!("at most n_routed_experts {}", c.experts)));
    }
    Ok(())
}

/// Each compressed layer must find its rows, its selection, and both over the same positions.
fn sources(c: &Config, text: Section<'_>) -> Result<()> {
    for (key, list) in [("kv_source_layer_ids", &c.kv_sources), ("index_source_layer_ids", &c.index_sources)]
    {
        if let Some(layer) = list.iter().find(|l| c.ratios[**l] == 0) {
            let found = format!("layer {layer} with ratio 0");
            return Err(text.wrong(key, "layers with a compress ratio above 0", found));
        }
    }
    if let Some(layer) = c.kv_sources.iter().find(|l| !c.index_sources.contains(l)) {
        let expected = "every layer of kv_source_layer_ids among them";
        return Err(text.wrong("index_source_layer_ids", expected, format!("no {layer}")));
    }
    for layer in (0..c.layers).filter(|l| c.ratios[*l] > 0) {
        let Some(source) = c.kv_source(layer) else {
            let expected = format!("a source at or before layer {layer}, whose compress ratio is above 0");
            return Err(text.refuse("kv_source_layer_ids", expected));
        };
        if c.ratios[source] != c.ratios[layer] {
            let expected = format!("ratio {} for layer {layer}, as its source {source}", c.ratios[source]);
            return Err(text.wrong("compress_ratios", expected, c.ratios[layer].to_string()));
        }
    }
    Ok(())
}

fn candidates(c: &Config, text: Section<'_>) -> Result<()> {
    const SOURCE: &str = "candidate_source_layer_id";
    if c.index_sources.is_empty() {
        return Ok(());
    }
    if !c.index_sources.contains(&c.candidate_source) {
        return Err(text.refuse(SOURCE, format!("one of index_source_layer_ids {:?}", c.index_sources)));
    }
    let rows = c.kv_source(c.candidate_source);
    let reader = c.index_sources.iter().find(|l| **l > c.candidate_source && c.kv_source(**l) != rows);
    if let Some(reader) = reader {
        return Err(text.refuse(SOURCE, format!("a source of the same compressed rows as reader {reader}")));
    }
    // The newest block may hold a single reachable key.
    let reachable = (c.candidate_blocks - 1) * c.candidate_block + 1;
    if reachable < c.index_top_k {
        let expected = format!("enough blocks of {} for index_topk {}", c.candidate_block, c.index_top_k);
        return Err(text.refuse("candidate_topk_blocks", expected));
    }
    Ok(())
}
