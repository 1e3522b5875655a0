//! The forward pass: a [`Model`] is the target and the drafter of its lanes, over any device.
//!
//! All state is addressed by position. A position's window row lives in a ring, its compressed row in a table, so
//! taking back a rejected draft is bookkeeping, and feeding a position again overwrites what stood there. What a
//! launch computes depends on its rows' slots, positions and tokens through index buffers alone, so a window of
//! `n` rows is recorded once and replayed.

mod block;
mod drafter;
mod forward;
mod inputs;
mod options;
mod plan;
mod propose;
mod rope;
mod saved;
mod scratch;
mod slots;
mod state;
mod target;
mod watch;

pub use options::{CacheMode, ModelError, ModelOptions};
pub use rope::Rope;

use std::time::Duration;

use tokenfare_device::Device;
use tokenfare_lanes::{TargetError, TargetInfo};

use self::drafter::Pass;
use self::forward::Net;
use self::inputs::{Ropes, Row};
use self::slots::Slot;
use crate::config::Config;
use crate::engram::EngramHash;
use crate::engram::primes::bucket_primes;
use crate::observer::Observer;
use crate::weights::Weights;

/// A loaded model with room for the streams of all lanes: implements [`tokenfare_lanes::Target`] and
/// [`tokenfare_lanes::Drafter`].
pub struct Model<D: Device> {
    device: D,
    net: Net<D>,
    drafter: Option<Pass<D>>,
    info: TargetInfo,
    ropes: Ropes,
    hash: Option<EngramHash>,
    slots: Vec<Slot>,
    /// Rows of the last launch, whose taps can become drafter context.
    last: Vec<Row>,
    /// Recorded windows: entry `n - 1` runs `n` rows.
    windows: Vec<Option<D::Program>>,
    observer: Option<Box<dyn Observer>>,
    /// Of the last window.
    read_back: Duration,
    /// The observer, while a calibration runs.
    paused: Option<Box<dyn Observer>>,
}

impl<D: Device> Model<D> {
    /// Sets up state and working memory. `token_map` holds the compressed id of each token id and is used by
    /// Engram layers alone. The device must take [`ModelOptions::launch_rows`] rows.
    ///
    /// # Errors
    /// Options out of range, weights or a token map that do not fit `config`, or a device without room.
    pub fn new(
        mut device: D,
        weights: Weights<D>,
        config: &Config,
        token_map: Vec<u32>,
        options: ModelOptions,
    ) -> Result<Self, ModelError> {
        options.check(config)?;
        let hash = match &config.engram {
            None => None,
            Some(_) if token_map.len() < config.vocab => {
                return Err(ModelError::TokenMap { found: token_map.len(), vocab: config.vocab });
            }
            Some(e) => {
                let primes = bucket_primes(e.layers.len(), e.ngram, e.heads, e.buckets);
                Some(EngramHash::new(e, primes, token_map)?)
            }
        };
        let net = Net::new(&mut device, weights, config, &options)?;
        let drafter = net.pass(&device)?;
        let info = TargetInfo {
            slots: options.slots,
            context: options.context,
            window_rows: options.window_rows,
            piece_rows: options.piece_rows,
            vocab: config.vocab,
            draft_block: drafter.as_ref().map_or(0, Pass::block),
            launch_bound: device.launch_bound(),
        };
        Ok(Self {
            device,
            net,
            drafter,
            info,
            ropes: Ropes::new(config),
            hash,
            slots: vec![Slot::default(); options.slots],
            last: Vec::new(),
            windows: (0..options.window_rows).map(|_| None).collect(),
            observer: None,
            read_back: Duration::ZERO,
            paused: None,
        })
    }

    /// The device it runs on.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Lets `observer` watch every launch from now on, or nobody.
    pub fn observe(&mut self, observer: Option<Box<dyn Observer>>) {
        self.observer = observer;
    }

    /// The slot, if there is one.
    fn slot(&self, slot: usize) -> Result<&Slot, TargetError> {
        self.slots.get(slot).ok_or_else(|| no_slot(slot, self.slots.len()))
    }
}

fn no_slot(slot: usize, slots: usize) -> TargetError {
    TargetError(format!("slot {slot}: expected below {slots}"))
}

/// Says what was being done when `cause` came up.
fn during<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> TargetError {
    move |cause| TargetError(format!("{what}: {cause}"))
}
