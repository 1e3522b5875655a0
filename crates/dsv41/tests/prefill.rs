//! What is left to the device after a call: nothing of a prompt piece, whose time lanes share, and nothing of what is kept.
#![allow(clippy::unwrap_used, reason = "a failed test says enough")]

use std::path::Path;

use rstest::rstest;
use tokenfare_cpu::{Cpu, CpuOptions, PathChoice};
use tokenfare_device::Device;
use tokenfare_dsv41::checkpoint::Checkpoint;
use tokenfare_dsv41::load::{Drafts, LoadOptions, load};
use tokenfare_dsv41::model::{CacheMode, Model, ModelOptions};
use tokenfare_dsv41::progress::Silent;
use tokenfare_dsv41::tokenizer::{Tokenizer, token_map};
use tokenfare_lanes::{Logits, Segment, Target, Want};

const OPTIONS: ModelOptions =
    ModelOptions { slots: 1, context: 64, piece_rows: 32, window_rows: 8, caches: CacheMode::Trained };

fn model() -> Model<Cpu> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny");
    let checkpoint = Checkpoint::open(&folder).unwrap();
    let config = checkpoint.config();
    let map = token_map(&Tokenizer::open(&folder, config.vocab).unwrap()).unwrap().map;
    let max_rows = OPTIONS.launch_rows(config);
    let mut device = Cpu::new(CpuOptions { path: PathChoice::Auto, threads: 1, max_rows }).unwrap();
    let loading = LoadOptions { drafter: Drafts::Skip, threads: 1, progress: &Silent };
    let weights = load(&checkpoint, &mut device, &loading).unwrap();
    Model::new(device, weights, config, map, OPTIONS).unwrap()
}

#[rstest]
fn nothing_of_a_piece_is_left_to_the_next_read(#[values(Want::Nothing, Want::Last, Want::All)] want: Want) {
    let mut model = model();
    let mut logits = Logits::default();
    model.prefill(0, 0, &[3, 4, 5, 6, 7, 8, 9], want, &mut logits).unwrap();
    assert_eq!(model.device().pending(), 0);
    model.keep(0, 7);
    model.prefill(0, 7, &[10; 20], want, &mut logits).unwrap();
    assert_eq!(model.device().pending(), 0);
}

/// Rejected drafts are taken back, and accepted ones kept, by bookkeeping alone.
#[test]
fn keeping_any_part_of_a_window_gives_the_device_no_work() {
    for kept in 1..=5 {
        let mut model = model();
        let mut logits = Logits::default();
        model.prefill(0, 0, &[3, 4, 5], Want::Last, &mut logits).unwrap();
        model.keep(0, 3);
        let tokens = [6, 7, 8, 9, 10];
        model.window(&[Segment { slot: 0, start: 3, tokens: &tokens }], &mut logits).unwrap();
        model.keep(0, 3 + kept);
        assert_eq!(model.device().pending(), 0);
    }
}

#[test]
fn an_operation_waits_for_the_next_read() {
    let mut device = Cpu::new(CpuOptions { path: PathChoice::Auto, threads: 1, max_rows: 1 }).unwrap();
    let buf = device.alloc::<f32>(2).unwrap();
    device.write(&buf, 0, &[1.0, 2.0]).unwrap();
    let view = tokenfare_device::View::dense(&buf, 2);
    device.add(1, view, view).unwrap();
    assert_eq!(device.pending(), 1);
    let mut values = [0.0; 2];
    device.read(&buf, 0, &mut values).unwrap();
    assert_eq!((device.pending(), values), (0, [2.0, 4.0]));
}
