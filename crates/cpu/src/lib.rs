//! The CPU device.
//!
//! Operations are collected in a list that the whole pool walks together, one barrier after each stage. Weights are
//! packed once into one layout that every instruction set reads.

mod affinity;
mod args;
mod buffer;
mod device;
pub mod linear;
mod math;
mod memory;
mod moe;
mod numa;
mod ops;
mod path;
mod pool;
#[cfg(test)]
mod random;
mod scratch;
mod simd;
mod step;
mod trial;

pub use buffer::Buf;
pub use device::{Cpu, CpuError, CpuOptions, Linear, Program};
pub use memory::HugeBytes;
pub use ops::rows::Table;
pub use path::{Path, PathChoice, PathError, PathNameError};
pub use scratch::Scratch;
