//! Device memory that outlives a launch: rings and compressed rows of every slot, addressed by position.

use tokenfare_device::{Cache, Device, Result};

use super::{CacheMode, ModelOptions};
use crate::config::Config;

/// Where rows of a slot stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub slots: usize,
    pub context: usize,
    /// Visible window positions.
    pub window: usize,
    /// Window rows a slot. A launch may not overwrite what its first row still sees, nor may a rejected row
    /// overwrite what is kept: the window and the largest launch fit side by side.
    pub ring: usize,
    /// Rows of open groups a slot: one for every second ring position.
    pub carry: usize,
    /// Drafter context rows a slot: a window, a launch, and the block of the current pass.
    pub context_ring: usize,
}

impl Layout {
    pub fn new(options: &ModelOptions, config: &Config) -> Self {
        let rows = options.launch_rows(config);
        let ring = config.window + rows;
        let block = config.drafter.as_ref().map_or(0, |d| d.block);
        Self {
            slots: options.slots,
            context: options.context,
            window: config.window,
            ring,
            carry: ring / 2 + 1,
            context_ring: ring + block,
        }
    }

    /// Compressed rows a slot.
    pub fn groups(&self, ratio: usize) -> usize {
        self.context.div_ceil(ratio)
    }

    /// Bytes of state that one slot takes.
    pub fn slot_bytes(&self, caches: CacheMode, config: &Config) -> usize {
        let window = caches.window().row_bytes(config.head_dim);
        let blocks = config.drafter.as_ref().map_or(0, |d| d.blocks);
        let rings = window * (config.layers * self.ring + blocks * self.context_ring);
        let group =
            caches.compressed().row_bytes(config.head_dim) + caches.index().row_bytes(config.index_dim);
        let source = |&layer: &usize| {
            let ratio = config.ratios[layer];
            let carry = if ratio == 2 { self.carry * 2 * config.head_dim * size_of::<f32>() } else { 0 };
            self.groups(ratio) * group + carry
        };
        rings + config.kv_sources.iter().map(source).sum::<usize>()
    }

    pub fn window_row(&self, slot: usize, position: usize) -> u32 {
        (slot * self.ring + position % self.ring) as u32
    }

    pub fn carry_row(&self, slot: usize, position: usize) -> u32 {
        (slot * self.carry + position / 2 % self.carry) as u32
    }

    pub fn context_row(&self, slot: usize, position: usize) -> u32 {
        (slot * self.context_ring + position % self.context_ring) as u32
    }
}

/// What a kv source writes for itself and the layers after it.
pub(super) struct Source<D: Device> {
    pub ratio: usize,
    pub compressed: Cache<D>,
    pub keys: Cache<D>,
    /// `[slots * carry, 2 * head_dim]`, where the ratio is 2.
    pub carry: Option<D::Buf<f32>>,
}

/// Every row that later positions can depend on.
pub(super) struct State<D: Device> {
    /// One window a layer.
    pub windows: Vec<Cache<D>>,
    /// In the order of `kv_source_layer_ids`.
    pub sources: Vec<Source<D>>,
    /// One context a drafter block.
    pub contexts: Vec<Cache<D>>,
}

impl<D: Device> State<D> {
    pub fn new(
        device: &D,
        options: &ModelOptions,
        layout: &Layout,
        config: &Config,
        blocks: usize,
    ) -> Result<Self> {
        let caches = options.caches;
        let window = |rows| Cache::new(device, caches.window(), config.head_dim, layout.slots * rows);
        let source = |&layer: &usize| {
            let ratio = config.ratios[layer];
            let rows = layout.slots * layout.groups(ratio);
            Ok(Source {
                ratio,
                compressed: Cache::new(device, caches.compressed(), config.head_dim, rows)?,
                keys: Cache::new(device, caches.index(), config.index_dim, rows)?,
                carry: match ratio {
                    2 => Some(device.alloc(layout.slots * layout.carry * 2 * config.head_dim)?),
                    _ => None,
                },
            })
        };
        Ok(Self {
            windows: (0..config.layers).map(|_| window(layout.ring)).collect::<Result<_>>()?,
            sources: config.kv_sources.iter().map(source).collect::<Result<_>>()?,
            contexts: (0..blocks).map(|_| window(layout.context_ring)).collect::<Result<_>>()?,
        })
    }
}
