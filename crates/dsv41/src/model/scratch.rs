//! Activations of one launch, shared by all layers and by the drafter.

use tokenfare_device::{Device, Result, View};

use crate::config::Config;

/// Buffers of `rows` rows; the comments give their width.
pub(super) struct Scratch<D: Device> {
    /// Streams: `streams * hidden`.
    h: D::Buf<f32>,
    /// Input of a sublayer: `hidden`.
    x: D::Buf<f32>,
    /// Output of a sublayer: `hidden`.
    y: D::Buf<f32>,
    /// Mixes of the attention sublayer: `2 * streams + streams^2`.
    attn_mix: D::Buf<f32>,
    /// Mixes of the expert sublayer.
    ffn_mix: D::Buf<f32>,
    /// The first layer's mix, all of stream 0: `streams`.
    first_pre: D::Buf<f32>,
    /// `q_lora`.
    q_low: D::Buf<f32>,
    /// `heads * head_dim`.
    q: D::Buf<f32>,
    /// `heads * head_dim`.
    o: D::Buf<f32>,
    /// `o_groups * o_lora`.
    o_low: D::Buf<f32>,
    /// `head_dim`.
    kv: D::Buf<f32>,
    /// `head_dim`.
    gate: D::Buf<f32>,
    /// `head_dim`.
    latent: D::Buf<f32>,
    /// `index_dim`.
    index_key: D::Buf<f32>,
    /// `index_heads * index_dim`.
    index_q: D::Buf<f32>,
    /// `index_heads`.
    index_gate: D::Buf<f32>,
    /// `index_top_k`: the selection in force.
    pub selection: D::Buf<u32>,
    /// `mask_words`: kept candidate blocks, a bit each.
    pub mask: D::Buf<u32>,
    pub mask_words: usize,
    /// Router logits, of the layer with the most experts.
    router: D::Buf<f32>,
    /// Chosen experts, of the layer with the largest choice.
    pub experts: D::Buf<u32>,
    /// Their weights.
    pub expert_weights: D::Buf<f32>,
    /// What the expert operation needs.
    pub moe: D::Buf<f32>,
    /// `(streams + 1) * hidden`.
    engram: D::Buf<f32>,
    sizes: Sizes,
}

#[derive(Clone, Copy)]
struct Sizes {
    hidden: usize,
    streams: usize,
    mixes: usize,
    head_dim: usize,
    q_all: usize,
    q_low: usize,
    o_low: usize,
    index_dim: usize,
    index_heads: usize,
}

macro_rules! views {
    ($($name:ident: $width:expr;)*) => {
        impl<D: Device> Scratch<D> {
            $(pub fn $name(&self) -> View<'_, D> {
                let width: fn(&Sizes) -> usize = $width;
                View::dense(&self.$name, width(&self.sizes))
            })*
        }
    };
}

views! {
    h: |s| s.streams * s.hidden;
    x: |s| s.hidden;
    y: |s| s.hidden;
    attn_mix: |s| s.mixes;
    ffn_mix: |s| s.mixes;
    first_pre: |s| s.streams;
    q_low: |s| s.q_low;
    q: |s| s.q_all;
    o: |s| s.q_all;
    o_low: |s| s.o_low;
    kv: |s| s.head_dim;
    gate: |s| s.head_dim;
    latent: |s| s.head_dim;
    index_key: |s| s.index_dim;
    index_q: |s| s.index_heads * s.index_dim;
    index_gate: |s| s.index_heads;
    engram: |s| (s.streams + 1) * s.hidden;
}

impl<D: Device> Scratch<D> {
    /// `context` bounds the candidate blocks of a row.
    pub fn new(device: &mut D, rows: usize, context: usize, config: &Config) -> Result<Self> {
        let sizes = Sizes {
            hidden: config.hidden,
            streams: config.streams,
            mixes: config.mixes(),
            head_dim: config.head_dim,
            q_all: config.heads * config.head_dim,
            q_low: config.q_lora,
            o_low: config.o_groups * config.o_lora,
            index_dim: config.index_dim,
            index_heads: config.index_heads,
        };
        let drafter = config.drafter.as_ref();
        let experts = config.experts.max(drafter.map_or(0, |d| d.experts));
        let top_k = config.top_k.max(drafter.map_or(0, |d| d.top_k));
        let mask_words = context.div_ceil(config.candidate_block).div_ceil(32);
        let moe = device.moe_scratch(rows, top_k, config.hidden, config.inner);
        let alloc = |width: usize| device.alloc(rows * width);
        let scratch = Self {
            h: alloc(sizes.streams * sizes.hidden)?,
            x: alloc(sizes.hidden)?,
            y: alloc(sizes.hidden)?,
            attn_mix: alloc(sizes.mixes)?,
            ffn_mix: alloc(sizes.mixes)?,
            first_pre: alloc(sizes.streams)?,
            q_low: alloc(sizes.q_low)?,
            q: alloc(sizes.q_all)?,
            o: alloc(sizes.q_all)?,
            o_low: alloc(sizes.o_low)?,
            kv: alloc(sizes.head_dim)?,
            gate: alloc(sizes.head_dim)?,
            latent: alloc(sizes.head_dim)?,
            index_key: alloc(sizes.index_dim)?,
            index_q: alloc(sizes.index_heads * sizes.index_dim)?,
            index_gate: alloc(sizes.index_heads)?,
            selection: device.alloc(rows * config.index_top_k)?,
            mask: device.alloc(rows * mask_words)?,
            mask_words,
            router: alloc(experts)?,
            experts: device.alloc(rows * top_k)?,
            expert_weights: alloc(top_k)?,
            moe: device.alloc(moe)?,
            engram: alloc((sizes.streams + 1) * sizes.hidden)?,
            sizes,
        };
        let one_hot: Vec<f32> =
            (0..rows * sizes.streams).map(|i| f32::from(i % sizes.streams == 0)).collect();
        device.write(&scratch.first_pre, 0, &one_hot)?;
        Ok(scratch)
    }

    /// The collapse weights that the last layer left: `[n, streams]`.
    pub fn last_pre(&self) -> View<'_, D> {
        self.ffn_mix().cols(0, self.sizes.streams)
    }

    /// Router logits of `experts` experts.
    pub fn router(&self, experts: usize) -> View<'_, D> {
        View::dense(&self.router, experts)
    }
}
