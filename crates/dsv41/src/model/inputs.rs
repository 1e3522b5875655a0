//! What varies from launch to launch: tokens, cache rows and angles of each row, computed on the host and uploaded
//! before the operations, so that these can be replayed.

use tokenfare_device::{Device, NONE, Result};

use super::state::Layout;
use crate::config::Config;
use crate::model::Rope;

/// One row of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub slot: usize,
    pub position: usize,
    pub token: u32,
}

/// Where window keys of a launch are written, and what each row sees of them.
pub(super) struct WindowInputs<D: Device> {
    /// `[n]` token ids.
    pub tokens: D::Buf<u32>,
    /// `[n, rope_dims]` of the plain table.
    pub angles: D::Buf<f32>,
    /// `[n]` window row that each row is stored to.
    pub store: D::Buf<u32>,
    /// `[n]` first window row of the slot.
    pub base: D::Buf<u32>,
    /// `[n]` first visible position.
    pub lo: D::Buf<u32>,
    /// `[n]` one past the last visible position.
    pub hi: D::Buf<u32>,
}

impl<D: Device> WindowInputs<D> {
    pub fn new(device: &D, rows: usize, rope_dims: usize) -> Result<Self> {
        Ok(Self {
            tokens: device.alloc(rows)?,
            angles: device.alloc(rows * rope_dims)?,
            store: device.alloc(rows)?,
            base: device.alloc(rows)?,
            lo: device.alloc(rows)?,
            hi: device.alloc(rows)?,
        })
    }
}

/// The compressed side of a launch, for sources of one ratio.
pub(super) struct GroupInputs<D: Device> {
    pub ratio: usize,
    /// `[n, rope_dims]` at the first token of the group that the row closes.
    pub angles: D::Buf<f32>,
    /// `[n]` compressed row of that group, NONE where none closes.
    pub store: D::Buf<u32>,
    /// `[n]` first compressed row of the slot.
    pub base: D::Buf<u32>,
    /// `[n]` complete groups at the row.
    pub count: D::Buf<u32>,
}

/// Inputs of a backbone launch.
pub(super) struct Inputs<D: Device> {
    pub window: WindowInputs<D>,
    /// `[n, rope_dims]` of the long-range table.
    pub compressed_angles: D::Buf<f32>,
    /// One for each ratio in use.
    pub groups: Vec<GroupInputs<D>>,
    /// `[n]` carry row of a token that opens a group, else NONE.
    pub carry_store: D::Buf<u32>,
    /// `[n]` carry row of the token before, where the row closes a group of two, else NONE.
    pub carry_first: D::Buf<u32>,
    /// `[n, columns * row width]` table rows, one buffer an Engram layer.
    pub engram: Vec<D::Buf<f32>>,
}

impl<D: Device> Inputs<D> {
    pub fn new(device: &D, rows: usize, config: &Config) -> Result<Self> {
        let dims = config.rope_dims;
        let mut ratios: Vec<usize> = config.kv_sources.iter().map(|&layer| config.ratios[layer]).collect();
        ratios.sort_unstable();
        ratios.dedup();
        let group = |ratio| {
            Ok(GroupInputs {
                ratio,
                angles: device.alloc(rows * dims)?,
                store: device.alloc(rows)?,
                base: device.alloc(rows)?,
                count: device.alloc(rows)?,
            })
        };
        let engram = config.engram.iter().flat_map(|e| {
            let width = e.columns() * e.width;
            e.layers.iter().map(move |_| device.alloc(rows * width))
        });
        Ok(Self {
            window: WindowInputs::new(device, rows, dims)?,
            compressed_angles: device.alloc(rows * dims)?,
            groups: ratios.into_iter().map(group).collect::<Result<_>>()?,
            carry_store: device.alloc(rows)?,
            carry_first: device.alloc(rows)?,
            engram: engram.collect::<Result<_>>()?,
        })
    }

    pub fn group(&self, ratio: usize) -> &GroupInputs<D> {
        self.groups.iter().find(|g| g.ratio == ratio).expect("one group input for each ratio of a source")
    }

    /// Uploads everything but the Engram rows.
    pub fn upload(&self, device: &mut D, rows: &[Row], layout: &Layout, ropes: &Ropes) -> Result<()> {
        let column = |f: &dyn Fn(&Row) -> u32| rows.iter().map(f).collect::<Vec<u32>>();
        let w = &self.window;
        device.write(&w.tokens, 0, &column(&|r| r.token))?;
        device.write(&w.store, 0, &column(&|r| layout.window_row(r.slot, r.position)))?;
        device.write(&w.base, 0, &column(&|r| (r.slot * layout.ring) as u32))?;
        device.write(&w.lo, 0, &column(&|r| (r.position + 1).saturating_sub(layout.window) as u32))?;
        device.write(&w.hi, 0, &column(&|r| r.position as u32 + 1))?;
        device.write(&w.angles, 0, &ropes.plain.rows(rows.iter().map(|r| r.position)))?;
        if self.groups.is_empty() {
            return Ok(());
        }
        device.write(&self.compressed_angles, 0, &ropes.compressed.rows(rows.iter().map(|r| r.position)))?;
        for g in &self.groups {
            let ratio = g.ratio;
            let groups = layout.groups(ratio);
            let closes = |r: &Row| (r.position + 1).is_multiple_of(ratio);
            let store = |r: &Row| {
                if closes(r) { (r.slot * groups + r.position / ratio) as u32 } else { NONE }
            };
            device.write(&g.store, 0, &column(&store))?;
            device.write(&g.base, 0, &column(&|r| (r.slot * groups) as u32))?;
            device.write(&g.count, 0, &column(&|r| ((r.position + 1) / ratio) as u32))?;
            let first = rows.iter().map(|r| r.position / ratio * ratio);
            device.write(&g.angles, 0, &ropes.compressed.rows(first))?;
        }
        let carry = |r: &Row| layout.carry_row(r.slot, r.position);
        let opens = |r: &Row| r.position.is_multiple_of(2);
        device.write(&self.carry_store, 0, &column(&|r| if opens(r) { carry(r) } else { NONE }))?;
        device.write(&self.carry_first, 0, &column(&|r| if opens(r) { NONE } else { carry(r) }))
    }
}

/// Both rotary tables.
pub(super) struct Ropes {
    pub plain: Rope,
    pub compressed: Rope,
}

impl Ropes {
    pub fn new(config: &Config) -> Self {
        Self { plain: Rope::plain(config), compressed: Rope::compressed(config) }
    }
}
