//! Every tensor that a release checkpoint of a given configuration holds.

pub use safetensors::Dtype;

use crate::config::{Config, VisionConfig};

/// Columns that share a scale, and rows too in FP8 matrices.
pub(crate) const BLOCK: usize = 32;

/// Name, type and shape of one tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorSpec {
    /// The name as the release stores it, such as `layers.3.attn.wq_a.weight`.
    pub name: String,
    /// Element type; FP4 values are `I8`, two a byte.
    pub dtype: Dtype,
    /// Shape in elements of `dtype`.
    pub shape: Vec<usize>,
}

impl TensorSpec {
    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.shape.iter().map(|n| *n as u64).product::<u64>() * self.dtype.bitsize() as u64 / 8
    }

    /// Trained values: two a byte where FP4 is packed, none in scales.
    pub fn parameters(&self) -> u64 {
        let elements = self.shape.iter().map(|n| *n as u64).product::<u64>();
        match self.dtype {
            Dtype::I8 => 2 * elements,
            Dtype::F8_E8M0 => 0,
            _ => elements,
        }
    }
}

/// All tensors: embeddings, backbone, drafter, and the vision tower if the configuration has one.
pub fn inventory(config: &Config) -> Vec<TensorSpec> {
    let mut all = Vec::new();
    let mut add = |spec| {
        all.push(spec);
        Ok::<(), std::convert::Infallible>(())
    };
    let Ok(()) = visit_text(config, &mut add);
    if let Some(vision) = &config.vision {
        let Ok(()) = Lister { add: &mut add }.vision(vision, config.hidden);
    }
    all
}

/// Calls `add` with each tensor that a text run needs, until it fails: sizes that no file backs cost no
/// memory.
pub(crate) fn visit_text<E>(
    config: &Config,
    add: &mut impl FnMut(TensorSpec) -> Result<(), E>,
) -> Result<(), E> {
    let (vocab, hidden) = (config.vocab, config.hidden);
    let mut list = Lister { add };
    list.bf16("embed.weight", &[vocab, hidden])?;
    for layer in 0..config.layers {
        list.block(config, &format!("layers.{layer}."), Kind::Backbone(layer))?;
    }
    list.bf16("norm.weight", &[hidden])?;
    list.bf16("head.weight", &[vocab, hidden])?;
    let Some(drafter) = &config.drafter else { return Ok(()) };
    list.fp8("mtp.0.main_proj", hidden, hidden * drafter.taps.len())?;
    list.bf16("mtp.0.main_norm.weight", &[hidden])?;
    for block in 0..drafter.blocks {
        list.block(config, &format!("mtp.{block}."), Kind::Drafter(drafter.experts))?;
    }
    let last = format!("mtp.{}.", drafter.blocks - 1);
    list.bf16(&format!("{last}norm.weight"), &[hidden])?;
    list.bf16(&format!("{last}markov_head.embed.weight"), &[vocab, drafter.rank])?;
    list.bf16(&format!("{last}markov_head.head.weight"), &[vocab, drafter.rank])?;
    list.bf16(&format!("{last}confidence_head.proj.weight"), &[1, hidden + drafter.rank])
}

/// A layer of the backbone or a block of the drafter.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// A backbone layer, by number.
    Backbone(usize),
    /// A drafter block with so many experts.
    Drafter(usize),
}

struct Lister<'a, F> {
    add: &'a mut F,
}

impl<E, F: FnMut(TensorSpec) -> Result<(), E>> Lister<'_, F> {
    fn put(&mut self, name: &str, dtype: Dtype, shape: &[usize]) -> Result<(), E> {
        (self.add)(TensorSpec { name: name.to_owned(), dtype, shape: shape.to_vec() })
    }

    fn bf16(&mut self, name: &str, shape: &[usize]) -> Result<(), E> {
        self.put(name, Dtype::BF16, shape)
    }

    fn f32(&mut self, name: &str, shape: &[usize]) -> Result<(), E> {
        self.put(name, Dtype::F32, shape)
    }

    /// An FP8 matrix with a scale per 32x32 block.
    fn fp8(&mut self, name: &str, rows: usize, cols: usize) -> Result<(), E> {
        self.put(&format!("{name}.weight"), Dtype::F8_E4M3, &[rows, cols])?;
        let scales = [rows.div_ceil(BLOCK), cols.div_ceil(BLOCK)];
        self.put(&format!("{name}.scale"), Dtype::F8_E8M0, &scales)
    }

    /// An FP4 matrix with a scale per 32 columns of a row.
    fn fp4(&mut self, name: &str, rows: usize, cols: usize) -> Result<(), E> {
        self.put(&format!("{name}.weight"), Dtype::I8, &[rows, cols / 2])?;
        self.put(&format!("{name}.scale"), Dtype::F8_E8M0, &[rows, cols / BLOCK])
    }

    fn block(&mut self, c: &Config, prefix: &str, kind: Kind) -> Result<(), E> {
        self.attention(c, &format!("{prefix}attn."))?;
        let experts = match kind {
            Kind::Backbone(layer) => {
                self.long_range(c, &format!("{prefix}attn."), layer)?;
                self.engram(c, &format!("{prefix}engram."), layer)?;
                c.experts
            }
            Kind::Drafter(experts) => experts,
        };
        self.ffn(c, &format!("{prefix}ffn."), experts)?;
        self.bf16(&format!("{prefix}attn_norm.weight"), &[c.hidden])?;
        self.bf16(&format!("{prefix}ffn_norm.weight"), &[c.hidden])?;
        for part in ["attn", "ffn"] {
            self.f32(&format!("{prefix}hc_{part}_fn"), &[c.mixes(), c.streams * c.hidden])?;
            self.f32(&format!("{prefix}hc_{part}_base"), &[c.mixes()])?;
            self.f32(&format!("{prefix}hc_{part}_scale"), &[3])?;
        }
        Ok(())
    }

    fn attention(&mut self, c: &Config, prefix: &str) -> Result<(), E> {
        let width = c.heads * c.head_dim;
        self.fp8(&format!("{prefix}wq_a"), c.q_lora, c.hidden)?;
        self.bf16(&format!("{prefix}q_norm.weight"), &[c.q_lora])?;
        self.fp8(&format!("{prefix}wq_b"), width, c.q_lora)?;
        self.fp8(&format!("{prefix}wkv"), c.head_dim, c.hidden)?;
        self.bf16(&format!("{prefix}kv_norm.weight"), &[c.head_dim])?;
        self.fp8(&format!("{prefix}wo_a"), c.o_groups * c.o_lora, width / c.o_groups)?;
        self.fp8(&format!("{prefix}wo_b"), c.hidden, c.o_groups * c.o_lora)?;
        self.f32(&format!("{prefix}attn_sink"), &[c.heads])
    }

    /// Compressor and indexer, where `layer` has them.
    fn long_range(&mut self, c: &Config, prefix: &str, layer: usize) -> Result<(), E> {
        let writes = c.kv_sources.contains(&layer);
        if writes {
            self.bf16(&format!("{prefix}compressor.wkv.weight"), &[c.head_dim, c.hidden])?;
            self.bf16(&format!("{prefix}compressor.norm.weight"), &[c.head_dim])?;
            if c.ratios[layer] > 1 {
                self.bf16(&format!("{prefix}compressor.wgate.weight"), &[c.head_dim, c.hidden])?;
            }
        }
        if c.index_sources.contains(&layer) {
            self.fp8(&format!("{prefix}indexer.wq_b"), c.index_heads * c.index_dim, c.q_lora)?;
            self.bf16(&format!("{prefix}indexer.weights_proj.weight"), &[c.index_heads, c.hidden])?;
            if writes {
                self.bf16(&format!("{prefix}indexer.wk.weight"), &[c.index_dim, c.head_dim])?;
                self.bf16(&format!("{prefix}indexer.k_norm.weight"), &[c.index_dim])?;
            }
        }
        Ok(())
    }

    fn engram(&mut self, c: &Config, prefix: &str, layer: usize) -> Result<(), E> {
        let Some(engram) = &c.engram else { return Ok(()) };
        let Some(at) = engram.layers.iter().position(|l| *l == layer) else { return Ok(()) };
        let rows = engram.rows[at] as usize;
        self.put(&format!("{prefix}embed.weight"), Dtype::F8_E4M3, &[rows, engram.width])?;
        self.put(&format!("{prefix}embed.scale"), Dtype::F8_E8M0, &[rows, engram.width / BLOCK])?;
        let width = engram.columns() * engram.width;
        self.fp8(&format!("{prefix}wkv"), c.hidden * (c.streams + 1), width)?;
        self.bf16(&format!("{prefix}q_weight"), &[c.streams, c.hidden])?;
        self.bf16(&format!("{prefix}k_weight"), &[c.streams, c.hidden])
    }

    fn ffn(&mut self, c: &Config, prefix: &str, experts: usize) -> Result<(), E> {
        let (hidden, inner) = (c.hidden, c.inner);
        self.bf16(&format!("{prefix}gate.weight"), &[experts, hidden])?;
        self.f32(&format!("{prefix}gate.bias"), &[experts])?;
        self.f32(&format!("{prefix}gate.bias_vl"), &[experts])?;
        for expert in 0..experts {
            self.fp4(&format!("{prefix}experts.{expert}.w1"), inner, hidden)?;
            self.fp4(&format!("{prefix}experts.{expert}.w2"), hidden, inner)?;
            self.fp4(&format!("{prefix}experts.{expert}.w3"), inner, hidden)?;
        }
        self.fp8(&format!("{prefix}shared_experts.w1"), inner, hidden)?;
        self.fp8(&format!("{prefix}shared_experts.w2"), hidden, inner)?;
        self.fp8(&format!("{prefix}shared_experts.w3"), inner, hidden)
    }

    fn vision(&mut self, v: &VisionConfig, hidden: usize) -> Result<(), E> {
        self.bf16("vision.patch_embed.proj.weight", &[v.hidden, 3 * v.patch * v.patch])?;
        self.bf16("vision.patch_embed.proj.bias", &[v.hidden])?;
        for block in 0..v.layers {
            let prefix = format!("vision.blocks.{block}.");
            self.bf16(&format!("{prefix}norm1.weight"), &[v.hidden])?;
            self.bf16(&format!("{prefix}norm2.weight"), &[v.hidden])?;
            self.bf16(&format!("{prefix}attn.wqkv.weight"), &[3 * v.hidden, v.hidden])?;
            self.bf16(&format!("{prefix}attn.wqkv.bias"), &[3 * v.hidden])?;
            self.bf16(&format!("{prefix}attn.wo.weight"), &[v.hidden, v.hidden])?;
            self.bf16(&format!("{prefix}attn.wo.bias"), &[v.hidden])?;
            self.bf16(&format!("{prefix}mlp.w1.weight"), &[2 * v.inner, v.hidden])?;
            self.bf16(&format!("{prefix}mlp.w2.weight"), &[v.hidden, v.inner])?;
        }
        self.bf16("vision.norm.weight", &[v.hidden])?;
        self.bf16("aligner.w1.weight", &[hidden, v.hidden * v.downsample * v.downsample])?;
        self.bf16("aligner.w1.bias", &[hidden])?;
        self.bf16("aligner.w2.weight", &[hidden, hidden])?;
        self.bf16("aligner.w2.bias", &[hidden])?;
        for end in ["start", "end", "newline"] {
            self.bf16(&format!("image_{end}"), &[hidden])?;
        }
        Ok(())
    }
}
