//! One layer, as backbone layers and drafter blocks share it: attention and experts between the streams.

use tokenfare_device::{
    Attention, Cache, CacheFormat, CacheStore, Candidates, Device, IndexSelect, Moe, PairPool, Result, Route,
    Selected, View,
};

use super::inputs::{GroupInputs, WindowInputs};
use super::plan::{CandidateRole, CompressedPlan};
use super::scratch::Scratch;
use super::state::Source;
use crate::config::Config;
use crate::weights::{Block, Ffn, HyperConnection, Indexer};

/// A launch of `n` rows on its way through the layers.
pub(super) struct Launch<'a, D: Device> {
    pub device: &'a mut D,
    pub n: usize,
    pub config: &'a Config,
    pub scratch: &'a Scratch<D>,
}

/// Experts of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Router {
    pub experts: usize,
    pub top_k: usize,
}

/// The keys that a layer attends to.
pub(super) struct Keys<'a, D: Device> {
    pub window: &'a Cache<D>,
    /// Window rows a slot.
    pub ring: usize,
    pub rows: &'a WindowInputs<D>,
    /// Angles of the layer's table.
    pub angles: &'a D::Buf<f32>,
    pub compressed: Option<CompressedKeys<'a, D>>,
}

/// Compressed keys beside the window.
pub(super) struct CompressedKeys<'a, D: Device> {
    pub plan: &'a CompressedPlan,
    pub source: &'a Source<D>,
    pub rows: &'a GroupInputs<D>,
    pub carry_store: &'a D::Buf<u32>,
    pub carry_first: &'a D::Buf<u32>,
}

impl<D: Device> Launch<'_, D> {
    /// Starts the streams from the embeddings of `tokens`.
    pub fn embed(&mut self, embed: &D::Table, tokens: &D::Buf<u32>) -> Result<()> {
        self.device.gather(self.n, embed, tokens, self.config.streams, self.scratch.h())
    }

    /// One layer in place on the streams. `pre` are the collapse weights that the sublayer before left.
    pub fn block(
        &mut self,
        block: &Block<D>,
        pre: View<'_, D>,
        keys: &Keys<'_, D>,
        router: Router,
    ) -> Result<()> {
        let (s, streams) = (self.scratch, self.config.streams);
        self.mix(&block.hc_attn, s.attn_mix())?;
        self.collapse(pre, &block.attn_norm, s.x())?;
        self.attention(block, keys)?;
        self.expand(s.attn_mix())?;
        self.mix(&block.hc_ffn, s.ffn_mix())?;
        self.collapse(s.attn_mix().cols(0, streams), &block.ffn_norm, s.x())?;
        self.experts(&block.ffn, router)?;
        self.expand(s.ffn_mix())
    }

    /// The streams, weighted by `pre`, under an RMSNorm.
    pub fn collapse(&mut self, pre: View<'_, D>, norm: &D::Buf<f32>, out: View<'_, D>) -> Result<()> {
        let norm = Some((norm, self.config.norm_eps));
        self.device.hc_collapse(self.n, self.scratch.h(), pre, norm, out)
    }

    fn mix(&mut self, hc: &HyperConnection<D>, out: View<'_, D>) -> Result<()> {
        let c = self.config;
        self.device.hc_mix(
            self.n,
            self.scratch.h(),
            &hc.mix,
            &hc.base,
            &hc.scale,
            c.sinkhorn_iters,
            c.hc_eps,
            c.norm_eps,
            out,
        )
    }

    fn expand(&mut self, mix: View<'_, D>) -> Result<()> {
        let streams = self.config.streams;
        let (post, comb) = (mix.cols(streams, streams), mix.cols(2 * streams, streams * streams));
        self.device.hc_expand(self.n, self.scratch.y(), post, comb, self.scratch.h())
    }

    fn attention(&mut self, block: &Block<D>, keys: &Keys<'_, D>) -> Result<()> {
        let (n, c, s) = (self.n, self.config, self.scratch);
        self.device.linear(n, s.x(), &block.wq_a, s.q_low())?;
        self.device.rms_norm(n, s.q_low(), &block.q_norm, c.norm_eps, s.q_low())?;
        self.device.linear(n, s.q_low(), &block.wq_b, s.q())?;
        self.rotate(s.q(), c.heads, keys.angles, false, CacheFormat::F32)?;

        self.device.linear(n, s.x(), &block.wkv, s.kv())?;
        let norm = Some((&block.kv_norm, c.norm_eps));
        self.store(s.kv(), norm, keys.angles, keys.window, &keys.rows.store)?;

        let selected = match &keys.compressed {
            None => None,
            Some(compressed) => {
                self.compress(block, compressed)?;
                self.select(block, keys.angles, compressed)?;
                Some(Selected {
                    cache: &compressed.source.compressed,
                    base: &compressed.rows.base,
                    list: &s.selection,
                    top_k: c.index_top_k,
                })
            }
        };
        self.device.attention(
            n,
            Attention {
                q: s.q(),
                heads: c.heads,
                scale: (c.head_dim as f64).sqrt().recip() as f32,
                sink: &block.sink,
                window: keys.window,
                base: &keys.rows.base,
                ring: keys.ring,
                lo: &keys.rows.lo,
                hi: &keys.rows.hi,
                selected,
                out: s.o(),
            },
        )?;
        self.rotate(s.o(), c.heads, keys.angles, true, CacheFormat::F32)?;
        self.device.linear(n, s.o(), &block.wo_a, s.o_low())?;
        self.device.linear(n, s.o_low(), &block.wo_b, s.y())
    }

    fn rotate(
        &mut self,
        x: View<'_, D>,
        heads: usize,
        angles: &D::Buf<f32>,
        inverse: bool,
        round_trip: CacheFormat,
    ) -> Result<()> {
        self.device.rope(self.n, x, heads, angles, self.config.rope_dims, inverse, round_trip)
    }

    fn store(
        &mut self,
        x: View<'_, D>,
        norm: Option<(&D::Buf<f32>, f32)>,
        angles: &D::Buf<f32>,
        cache: &Cache<D>,
        index: &D::Buf<u32>,
    ) -> Result<()> {
        let rope_dims = self.config.rope_dims;
        self.device.cache_store(self.n, CacheStore { x, norm, angles, rope_dims, cache, index })
    }

    /// Writes the compressed rows and index keys of the groups that close in this launch, at a kv source.
    fn compress(&mut self, block: &Block<D>, keys: &CompressedKeys<'_, D>) -> Result<()> {
        if !keys.plan.writes {
            return Ok(());
        }
        let (n, s, source, rows) = (self.n, self.scratch, keys.source, keys.rows);
        let compressor = block.compressor.as_ref().expect("a kv source has a compressor");
        let indexer = block.indexer.as_ref().expect("a kv source has an indexer");
        let (wk, k_norm) = indexer.key.as_ref().expect("a kv source has index keys");
        let eps = self.config.norm_eps;
        self.device.linear(n, s.x(), &compressor.wkv, s.kv())?;
        let mut pooled = s.kv();
        if let (Some(wgate), Some(carry)) = (&compressor.wgate, &source.carry) {
            self.device.linear(n, s.x(), wgate, s.gate())?;
            pooled = s.latent();
            self.device.pair_pool(
                n,
                PairPool {
                    kv: s.kv(),
                    gate: s.gate(),
                    carry,
                    store: keys.carry_store,
                    first: keys.carry_first,
                    out: pooled,
                },
            )?;
        }
        self.device.rms_norm(n, pooled, &compressor.norm, eps, s.latent())?;
        self.store(s.latent(), None, &rows.angles, &source.compressed, &rows.store)?;
        self.device.linear(n, s.latent(), wk, s.index_key())?;
        self.store(s.index_key(), Some((k_norm, eps)), &rows.angles, &source.keys, &rows.store)
    }

    /// Selects compressed rows, at an index source; elsewhere the selection before stands.
    fn select(&mut self, block: &Block<D>, angles: &D::Buf<f32>, keys: &CompressedKeys<'_, D>) -> Result<()> {
        let Some(role) = keys.plan.selects else { return Ok(()) };
        let (n, c, s) = (self.n, self.config, self.scratch);
        let Indexer { wq_b, weights_proj, .. } =
            block.indexer.as_ref().expect("an index source has an indexer");
        self.device.linear(n, s.q_low(), wq_b, s.index_q())?;
        self.rotate(s.index_q(), c.index_heads, angles, false, keys.source.keys.format)?;
        self.device.linear(n, s.x(), weights_proj, s.index_gate())?;
        let (block, top, words) = (c.candidate_block, c.candidate_blocks, s.mask_words);
        let candidates = match role {
            CandidateRole::Ignore => Candidates::None,
            CandidateRole::Write => Candidates::Write { block, top, mask: &s.mask, words },
            CandidateRole::Read => Candidates::Read { block, mask: &s.mask, words },
        };
        self.device.index_select(
            n,
            IndexSelect {
                q: s.index_q(),
                gate: s.index_gate(),
                scale: ((c.index_dim * c.index_heads) as f64).sqrt().recip() as f32,
                keys: &keys.source.keys,
                base: &keys.rows.base,
                count: &keys.rows.count,
                top_k: c.index_top_k,
                candidates,
                out: &s.selection,
            },
        )
    }

    fn experts(&mut self, ffn: &Ffn<D>, router: Router) -> Result<()> {
        let (n, c, s) = (self.n, self.config, self.scratch);
        let (logits, top_k) = (s.router(router.experts), router.top_k);
        self.device.linear(n, s.x(), &ffn.gate, logits)?;
        let (experts, weights) = (&s.experts, &s.expert_weights);
        self.device.route(
            n,
            Route {
                logits,
                bias: &ffn.bias,
                top_k,
                normalize: c.norm_topk && top_k > 1,
                scale: c.route_scale,
                experts,
                weights,
            },
        )?;
        self.device.moe(
            n,
            Moe {
                x: s.x(),
                experts,
                weights,
                top_k,
                routed: &ffn.routed,
                shared: &ffn.shared,
                limit: c.swiglu_limit,
                scratch: &s.moe,
                out: s.y(),
            },
        )
    }
}
