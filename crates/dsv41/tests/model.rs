//! What a model refuses, in which words, and that a refusal changes nothing.
#![allow(clippy::unwrap_used, reason = "a failed test says enough")]

use std::path::{Path, PathBuf};

use tokenfare_device::Reference;
use tokenfare_dsv41::checkpoint::Checkpoint;
use tokenfare_dsv41::config::Config;
use tokenfare_dsv41::load::{Drafts, LoadOptions, load};
use tokenfare_dsv41::model::{CacheMode, Model, ModelError, ModelOptions};
use tokenfare_dsv41::progress::Silent;
use tokenfare_dsv41::tokenizer::{Tokenizer, token_map};
use tokenfare_lanes::{Ask, Drafter, Ingest, Logits, Sampling, SavedState, Segment, Target, Want};

const OPTIONS: ModelOptions =
    ModelOptions { slots: 2, context: 64, piece_rows: 32, window_rows: 8, caches: CacheMode::Trained };

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny")
}

fn build(
    options: ModelOptions,
    drafts: Drafts,
    edit: impl Fn(&mut Config, &mut Vec<u32>),
) -> Result<Model<Reference>, ModelError> {
    let checkpoint = Checkpoint::open(&folder()).unwrap();
    let mut config = checkpoint.config().clone();
    let mut map = token_map(&Tokenizer::open(&folder(), config.vocab).unwrap()).unwrap().map;
    edit(&mut config, &mut map);
    let mut device = Reference::new(options.launch_rows(&config));
    let loading = LoadOptions { drafter: drafts, threads: 1, progress: &Silent };
    let weights = load(&checkpoint, &mut device, &loading).unwrap();
    Model::new(device, weights, &config, map, options)
}

fn model() -> Model<Reference> {
    build(OPTIONS, Drafts::Load, |_, _| ()).unwrap()
}

fn prefill(model: &mut Model<Reference>, start: usize, tokens: &[u32]) -> Result<Logits, String> {
    let mut logits = Logits::default();
    model.prefill(0, start, tokens, Want::Last, &mut logits).map_err(|e| e.0)?;
    Ok(logits)
}

/// Slot, first position and tokens.
type Fed<'a> = (usize, usize, &'a [u32]);

fn window(model: &mut Model<Reference>, segments: &[Fed<'_>]) -> Result<Logits, String> {
    let segments: Vec<Segment<'_>> =
        segments.iter().map(|&(slot, start, tokens)| Segment { slot, start, tokens }).collect();
    let mut logits = Logits::default();
    model.window(&segments, &mut logits).map_err(|e| e.0)?;
    Ok(logits)
}

fn propose(model: &mut Model<Reference>, position: usize, token: u32) -> Result<Vec<u32>, String> {
    let sampling = Sampling::greedy();
    let mut found =
        model.propose(&[Ask { slot: 0, position, token, sampling: &sampling }]).map_err(|e| e.0)?;
    Ok(found.remove(0).tokens)
}

#[test]
fn options_out_of_range_are_named() {
    let refused = |options| build(options, Drafts::Skip, |_, _| ()).err().unwrap().to_string();
    assert_eq!(refused(ModelOptions { slots: 0, ..OPTIONS }), "slots: 0, expected at least 1");
    assert_eq!(refused(ModelOptions { window_rows: 0, ..OPTIONS }), "window rows: 0, expected at least 1");
    assert_eq!(
        refused(ModelOptions { context: 4097, ..OPTIONS }),
        "context: 4097, expected at most max_position_embeddings, 4096"
    );
    assert_eq!(
        refused(ModelOptions { slots: 1 << 26, ..OPTIONS }),
        "slots * context: 4294967296, expected slots * context below 4294967295"
    );
}

#[test]
fn weights_and_maps_that_do_not_fit_the_configuration_are_named() {
    type Edit = fn(&mut Config, &mut Vec<u32>);
    let cases: [(Edit, &str); 6] = [
        (|c, _| c.layers = 9, "weights: 10 layers, expected 9"),
        (|c, _| c.drafter.as_mut().unwrap().blocks = 2, "weights: 3 drafter blocks, expected 2"),
        (|_, map| map.truncate(300), "token map: 300 tokens, expected at least the vocabulary of 512"),
        (
            |c, _| c.engram.as_mut().unwrap().layers[1] = 5,
            "layer 4: Engram weights and engram_layer_ids disagree",
        ),
        (|c, _| c.kv_sources[1] = 5, "layer 5: kv source without compressor weights"),
        (|c, _| c.index_sources[3] = 9, "layer 9: index source without indexer weights"),
    ];
    for (edit, words) in cases {
        assert_eq!(build(OPTIONS, Drafts::Load, edit).err().unwrap().to_string(), words);
    }
}

#[test]
fn launches_outside_the_limits_are_refused_and_change_nothing() {
    let mut model = model();
    prefill(&mut model, 0, &[3, 4, 5]).unwrap();
    let before = model.state_hash(0).unwrap();
    let cases: [(&[Fed<'_>], &str); 8] = [
        (&[], "a launch of 0 rows, expected 1 to 8"),
        (&[(0, 3, &[7; 9])], "a launch of 9 rows, expected 1 to 8"),
        (&[(0, 3, &[7]), (2, 0, &[7])], "slot 2: expected below 2"),
        (&[(0, 3, &[7]), (0, 4, &[7])], "slot 0 twice in one window"),
        (
            &[(0, 3, &[7]), (1, 0, &[])],
            "slot 1: positions 0..0, expected at least one inside the context of 64",
        ),
        (&[(0, 3, &[7, 512])], "token 512, expected below the vocabulary of 512"),
        (&[(0, 3, &[7]), (1, 1, &[7])], "slot 1: position 1 is fed, expected at most 0"),
        (&[(0, 60, &[7; 5])], "slot 0: positions 60..65, expected at least one inside the context of 64"),
    ];
    for (segments, words) in cases {
        assert_eq!(window(&mut model, segments).unwrap_err(), words);
        assert_eq!(model.state_hash(0).unwrap(), before, "{words}");
    }
    assert_eq!(prefill(&mut model, 3, &[7; 33]).unwrap_err(), "a launch of 33 rows, expected 1 to 32");
}

#[test]
fn a_rewind_beyond_the_ring_is_refused() {
    let mut model = model();
    prefill(&mut model, 0, &[3; 32]).unwrap();
    prefill(&mut model, 32, &[4; 32]).unwrap();
    // The ring holds the 16 window positions and 32 more.
    assert_eq!(
        window(&mut model, &[(0, 30, &[5])]).unwrap_err(),
        "slot 0: position 30 needs rows from 15 on, kept from 16 on"
    );
    window(&mut model, &[(0, 31, &[5])]).unwrap();
    window(&mut model, &[(0, 0, &[5])]).unwrap();
}

#[test]
fn drafts_need_the_context_of_every_position_before() {
    let mut model = model();
    prefill(&mut model, 0, &[3, 4, 5]).unwrap();
    assert_eq!(
        propose(&mut model, 3, 6).unwrap_err(),
        "drafts of slot 0 at position 3: its context ends at 0"
    );
    let wrong = Ingest { slot: 0, start: 1, row: 0, count: 3 };
    assert_eq!(
        model.ingest(&[wrong]).unwrap_err().0,
        "context of slot 0 at position 1: rows 0 + 3 of the last launch hold other positions"
    );
    let beyond = Ingest { slot: 0, start: 0, row: 0, count: 4 };
    assert_eq!(
        model.ingest(&[beyond]).unwrap_err().0,
        "context of slot 0 at position 0: rows 0 + 4 of the last launch hold other positions"
    );
    model.ingest(&[Ingest { slot: 0, start: 0, row: 0, count: 3 }]).unwrap();
    assert_eq!(propose(&mut model, 3, 512).unwrap_err(), "token 512, expected below the vocabulary of 512");
    assert_eq!(propose(&mut model, 3, 6).unwrap().len(), 5);
    model.reset(0);
    assert_eq!(
        propose(&mut model, 3, 6).unwrap_err(),
        "drafts of slot 0 at position 3: its context ends at 0"
    );
}

#[test]
fn without_a_drafter_there_are_no_drafts() {
    let mut model = build(OPTIONS, Drafts::Skip, |_, _| ()).unwrap();
    assert_eq!(model.info().draft_block, 0);
    prefill(&mut model, 0, &[3, 4, 5]).unwrap();
    model.ingest(&[Ingest { slot: 0, start: 0, row: 0, count: 3 }]).unwrap();
    assert!(propose(&mut model, 3, 6).unwrap().is_empty());
}

#[test]
fn damaged_states_are_refused() {
    let mut model = model();
    prefill(&mut model, 0, &[3, 4, 5]).unwrap();
    let words = |e: tokenfare_lanes::TargetError| e.0;
    assert_eq!(
        words(model.save(0, 4).unwrap_err()),
        "saving 4 positions of slot 0: it holds 3, window rows from 0 on"
    );
    let good = model.save(0, 3).unwrap();
    let mut refused = |change: fn(&mut SavedState)| {
        let mut state = good.clone();
        change(&mut state);
        words(model.restore(1, &state).unwrap_err())
    };
    let rows = good.bytes.len() - 16 - 3 * 4;
    assert_eq!(
        refused(|s| s.bytes.truncate(20)),
        "restoring 3 positions to slot 1: 20 bytes, expected at least 28"
    );
    assert_eq!(
        refused(|s| s.bytes.push(0)),
        format!("restoring 3 positions to slot 1: {} bytes of rows, expected {rows}", rows + 1)
    );
    assert_eq!(
        refused(|s| s.bytes[17] = 2),
        "restoring 3 positions to slot 1: token 515, expected below 512"
    );
    assert_eq!(
        refused(|s| s.len = 65),
        "restoring 65 positions to slot 1: drafter context 3..3 in a context of 64"
    );
    assert_eq!(words(model.restore(2, &good).unwrap_err()), "slot 2: expected below 2");
    model.restore(1, &good).unwrap();
    assert_eq!(model.state_hash(1).unwrap(), model.state_hash(0).unwrap());
}

#[test]
fn caches_grow_by_the_bytes_of_the_released_sizes() {
    let checkpoint = Checkpoint::open(&folder()).unwrap();
    let mut released = checkpoint.config().clone();
    released.ratios = [vec![0; 2], vec![2; 18], vec![1; 20]].concat();
    released.kv_sources = vec![2, 8, 14, 20];
    (released.head_dim, released.index_dim) = (512, 128);
    assert_eq!(CacheMode::Trained.growth_per_token(&released), 890.0);
    assert_eq!(CacheMode::Exact.growth_per_token(&released), 2.5 * 4.0 * 640.0);
}
