//! The DeepSeek-V4.1 family, written once over the device trait.

pub mod calibration;
pub mod chat;
pub mod checkpoint;
pub mod config;
pub mod engram;
pub mod info;
pub mod load;
pub mod model;
pub mod observer;
pub mod progress;
pub mod reply;
pub mod synth;
pub mod tokenizer;
pub mod weights;
