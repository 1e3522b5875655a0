//! Synthetic checkpoints.

#![allow(clippy::unwrap_used, reason = "test helpers")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

use tokenfare_device::Reference;
use tokenfare_device::format::{decode_bf16, decode_e2m1, decode_e4m3, decode_e8m0};
use tokenfare_dsv41::checkpoint::{Checkpoint, FileBytes};
use tokenfare_dsv41::config::Config;
use tokenfare_dsv41::load::{Drafts, LoadOptions, load};
use tokenfare_dsv41::progress::Silent;
use tokenfare_dsv41::synth::{self, Preset, SynthError};
use tokenfare_dsv41::tokenizer::{Control, Tokenizer, token_map};

fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|e| e.unwrap());
    entries.map(|e| (e.file_name().into_string().unwrap(), fs::read(e.path()).unwrap())).collect()
}

fn bytes(checkpoint: &Checkpoint, name: &str) -> Vec<u8> {
    let mut bytes = FileBytes::default();
    checkpoint.read(name, &mut bytes).unwrap();
    bytes.to_vec()
}

fn deviation(values: &[f32]) -> f64 {
    let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / values.len() as f64;
    (values.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
}

#[test]
fn a_tiny_checkpoint_has_the_sizes_of_the_fixture_and_loads() {
    let dir = tempfile::tempdir().unwrap();
    let calls = Mutex::new(Vec::new());
    let progress = |done, total| calls.lock().unwrap().push((done, total));
    let checkpoint = synth::write(dir.path(), Preset::Tiny, 7, &progress).unwrap();
    let fixture = Config::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny")).unwrap();
    let mut expected = Config { vision: None, image_token: None, ..fixture };
    let (own, other) = (checkpoint.config().engram.as_ref().unwrap(), expected.engram.as_mut().unwrap());
    other.compressed_vocab = own.compressed_vocab;
    expected.drafter.as_mut().unwrap().noise = 498;
    assert_eq!(checkpoint.config(), &expected);
    let total: u64 = checkpoint.tensors().map(|(_, t)| t.bytes).sum();
    let calls = calls.into_inner().unwrap();
    assert_eq!(calls.last(), Some(&(total, total)));
    assert!(calls.is_sorted_by(|a, b| a.0 < b.0));

    let options = LoadOptions { drafter: Drafts::Load, threads: 2, progress: &Silent };
    let weights = load(&checkpoint, &mut Reference::new(1), &options).unwrap();
    assert_eq!((weights.layers.len(), weights.drafter.map(|d| d.blocks.len())), (10, Some(3)));
    // Embedding, 10 layers, 2 Engrams, head, 3 drafter blocks.
    assert_eq!(checkpoint.shards().len(), 17);
    assert!(contents(dir.path()).keys().all(|name| !name.contains("partial")));
}

#[test]
fn the_seed_decides_every_byte() {
    let write = |seed| {
        let dir = tempfile::tempdir().unwrap();
        synth::write(dir.path(), Preset::Tiny, seed, &Silent).unwrap();
        contents(dir.path())
    };
    let (first, again, other) = (write(1), write(1), write(2));
    assert_eq!(first, again);
    assert_eq!(first["config.json"], other["config.json"]);
    assert_ne!(first["model-00001-of-00017.safetensors"], other["model-00001-of-00017.safetensors"]);
}

#[test]
fn the_tokenizer_fits_the_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoint = synth::write(dir.path(), Preset::Tiny, 0, &Silent).unwrap();
    let config = checkpoint.config();
    let tokenizer = Tokenizer::open(dir.path(), config.vocab).unwrap();
    assert_eq!((tokenizer.vocab(), config.vocab), (512, 512));
    for control in Control::ALL {
        assert!(tokenizer.control(control).is_some(), "{control:?}");
    }
    let drafter = config.drafter.as_ref().unwrap();
    assert_eq!(tokenizer.control(Control::System), Some(drafter.noise));
    assert_eq!(tokenizer.control(Control::Bos), Some(config.bos));
    assert_eq!(tokenizer.control(Control::Eos), Some(config.eos));
    let map = token_map(&tokenizer).unwrap();
    assert_eq!(map.size as u64, config.engram.as_ref().unwrap().compressed_vocab);
    for text in ["Hello there, the 2nd world!\n", "naïve 世界 🦀\t\u{0}", "  fn main() {}"] {
        let ids = tokenizer.encode_plain(text).unwrap();
        let decoded: Vec<u8> = ids.iter().flat_map(|id| tokenizer.bytes(*id).unwrap()).copied().collect();
        assert_eq!(String::from_utf8(decoded).unwrap(), text);
    }
    assert_eq!(tokenizer.encode_plain("the").unwrap().len(), 2);
}

#[test]
fn values_have_the_spread_that_keeps_activations_alive() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoint = synth::write(dir.path(), Preset::Tiny, 3, &Silent).unwrap();
    let near =
        |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 0.1, "{found} {expected}");
    // Scales spread by one power of two either way: the mean square grows by (1/4 + 1 + 4) / 3.
    let spread = 1.75f64.sqrt();

    let pair = |name: String| {
        (bytes(&checkpoint, &format!("{name}.weight")), bytes(&checkpoint, &format!("{name}.scale")))
    };
    let mut dense = Vec::new();
    for layer in 0..10 {
        let (codes, scales) = pair(format!("layers.{layer}.attn.wq_b"));
        let scale = |i: usize| decode_e8m0(scales[i / 64 / 32 * 2 + i % 64 / 32]);
        dense.extend((0..codes.len()).map(|i| decode_e4m3(codes[i]) * scale(i)));
        assert!(scales.iter().any(|s| *s != scales[0]));
    }
    near(deviation(&dense), 1.5 / 8.0 * spread);

    let mut experts = Vec::new();
    for expert in 0..8 {
        let (codes, scales) = pair(format!("layers.3.ffn.experts.{expert}.w1"));
        experts.extend(
            (0..2 * codes.len())
                .map(|i| decode_e2m1(codes[i / 2] >> (4 * (i % 2))) * decode_e8m0(scales[i / 32])),
        );
    }
    near(deviation(&experts), 1.5 / 128f64.sqrt() * spread);

    let bf16 = |name: &str| {
        bytes(&checkpoint, name).as_chunks().0.iter().map(|b| decode_bf16(*b)).collect::<Vec<_>>()
    };
    near(deviation(&bf16("embed.weight")), 1.0);
    near(deviation(&bf16("head.weight")), 3.0 / 128f64.sqrt());
    near(deviation(&bf16("layers.0.ffn.gate.weight")), 2.0 / 128f64.sqrt());
    let norm = bf16("layers.0.attn_norm.weight");
    near(norm.iter().map(|v| f64::from(*v)).sum::<f64>() / 128.0, 1.0);
}

#[test]
fn a_folder_that_holds_something_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    let error = synth::write(dir.path(), Preset::Tiny, 0, &Silent).unwrap_err();
    assert!(matches!(&error, SynthError::NotEmpty { found, .. } if found == "notes.txt"), "{error}");
    assert!(error.to_string().ends_with("expected an empty folder, found notes.txt"), "{error}");
    assert_eq!(contents(dir.path()).len(), 1);
}

#[test]
fn a_path_that_cannot_be_a_folder_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let path = dir.path().join("file/model");
    let error = synth::write(&path, Preset::Tiny, 0, &Silent).unwrap_err();
    assert!(matches!(&error, SynthError::Io { path: p, .. } if *p == path), "{error}");
    assert!(error.to_string().contains("Not a directory"), "{error}");
}

/// Runs a test body in a child process whose files cannot grow beyond `bytes`.
#[cfg(target_os = "linux")]
mod limited {
    use super::*;

    /// Set for the child process: the folder to write to.
    const FOLDER: &str = "TOKENFARE_TEST_FOLDER";

    #[test]
    fn a_write_that_fails_is_named_and_leaves_nothing() {
        let Some(dir) = std::env::var_os(FOLDER) else {
            let dir = tempfile::tempdir().unwrap();
            let this = "limited::a_write_that_fails_is_named_and_leaves_nothing";
            // Blocks of 1024 bytes; the signal for a file that grows beyond the limit must be ignored to see the error.
            let script = "trap '' XFSZ; ulimit -f 100; exec \"$0\" --exact \"$1\"";
            let status = std::process::Command::new("bash")
                .args(["-c", script])
                .arg(std::env::current_exe().unwrap())
                .arg(this)
                .env(FOLDER, dir.path())
                .status()
                .unwrap();
            assert!(status.success());
            return;
        };
        let dir = Path::new(&dir);
        let error = synth::write(dir, Preset::Tiny, 0, &Silent).unwrap_err();
        let SynthError::Io { path, cause } = &error else { panic!("{error}") };
        assert_eq!(cause.kind(), std::io::ErrorKind::FileTooLarge);
        assert!(path.starts_with(dir) && path.extension().is_some_and(|e| e == "safetensors"), "{error}");
        assert_eq!(fs::read_dir(dir).unwrap().count(), 0);
    }
}
