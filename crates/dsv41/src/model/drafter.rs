//! The drafter's launches: context from taps, and one pass over a block of positions an ask.

use tokenfare_device::{CacheStore, Device, Result, View};

use super::block::{Keys, Launch, Router};
use super::forward::Net;
use super::inputs::{Ropes, Row, WindowInputs};
use super::state::Layout;
use crate::config::DrafterConfig;
use crate::weights::Drafter as Weights;

/// Working memory of the drafter, `asks` asks at a time.
pub(super) struct Pass<D: Device> {
    pub sizes: DrafterConfig,
    /// Most asks of one pass.
    pub asks: usize,
    hidden: usize,
    vocab: usize,
    /// `[rows]` rows of the last launch that become context.
    taken: D::Buf<u32>,
    /// `[rows, taps * hidden]` of those.
    taps: D::Buf<f32>,
    rows: WindowInputs<D>,
    /// `[asks * block, hidden + rank]`: what the confidence head reads.
    features: D::Buf<f32>,
    /// `[asks * block, vocab]`.
    pub base: D::Buf<f32>,
    /// `[asks]` the token before the draft.
    previous: D::Buf<u32>,
    /// `[asks, vocab]` of one step.
    pub logits: D::Buf<f32>,
    /// `[asks * block]`.
    pub confidence: D::Buf<f32>,
    /// Recorded block passes: entry `a - 1` runs `a` asks.
    pub programs: Vec<Option<D::Program>>,
}

impl<D: Device> Net<D> {
    /// Working memory of the drafter, if there is one.
    pub fn pass(&self, device: &D) -> Result<Option<Pass<D>>> {
        let (Some(_), Some(sizes)) = (&self.weights.drafter, &self.config.drafter) else { return Ok(None) };
        let (hidden, vocab) = (self.config.hidden, self.config.vocab);
        let asks = self.layout.slots.min(self.rows / sizes.block);
        let rows = asks * sizes.block;
        Ok(Some(Pass {
            sizes: sizes.clone(),
            asks,
            hidden,
            vocab,
            taken: device.alloc(self.rows)?,
            taps: device.alloc(self.rows * self.taps_width())?,
            rows: WindowInputs::new(device, self.rows, self.config.rope_dims)?,
            features: device.alloc(rows * (hidden + sizes.rank))?,
            base: device.alloc(rows * vocab)?,
            previous: device.alloc(asks)?,
            logits: device.alloc(asks * vocab)?,
            confidence: device.alloc(rows)?,
            programs: (0..asks).map(|_| None).collect(),
        }))
    }

    pub fn drafter(&self) -> &Weights<D> {
        self.weights.drafter.as_ref().expect("a pass exists only with a drafter")
    }
}

impl<D: Device> Pass<D> {
    /// Drafts a pass.
    pub fn block(&self) -> usize {
        self.sizes.block
    }

    /// `[asks * block, hidden]`: the block's output before its norm.
    pub fn hidden(&self) -> View<'_, D> {
        View::dense(&self.features, self.hidden + self.sizes.rank).cols(0, self.hidden)
    }

    /// `[asks * block, rank]`: Markov embeddings of the tokens before the drafts.
    fn markov(&self) -> View<'_, D> {
        View::dense(&self.features, self.hidden + self.sizes.rank).cols(self.hidden, self.sizes.rank)
    }

    /// Stores context rows: `taken[i]` is the row of the last launch at `rows[i]`.
    pub fn ingest(
        &self,
        device: &mut D,
        net: &Net<D>,
        ropes: &Ropes,
        rows: &[Row],
        taken: &[u32],
    ) -> Result<()> {
        let (n, width, layout) = (rows.len(), net.taps_width(), net.layout);
        let store: Vec<u32> = rows.iter().map(|r| layout.context_row(r.slot, r.position)).collect();
        device.write(&self.taken, 0, taken)?;
        device.write(&self.rows.store, 0, &store)?;
        device.write(&self.rows.angles, 0, &ropes.plain.rows(rows.iter().map(|r| r.position)))?;

        let (weights, scratch, config) = (net.drafter(), &net.scratch, &net.config);
        let taps = View::dense(&self.taps, width);
        device.select_rows(n, View::dense(&net.taps, width), &self.taken, taps)?;
        device.linear(n, taps, &weights.main_proj, scratch.x())?;
        device.rms_norm(n, scratch.x(), &weights.main_norm, config.norm_eps, scratch.x())?;
        for (block, cache) in weights.blocks.iter().zip(&net.state.contexts) {
            device.linear(n, scratch.x(), &block.wkv, scratch.kv())?;
            device.cache_store(
                n,
                CacheStore {
                    x: scratch.kv(),
                    norm: Some((&block.kv_norm, config.norm_eps)),
                    angles: &self.rows.angles,
                    rope_dims: config.rope_dims,
                    cache,
                    index: &self.rows.store,
                },
            )?;
        }
        Ok(())
    }

    /// Uploads the blocks of `heads`, the pending tokens: each is followed by noise tokens, and every row of a
    /// block sees the context from `lows` on and the whole block.
    pub fn upload(
        &self,
        device: &mut D,
        layout: &Layout,
        ropes: &Ropes,
        heads: &[Row],
        lows: &[usize],
    ) -> Result<()> {
        let block = self.sizes.block;
        let column = |f: &dyn Fn(usize, usize) -> u32| -> Vec<u32> {
            (0..heads.len()).flat_map(|a| (0..block).map(move |j| f(a, j))).collect()
        };
        let token = |a: usize, j: usize| if j == 0 { heads[a].token } else { self.sizes.noise };
        let store = |a: usize, j: usize| layout.context_row(heads[a].slot, heads[a].position + j);
        let base = |a: usize, _| (heads[a].slot * layout.context_ring) as u32;
        let positions = heads.iter().flat_map(|h| (0..block).map(|j| h.position + j));
        device.write(&self.rows.tokens, 0, &column(&token))?;
        device.write(&self.rows.store, 0, &column(&store))?;
        device.write(&self.rows.base, 0, &column(&base))?;
        device.write(&self.rows.lo, 0, &column(&|a, _| lows[a] as u32))?;
        device.write(&self.rows.hi, 0, &column(&|a, _| (heads[a].position + block) as u32))?;
        device.write(&self.rows.angles, 0, &ropes.plain.rows(positions))
    }

    /// The block pass over `asks` asks: hidden rows and base logits.
    pub fn run(&self, device: &mut D, net: &Net<D>, asks: usize) -> Result<()> {
        let (config, scratch, weights) = (&net.config, &net.scratch, net.drafter());
        let n = asks * self.sizes.block;
        let mut launch = Launch { device, n, config, scratch };
        launch.embed(&net.weights.embed, &self.rows.tokens)?;
        for (i, (block, window)) in weights.blocks.iter().zip(&net.state.contexts).enumerate() {
            let pre = if i == 0 { scratch.first_pre() } else { scratch.last_pre() };
            let keys = Keys {
                window,
                ring: net.layout.context_ring,
                rows: &self.rows,
                angles: &self.rows.angles,
                compressed: None,
            };
            let router = Router { experts: self.sizes.experts, top_k: self.sizes.top_k };
            launch.block(block, pre, &keys, router)?;
        }
        device.hc_collapse(n, scratch.h(), scratch.last_pre(), None, self.hidden())?;
        device.rms_norm(n, self.hidden(), &weights.norm, config.norm_eps, scratch.x())?;
        device.linear(n, scratch.x(), &net.weights.head, View::dense(&self.base, self.vocab))
    }

    /// Logits of draft `j` of every ask, after the tokens `previous`.
    pub fn step(&self, device: &mut D, weights: &Weights<D>, previous: &[u32], j: usize) -> Result<()> {
        let (asks, block) = (previous.len(), self.sizes.block);
        let embedded = self.markov().rows(j, block);
        let logits = View::dense(&self.logits, self.vocab);
        device.write(&self.previous, 0, previous)?;
        device.gather(asks, &weights.markov_embed, &self.previous, 1, embedded)?;
        device.linear(asks, embedded, &weights.markov_head, logits)?;
        device.add(asks, View::dense(&self.base, self.vocab).rows(j, block), logits)
    }

    /// Confidence logits of all drafts, after the last step.
    pub fn confide(&self, device: &mut D, weights: &Weights<D>, asks: usize) -> Result<()> {
        let features = View::dense(&self.features, self.hidden + self.sizes.rank);
        let out = View::dense(&self.confidence, 1);
        device.linear(asks * self.sizes.block, features, &weights.confidence, out)
    }
}
