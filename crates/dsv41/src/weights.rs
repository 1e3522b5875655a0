//! The model's weights in device memory, named as in the checkpoint.

use tokenfare_device::Device;

use crate::checkpoint::EngramTable;

/// Hyper-connection weights of one sublayer (`hc_attn_*` or `hc_ffn_*`), `m = 2s + s*s` mixes of `s` streams.
pub struct HyperConnection<D: Device> {
    /// `*_fn`: `[m, s * hidden]`, f32.
    pub mix: D::Linear,
    /// `*_base`: `[m]`.
    pub base: D::Buf<f32>,
    /// `*_scale`: `[3]`.
    pub scale: D::Buf<f32>,
}

/// `attn.compressor.*`, at the layers that write compressed rows.
pub struct Compressor<D: Device> {
    /// `wkv`: `[head_dim, hidden]`.
    pub wkv: D::Linear,
    /// `wgate`: `[head_dim, hidden]`, where the ratio is 2.
    pub wgate: Option<D::Linear>,
    /// `norm`: `[head_dim]`.
    pub norm: D::Buf<f32>,
}

/// `attn.indexer.*`, at the layers that select.
pub struct Indexer<D: Device> {
    /// `wq_b`: `[index heads * index dim, q_lora]`.
    pub wq_b: D::Linear,
    /// `weights_proj`: `[index heads, hidden]`.
    pub weights_proj: D::Linear,
    /// `wk` `[index dim, head_dim]` and `k_norm` `[index dim]`, at the layers that also write keys.
    pub key: Option<(D::Linear, D::Buf<f32>)>,
}

/// `engram.*`.
pub struct Engram<D: Device> {
    /// `embed`: rows read from disk on demand.
    pub table: EngramTable,
    /// `wkv`: `[hidden * (streams + 1), columns * row width]`.
    pub wkv: D::Linear,
    /// `q_weight * k_weight`, both bf16, product in f32: `[streams * hidden]`.
    pub qk: D::Buf<f32>,
}

/// `ffn.*`.
pub struct Ffn<D: Device> {
    /// `gate.weight`: `[experts, hidden]`.
    pub gate: D::Linear,
    /// `gate.bias`: `[experts]`.
    pub bias: D::Buf<f32>,
    /// `experts.*`.
    pub routed: D::Experts,
    /// `shared_experts.{w1, w3, w2}`.
    pub shared: [D::Linear; 3],
}

/// One backbone layer, or one drafter block (which has no compressor, indexer or engram).
pub struct Block<D: Device> {
    /// `attn.wq_a`: `[q_lora, hidden]`.
    pub wq_a: D::Linear,
    /// `attn.q_norm`: `[q_lora]`.
    pub q_norm: D::Buf<f32>,
    /// `attn.wq_b`: `[heads * head_dim, q_lora]`.
    pub wq_b: D::Linear,
    /// `attn.wkv`: `[head_dim, hidden]`.
    pub wkv: D::Linear,
    /// `attn.kv_norm`: `[head_dim]`.
    pub kv_norm: D::Buf<f32>,
    /// `attn.attn_sink`: `[heads]`.
    pub sink: D::Buf<f32>,
    /// `attn.wo_a`: `[groups * o_lora, heads * head_dim / groups]`, block diagonal.
    pub wo_a: D::Linear,
    /// `attn.wo_b`: `[hidden, groups * o_lora]`.
    pub wo_b: D::Linear,
    /// `attn_norm`: `[hidden]`.
    pub attn_norm: D::Buf<f32>,
    /// `ffn_norm`: `[hidden]`.
    pub ffn_norm: D::Buf<f32>,
    /// `hc_attn_*`.
    pub hc_attn: HyperConnection<D>,
    /// `hc_ffn_*`.
    pub hc_ffn: HyperConnection<D>,
    /// `attn.compressor.*`.
    pub compressor: Option<Compressor<D>>,
    /// `attn.indexer.*`.
    pub indexer: Option<Indexer<D>>,
    /// `engram.*`.
    pub engram: Option<Engram<D>>,
    /// `ffn.*`.
    pub ffn: Ffn<D>,
}

/// The drafter: `mtp.*`.
pub struct Drafter<D: Device> {
    /// `mtp.0.main_proj`: `[hidden, taps * hidden]`.
    pub main_proj: D::Linear,
    /// `mtp.0.main_norm`: `[hidden]`.
    pub main_norm: D::Buf<f32>,
    /// `mtp.N`.
    pub blocks: Vec<Block<D>>,
    /// `norm` of the last block: `[hidden]`.
    pub norm: D::Buf<f32>,
    /// `markov_head.embed`: `[vocab, rank]`.
    pub markov_embed: D::Table,
    /// `markov_head.head`: `[vocab, rank]`.
    pub markov_head: D::Linear,
    /// `confidence_head.proj`: `[1, hidden + rank]`.
    pub confidence: D::Linear,
}

/// Everything a forward pass needs.
pub struct Weights<D: Device> {
    /// `embed`: `[vocab, hidden]`.
    pub embed: D::Table,
    /// `layers.N`.
    pub layers: Vec<Block<D>>,
    /// `norm`: `[hidden]`.
    pub norm: D::Buf<f32>,
    /// `head`: `[vocab, hidden]`.
    pub head: D::Linear,
    /// `mtp.*`, if the checkpoint has it and it was asked for.
    pub drafter: Option<Drafter<D>>,
}
