//! The backbone: weights, state and working memory, and the operations of one launch over them.

use tokenfare_device::{Device, Result, View};

use super::block::{CompressedKeys, Keys, Launch, Router};
use super::inputs::Inputs;
use super::plan::{LayerPlan, plan};
use super::scratch::Scratch;
use super::state::{Layout, State};
use super::watch::Watch;
use super::{ModelError, ModelOptions};
use crate::config::Config;
use crate::weights::Weights;

/// Everything a launch touches on the device.
pub(super) struct Net<D: Device> {
    pub config: Config,
    pub weights: Weights<D>,
    pub plans: Vec<LayerPlan>,
    pub layout: Layout,
    pub state: State<D>,
    pub inputs: Inputs<D>,
    pub scratch: Scratch<D>,
    /// `[rows, taps * hidden]` of the last launch.
    pub taps: D::Buf<f32>,
    /// `[window_rows]` rows whose logits are wanted.
    pub wanted: D::Buf<u32>,
    /// `[window_rows, hidden]` of those.
    head_in: D::Buf<f32>,
    /// `[window_rows, vocab]`.
    pub logits: D::Buf<f32>,
    /// Rows of the largest launch.
    pub rows: usize,
}

impl<D: Device> Net<D> {
    pub fn new(
        device: &mut D,
        weights: Weights<D>,
        config: &Config,
        options: &ModelOptions,
    ) -> Result<Self, ModelError> {
        let plans = plan(config, &weights)?;
        let layout = Layout::new(options, config);
        let rows = options.launch_rows(config);
        let blocks = weights.drafter.as_ref().map_or(0, |d| d.blocks.len());
        let taps = config.drafter.as_ref().map_or(0, |d| d.taps.len());
        Ok(Self {
            state: State::new(device, options, &layout, config, blocks)?,
            inputs: Inputs::new(device, rows, config)?,
            scratch: Scratch::new(device, rows, options.context, config)?,
            taps: device.alloc(rows * taps * config.hidden)?,
            wanted: device.alloc(options.window_rows)?,
            head_in: device.alloc(options.window_rows * config.hidden)?,
            logits: device.alloc(options.window_rows * config.vocab)?,
            config: config.clone(),
            weights,
            plans,
            layout,
            rows,
        })
    }

    /// Width of a row of taps.
    pub fn taps_width(&self) -> usize {
        self.config.drafter.as_ref().map_or(0, |d| d.taps.len() * self.config.hidden)
    }

    /// All layers over `n` rows; leaves the streams and the taps.
    pub fn forward(&self, device: &mut D, n: usize, mut watch: Watch<'_>) -> Result<()> {
        let (config, scratch, inputs) = (&self.config, &self.scratch, &self.inputs);
        let mut launch = Launch { device, n, config, scratch };
        launch.embed(&self.weights.embed, &inputs.window.tokens)?;
        for (layer, plan) in self.plans.iter().enumerate() {
            self.before_layer(&mut launch, layer, plan)?;
            let pre = if layer == 0 { scratch.first_pre() } else { scratch.last_pre() };
            let router = Router { experts: config.experts, top_k: config.top_k };
            launch.block(&self.weights.layers[layer], pre, &self.keys(layer, plan), router)?;
            watch.layer(launch.device, n, layer, plan, self)?;
        }
        watch.taps(launch.device, n, self)
    }

    /// Engram, then the taps: both work on the streams that enter the layer.
    fn before_layer(&self, launch: &mut Launch<'_, D>, layer: usize, plan: &LayerPlan) -> Result<()> {
        let (n, scratch, hidden) = (launch.n, &self.scratch, self.config.hidden);
        let engram = self.weights.layers[layer].engram.as_ref();
        if let (Some(engram), Some(number), Some(sizes)) = (engram, plan.engram, &self.config.engram) {
            let rows = View::dense(&self.inputs.engram[number], sizes.columns() * sizes.width);
            launch.device.linear(n, rows, &engram.wkv, scratch.engram())?;
            launch.device.engram_gate(n, scratch.engram(), &engram.qk, self.config.norm_eps, scratch.h())?;
        }
        for &place in &plan.taps {
            let tap = View::dense(&self.taps, self.taps_width()).cols(place * hidden, hidden);
            launch.device.hc_mean(n, scratch.h(), tap)?;
        }
        Ok(())
    }

    fn keys<'a>(&'a self, layer: usize, plan: &'a LayerPlan) -> Keys<'a, D> {
        let inputs = &self.inputs;
        let compressed = plan.compressed.as_ref().map(|plan| {
            let source = &self.state.sources[plan.source];
            CompressedKeys {
                plan,
                source,
                rows: inputs.group(source.ratio),
                carry_store: &inputs.carry_store,
                carry_first: &inputs.carry_first,
            }
        });
        Keys {
            window: &self.state.windows[layer],
            ring: self.layout.ring,
            rows: &inputs.window,
            angles: if compressed.is_some() { &inputs.compressed_angles } else { &inputs.window.angles },
            compressed,
        }
    }

    /// A whole window: all layers, then the logits of every row.
    pub fn window(&self, device: &mut D, n: usize, watch: Watch<'_>) -> Result<()> {
        self.forward(device, n, watch)?;
        self.collapse(device, n)?;
        let vocab = self.config.vocab;
        device.linear(n, self.scratch.x(), &self.weights.head, View::dense(&self.logits, vocab))
    }

    /// The final norm of all `n` rows of the launch.
    pub fn collapse(&self, device: &mut D, n: usize) -> Result<()> {
        let mut launch = Launch { device, n, config: &self.config, scratch: &self.scratch };
        launch.collapse(self.scratch.last_pre(), &self.weights.norm, self.scratch.x())
    }

    /// Logits of the `n` rows named by `wanted`, after [`Self::collapse`].
    pub fn head(&self, device: &mut D, n: usize) -> Result<()> {
        let rows = View::dense(&self.head_in, self.config.hidden);
        device.select_rows(n, self.scratch.x(), &self.wanted, rows)?;
        device.linear(n, rows, &self.weights.head, View::dense(&self.logits, self.config.vocab))
    }
}
