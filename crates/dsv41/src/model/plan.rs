//! What each backbone layer does beside attention and experts, settled once from the configuration.

use tokenfare_device::Device;

use super::ModelError;
use crate::config::Config;
use crate::weights::Weights;

/// What a layer does with candidate blocks when it selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CandidateRole {
    Ignore,
    Write,
    Read,
}

/// A layer that attends to compressed rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CompressedPlan {
    /// Number of its source among the sources.
    pub source: usize,
    /// Whether it is that source: it writes compressed rows and index keys.
    pub writes: bool,
    /// Whether it selects by itself; otherwise the selection of the layer before stands.
    pub selects: Option<CandidateRole>,
}

/// One backbone layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LayerPlan {
    /// Its number among the Engram layers.
    pub engram: Option<usize>,
    /// Places of this layer's input among the taps.
    pub taps: Vec<usize>,
    pub compressed: Option<CompressedPlan>,
}

/// Plans of all layers, checked against the weights at hand.
pub(super) fn plan<D: Device>(config: &Config, weights: &Weights<D>) -> Result<Vec<LayerPlan>, ModelError> {
    let count = |what, found: usize, expected: usize| {
        if found == expected { Ok(()) } else { Err(ModelError::Count { what, found, expected }) }
    };
    count("layers", weights.layers.len(), config.layers)?;
    count("compress ratios", config.ratios.len(), config.layers)?;
    if let (Some(drafter), Some(sizes)) = (&weights.drafter, &config.drafter) {
        count("drafter blocks", drafter.blocks.len(), sizes.blocks)?;
    } else if weights.drafter.is_some() {
        return Err(ModelError::Count { what: "drafters", found: 1, expected: 0 });
    }
    (0..config.layers).map(|layer| plan_layer(config, weights, layer)).collect()
}

fn plan_layer<D: Device>(
    config: &Config,
    weights: &Weights<D>,
    layer: usize,
) -> Result<LayerPlan, ModelError> {
    let fail = |problem| ModelError::Layer { layer, problem };
    let block = &weights.layers[layer];
    let engram = config.engram.as_ref().and_then(|e| e.layers.iter().position(|&l| l == layer));
    if engram.is_some() != block.engram.is_some() {
        return Err(fail("Engram weights and engram_layer_ids disagree"));
    }
    let taps = config.drafter.as_ref().map_or(Vec::new(), |d| {
        d.taps.iter().enumerate().filter(|(_, l)| **l == layer).map(|(place, _)| place).collect()
    });
    let compressed = match config.ratios[layer] {
        0 => None,
        1 | 2 => Some(plan_compressed(config, block, layer).map_err(fail)?),
        _ => return Err(fail("compress ratio other than 0, 1 and 2")),
    };
    Ok(LayerPlan { engram, taps, compressed })
}

fn plan_compressed<D: Device>(
    config: &Config,
    block: &crate::weights::Block<D>,
    layer: usize,
) -> Result<CompressedPlan, &'static str> {
    let from = config.kv_source(layer).ok_or("compressed attention before the first kv source")?;
    let source = config.kv_sources.iter().position(|&l| l == from).ok_or("unknown kv source")?;
    if config.ratios[from] != config.ratios[layer] {
        return Err("compress ratio differs from that of its kv source");
    }
    let writes = from == layer;
    if writes {
        let compressor = block.compressor.as_ref().ok_or("kv source without compressor weights")?;
        if (config.ratios[layer] == 2) != compressor.wgate.is_some() {
            return Err("compressor gate and compress ratio disagree");
        }
        if block.indexer.as_ref().is_none_or(|indexer| indexer.key.is_none()) {
            return Err("kv source without index keys");
        }
    }
    let selects = if config.index_sources.contains(&layer) {
        if block.indexer.is_none() {
            return Err("index source without indexer weights");
        }
        Some(match layer.cmp(&config.candidate_source) {
            std::cmp::Ordering::Less => CandidateRole::Ignore,
            std::cmp::Ordering::Equal => CandidateRole::Write,
            std::cmp::Ordering::Greater => CandidateRole::Read,
        })
    } else if config.index_source(layer).is_none_or(|s| config.kv_source(s) != Some(from)) {
        return Err("no selection over the rows of its kv source");
    } else {
        None
    };
    Ok(CompressedPlan { source, writes, selects })
}
