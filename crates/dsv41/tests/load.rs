//! From files to weights on the reference device.
#![allow(clippy::unwrap_used, reason = "test helpers")]

mod edit;

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rstest::rstest;
use tokenfare_device::format::{decode_bf16, decode_e4m3, decode_e8m0};
use tokenfare_device::{Buffer, Device, Reference, View};
use tokenfare_dsv41::checkpoint::{Checkpoint, CheckpointError, FileBytes};
use tokenfare_dsv41::load::{Drafts, LoadError, LoadOptions, load};
use tokenfare_dsv41::progress::Silent;
use tokenfare_dsv41::weights::Weights;

fn tiny() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny")
}

fn options(drafter: Drafts, threads: usize) -> LoadOptions<'static> {
    LoadOptions { drafter, threads, progress: &Silent }
}

fn load_tiny(drafter: Drafts, threads: usize) -> (Checkpoint, Reference, Weights<Reference>) {
    let checkpoint = Checkpoint::open(&tiny()).unwrap();
    let mut device = Reference::new(256);
    let weights = load(&checkpoint, &mut device, &options(drafter, threads)).unwrap();
    (checkpoint, device, weights)
}

fn bytes(checkpoint: &Checkpoint, name: &str) -> Vec<u8> {
    let mut bytes = FileBytes::default();
    checkpoint.read(name, &mut bytes).unwrap();
    bytes.to_vec()
}

fn host(device: &mut Reference, buffer: &<Reference as Device>::Buf<f32>) -> Vec<f32> {
    let mut values = vec![0.0; buffer.len()];
    device.read(buffer, 0, &mut values).unwrap();
    values
}

/// `W^T` as `[inputs, rows]`, read through the product with unit rows.
fn columns(
    device: &mut Reference,
    w: &<Reference as Device>::Linear,
    inputs: usize,
    rows: usize,
) -> Vec<f32> {
    let x = device.alloc(inputs * inputs).unwrap();
    let unit: Vec<f32> = (0..inputs * inputs).map(|i| f32::from(i / inputs == i % inputs)).collect();
    device.write(&x, 0, &unit).unwrap();
    let y = device.alloc(inputs * rows).unwrap();
    device.linear(inputs, View::dense(&x, inputs), w, View::dense(&y, rows)).unwrap();
    host(device, &y)
}

#[rstest]
#[case(1)]
#[case(3)]
fn every_part_of_the_model_arrives(#[case] threads: usize) {
    let (_, _, weights) = load_tiny(Drafts::Load, threads);
    let layers = |has: &dyn Fn(usize) -> bool| (0..10).filter(|l| has(*l)).collect::<Vec<_>>();
    let w = &weights.layers;
    assert_eq!(w.len(), 10);
    assert_eq!(layers(&|l| w[l].compressor.is_some()), [2, 4, 6]);
    assert_eq!(layers(&|l| w[l].compressor.as_ref().is_some_and(|c| c.wgate.is_some())), [2, 4]);
    assert_eq!(layers(&|l| w[l].indexer.is_some()), [2, 4, 6, 8]);
    assert_eq!(layers(&|l| w[l].indexer.as_ref().is_some_and(|i| i.key.is_some())), [2, 4, 6]);
    assert_eq!(layers(&|l| w[l].engram.is_some()), [1, 4]);
    let drafter = weights.drafter.unwrap();
    assert_eq!(drafter.blocks.len(), 3);
    assert!(drafter.blocks.iter().all(|b| b.compressor.is_none() && b.engram.is_none()));
    assert_eq!(drafter.blocks[2].ffn.bias.len(), 4);
}

#[test]
fn the_drafter_stays_on_disk_when_it_is_not_asked_for() {
    let (_, _, weights) = load_tiny(Drafts::Skip, 2);
    assert!(weights.drafter.is_none());
}

#[test]
fn buffers_hold_the_stored_values() {
    let (checkpoint, mut device, weights) = load_tiny(Drafts::Load, 2);
    let bf16 = |name: &str| -> Vec<f32> {
        bytes(&checkpoint, name).as_chunks().0.iter().map(|b| decode_bf16(*b)).collect()
    };
    let f32s = |name: &str| -> Vec<f32> {
        bytes(&checkpoint, name).as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    };
    let layer = &weights.layers[4];
    assert_eq!(host(&mut device, &layer.attn_norm), bf16("layers.4.attn_norm.weight"));
    assert_eq!(host(&mut device, &layer.sink), f32s("layers.4.attn.attn_sink"));
    assert_eq!(host(&mut device, &layer.ffn.bias), f32s("layers.4.ffn.gate.bias"));
    assert_eq!(host(&mut device, &layer.hc_ffn.scale), f32s("layers.4.hc_ffn_scale"));
    let (q, k) = (bf16("layers.4.engram.q_weight"), bf16("layers.4.engram.k_weight"));
    let product: Vec<f32> = q.iter().zip(&k).map(|(q, k)| q * k).collect();
    let engram = layer.engram.as_ref().unwrap();
    assert_eq!(host(&mut device, &engram.qk), product);
}

#[test]
fn an_fp8_weight_arrives_with_its_own_scales() {
    let (checkpoint, mut device, weights) = load_tiny(Drafts::Load, 2);
    let (rows, cols) = (64, 128);
    let codes = bytes(&checkpoint, "layers.3.attn.wq_a.weight");
    let scales = bytes(&checkpoint, "layers.3.attn.wq_a.scale");
    let found = columns(&mut device, &weights.layers[3].wq_a, cols, rows);
    for row in 0..rows {
        for col in 0..cols {
            let scale = decode_e8m0(scales[row / 32 * (cols / 32) + col / 32]);
            assert_eq!(found[col * rows + row], decode_e4m3(codes[row * cols + col]) * scale, "{row} {col}");
        }
    }
}

#[test]
fn the_grouped_output_projection_is_block_diagonal() {
    let (checkpoint, mut device, weights) = load_tiny(Drafts::Load, 2);
    let codes = bytes(&checkpoint, "layers.3.attn.wo_a.weight");
    let scales = bytes(&checkpoint, "layers.3.attn.wo_a.scale");
    let found = columns(&mut device, &weights.layers[3].wo_a, 256, 64);
    for row in 0..64 {
        for input in 0..256 {
            let col = input % 128;
            let scale = decode_e8m0(scales[row / 32 * 4 + col / 32]);
            let own = decode_e4m3(codes[row * 128 + col]) * scale;
            let expected = if input / 128 == row / 32 { own } else { 0.0 };
            assert_eq!(found[input * 64 + row], expected, "{row} {input}");
        }
    }
}

#[test]
fn engram_rows_are_dequantized_on_demand() {
    let checkpoint = Checkpoint::open(&tiny()).unwrap();
    let table = checkpoint.engram_table(4).unwrap();
    assert_eq!((table.rows(), table.width()), (1552, 32));
    let codes = bytes(&checkpoint, "layers.4.engram.embed.weight");
    let scales = bytes(&checkpoint, "layers.4.engram.embed.scale");
    let mut row = [0.0; 32];
    for index in [0, 1, 777, 1551] {
        table.row(index as u64, &mut row).unwrap();
        let scale = decode_e8m0(scales[index]);
        let expected: Vec<f32> = codes[index * 32..][..32].iter().map(|c| decode_e4m3(*c) * scale).collect();
        assert_eq!(row[..], expected);
        assert!(row.iter().all(|v| v.to_bits() & 0xffff == 0), "exact in bf16");
    }
}

#[test]
fn progress_ends_at_the_total_and_counts_every_byte_once() {
    let checkpoint = Checkpoint::open(&tiny()).unwrap();
    let calls = Mutex::new(Vec::new());
    let progress = |done, total| calls.lock().unwrap().push((done, total));
    let options = LoadOptions { drafter: Drafts::Load, threads: 2, progress: &progress };
    load(&checkpoint, &mut Reference::new(1), &options).unwrap();
    let unread = |name: &str| {
        name.contains("engram.embed")
            || name.ends_with("bias_vl")
            || ["vision", "aligner", "image"].iter().any(|p| name.starts_with(p))
    };
    let total = checkpoint.tensors().filter(|(name, _)| !unread(name)).map(|(_, t)| t.bytes).sum::<u64>();
    let calls = calls.into_inner().unwrap();
    assert!(calls.iter().all(|(_, t)| *t == total));
    assert_eq!(calls.iter().map(|(done, _)| *done).max(), Some(total));
}

#[rstest]
fn a_panic_of_a_thread_that_packs_ends_the_load(#[values(1, 2, 5)] threads: usize) {
    let checkpoint = Checkpoint::open(&tiny()).unwrap();
    let progress = |_, _| panic!("told to");
    let options = LoadOptions { drafter: Drafts::Load, threads, progress: &progress };
    let loaded = || load(&checkpoint, &mut Reference::new(1), &options).is_ok();
    // Readers that nobody empties the line for would wait for ever.
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(loaded)).is_err());
}

#[rstest]
#[case("layers.2.attn.wq_b.scale", 3, &[255], vec![1, 1], "0xff")]
#[case("layers.0.ffn.experts.5.w2.scale", 5, &[255], vec![2, 1], "0xff")]
#[case("layers.2.attn.wo_b.weight", 70, &[0x7f], vec![1, 6], "0x7f")]
#[case("layers.9.attn_norm.weight", 6, &[0x80, 0x7f], vec![3], "0x7f80")]
#[case("layers.9.hc_ffn_fn", 8, &[0, 0, 0xc0, 0xff], vec![0, 2], "0xffc00000")]
fn values_that_are_not_finite_are_refused_with_their_place(
    #[case] tensor: &str,
    #[case] at: u64,
    #[case] value: &[u8],
    #[case] place: Vec<u64>,
    #[case] bits: &str,
) {
    let folder = edit::Folder::tiny();
    let file = folder.overwrite(tensor, at, value);
    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    let error = load(&checkpoint, &mut Reference::new(1), &options(Drafts::Load, 2)).err().unwrap();
    let LoadError::Checkpoint(CheckpointError::Value { position, found, .. }) = &error else {
        panic!("{error}");
    };
    assert_eq!((position, found.as_str()), (&place, bits));
    let text = error.to_string();
    assert!(text.contains(&file) && text.contains(tensor), "{text}");
}

#[test]
fn a_damaged_engram_row_is_an_error_when_it_is_used() {
    let folder = edit::Folder::tiny();
    folder.overwrite("layers.1.engram.embed.scale", 40, &[255]);
    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    load(&checkpoint, &mut Reference::new(1), &options(Drafts::Load, 1)).unwrap();
    let table = checkpoint.engram_table(1).unwrap();
    let mut row = [0.0; 32];
    table.row(39, &mut row).unwrap();
    let error = table.row(40, &mut row).unwrap_err();
    assert!(matches!(&error, CheckpointError::Value { position, .. } if *position == [40, 0]), "{error}");
    assert!(error.to_string().contains("E8M0 scale 255"), "{error}");
}
