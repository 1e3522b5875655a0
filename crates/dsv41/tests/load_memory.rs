//! Peak memory of a load. The only test of its process, so that nothing else is in the numbers.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use tokenfare_cpu::{Cpu, CpuOptions, PathChoice};
use tokenfare_dsv41::checkpoint::Checkpoint;
use tokenfare_dsv41::info::describe;
use tokenfare_dsv41::load::{Drafts, LoadOptions, load};
use tokenfare_dsv41::progress::Silent;

/// What two threads may hold beside the weights and a tenth of them: each a tensor's bytes, and their stacks and heaps.
const SLACK: u64 = 16 << 20;

/// A field of /proc/self/status in bytes.
fn status(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    1024 * line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().unwrap()
}

#[test]
fn a_load_takes_little_more_than_its_weights() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/mini");
    let checkpoint = Checkpoint::open(&folder).unwrap();
    let weights = describe(&checkpoint).model.resident_bytes;
    let mut device = Cpu::new(CpuOptions { path: PathChoice::Auto, threads: 2, max_rows: 1 }).unwrap();
    let before = status("VmRSS");
    let options = LoadOptions { drafter: Drafts::Load, threads: 2, progress: &Silent };
    let loaded = load(&checkpoint, &mut device, &options).unwrap();
    let peak = status("VmHWM") - before;
    drop(loaded);
    // A second copy of the weights would not fit below the bar, and a load that kept nothing would not reach the weights.
    let bar = weights + weights / 10 + SLACK;
    assert!(2 * weights > bar && peak > weights / 10 * 9 && peak <= bar, "{peak} of {bar} for {weights}");
}
