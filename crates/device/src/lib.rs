//! The device border: the operations of a DeepSeek-V4.1 forward pass, in the model's own language.
//!
//! A [`Device`] owns memory ([`Buffer`]s) and packed weights, and runs operations that are *enqueued* in order.
//! Nothing hands out a host slice of device memory: results come back by [`Device::read`] alone. What varies
//! from window to window (token ids, positions, cache rows) lives in buffers, so a whole window can be
//! recorded once ([`Device::record`]) and replayed.
//!
//! The one law every device keeps is **row independence**: the bits of row `r` of an operation depend on row
//! `r`'s inputs alone, never on the number of rows, their order, or the threads that share the work.
//!
//! [`Reference`] is the plain f32 implementation, and [`conformance`] the suite that each device must pass.

pub mod bench;
pub mod conformance;
mod error;
pub mod format;
mod ops;
pub mod reference;
mod refusable;
mod weights;

pub use error::{DeviceError, Result};
pub use format::{Cache, CacheFormat};
pub use ops::{Attention, CacheStore, Candidates, Device, IndexSelect, Moe, PairPool, Route, Selected, View};
pub use reference::Reference;
pub use refusable::{is_refusable, refusable};
pub use weights::{LinearData, Matrix};

/// The index that stands for "no row": such a row is skipped by stores and ignored by attention.
pub const NONE: u32 = u32::MAX;

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for u32 {}
    impl Sealed for u8 {}
}

/// What device memory can hold: `f32` activations, `u32` indices, `u8` packed cache rows.
pub trait Element:
    Copy + Default + Send + Sync + PartialEq + std::fmt::Debug + sealed::Sealed + 'static
{
}
impl Element for f32 {}
impl Element for u32 {}
impl Element for u8 {}

/// A handle to device memory. A clone names the same memory; the memory is freed with its last handle.
pub trait Buffer: Clone + Send + 'static {
    /// Number of elements.
    fn len(&self) -> usize;
    /// Whether the buffer has no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
