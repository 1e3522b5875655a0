//! The forward pass and the drafter against golden values, on the reference device.
#![allow(clippy::unwrap_used, reason = "a failed test says enough")]

mod bits;
mod cpu;
mod mini;
mod mutants;
mod reference;
mod support;
mod tiny;
