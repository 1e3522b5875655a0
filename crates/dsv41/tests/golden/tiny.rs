//! Golden values of the tiny checkpoint: exact mathematics in f32, and the same with trained caches.

use tokenfare_device::{Device, NONE};
use tokenfare_dsv41::model::{CacheMode, Model};
use tokenfare_dsv41::observer::DraftPass;
use tokenfare_lanes::{Ask, Drafter, Ingest, Proposal, Sampling, Target};

use crate::support::*;

/// Sums in another order move logits by about 6e-6.
pub const CLOSE: f32 = 1e-3;
const PROMPTS: [&str; 4] = ["p1", "p7", "p40", "p200"];
const VOCAB: usize = 512;

/// Makes rows `row..row + count` of the last launch drafter context.
pub fn ingest<D: Device>(model: &mut Model<D>, slot: usize, start: usize, row: usize, count: usize) {
    model.ingest(&[Ingest { slot, start, row, count }]).unwrap();
}

/// Asks for greedy drafts after `token` at `position`.
pub fn propose<D: Device>(model: &mut Model<D>, slot: usize, position: usize, token: u32) -> Proposal {
    let sampling = Sampling::greedy();
    model.propose(&[Ask { slot, position, token, sampling: &sampling }]).unwrap().remove(0)
}

/// Logits of all golden prompts.
pub fn logits<D: Device>(device: impl Fn(usize) -> D) {
    let goldens = Goldens::open("golden_fp32.safetensors");
    let mut model = tiny(CacheMode::Exact, device);
    for name in PROMPTS {
        let found = feed(&mut model, 0, 0, &prompt(name));
        near(name, &found, &goldens.floats(&format!("logits.{name}")), CLOSE);
    }
}

/// Logits with the cache round trips. One value that rounds the other way moves every later row of p200.
pub fn logits_with_trained_caches<D: Device>(device: impl Fn(usize) -> D) {
    let goldens = Goldens::open("golden_fp32kv.safetensors");
    let mut model = tiny(CacheMode::Trained, device);
    for name in PROMPTS {
        let expected = goldens.floats(&format!("logits.{name}"));
        let found = feed(&mut model, 0, 0, &prompt(name));
        let most = if name == "p200" { 0.3 } else { CLOSE };
        near(name, &found[found.len() - expected.len()..], &expected, most);
    }
}

/// Selections, candidate blocks and experts of p200, Engram rows of p40.
pub fn choices<D: Device>(device: impl Fn(usize) -> D) {
    let goldens = Goldens::open("golden_fp32.safetensors");
    let mut model = tiny(CacheMode::Exact, device);
    let recorder = Recorder::attach(&mut model);
    let tokens = prompt("p200");
    feed(&mut model, 0, 0, &tokens);
    let seen = std::mem::take(&mut *recorder.0.lock().unwrap());

    assert_eq!(seen.selections.keys().copied().collect::<Vec<_>>(), [2, 4, 6, 8]);
    for (layer, list) in &seen.selections {
        let expected = goldens.integers(&format!("sel.{layer}.p200"));
        let found: Vec<i64> = list.iter().map(|&j| if j == NONE { -1 } else { j.into() }).collect();
        assert_eq!(found, expected, "selection of layer {layer}");
    }
    let (words, mask) = &seen.candidates[&6];
    let blocks: Vec<i64> =
        mask.chunks(*words).flat_map(|row| (0..50).map(|b| i64::from(row[b / 32] >> (b % 32) & 1))).collect();
    assert_eq!(blocks, goldens.integers("cand_blocks.p200"));
    assert_eq!(seen.experts.len(), 10);
    for (layer, experts) in &seen.experts {
        let found: Vec<i64> = experts.iter().map(|e| i64::from(*e)).collect();
        assert_eq!(found, goldens.integers(&format!("experts.{layer}.p200")), "experts of layer {layer}");
    }

    feed(&mut model, 1, 0, &prompt("p40"));
    let seen = std::mem::take(&mut *recorder.0.lock().unwrap());
    let found: Vec<i64> = (0..40)
        .flat_map(|p| [1, 4].map(|layer| seen.engram[&layer][6 * p..6 * p + 6].to_vec()).concat())
        .map(|row| row as i64)
        .collect();
    assert_eq!(found, goldens.integers("engram_rows.p40"));
}

/// Streams and collapse weights after each layer of p40, and the taps.
pub fn intermediates<D: Device>(device: impl Fn(usize) -> D) {
    let goldens = Goldens::open("golden_fp32.safetensors");
    let mut model = tiny(CacheMode::Exact, device);
    let recorder = Recorder::attach(&mut model);
    feed(&mut model, 0, 0, &prompt("p40"));
    let seen = recorder.0.lock().unwrap();
    assert_eq!(seen.streams.len(), 10);
    for layer in 0..10 {
        let (h, pre) = (format!("h.{layer}.p40"), format!("pre.{layer}.p40"));
        near(&h, &seen.streams[&layer], &goldens.floats(&h), CLOSE);
        near(&pre, &seen.pre[&layer], &goldens.floats(&pre), CLOSE);
    }
    near("taps", &seen.taps, &goldens.floats("taps.p40"), CLOSE);
}

/// Twelve single-row windows after p40.
pub fn decode<D: Device>(device: impl Fn(usize) -> D) {
    let goldens = Goldens::open("golden_fp32.safetensors");
    let mut model = tiny(CacheMode::Exact, device);
    let greedy: Vec<u32> = field(&json("fixtures/golden/golden.json"), "greedy.p40");
    let first = feed(&mut model, 0, 0, &prompt("p40"));
    assert_eq!(argmax(&first[39 * VOCAB..]), greedy[0]);
    let expected = goldens.floats("decode_logits.p40");
    for (i, token) in greedy[..12].iter().enumerate() {
        let found = verify(&mut model, 0, 40 + i, &[*token]);
        near(&format!("step {i}"), &found, &expected[i * VOCAB..][..VOCAB], CLOSE);
        assert_eq!(argmax(&found), greedy[i + 1]);
    }
}

/// A drafter pass right after each prompt.
pub fn drafts<D: Device>(device: impl Fn(usize) -> D) {
    let goldens = Goldens::open("golden_fp32.safetensors");
    let mut model = tiny(CacheMode::Exact, device);
    for name in PROMPTS {
        let (prompt_logits, pass) = draft_after(&mut model, name);
        let last = &prompt_logits[prompt_logits.len() - VOCAB..];
        let bonus = goldens.integers(&format!("dspark.token.{name}"));
        assert_eq!([i64::from(argmax(last))], *bonus, "bonus token of {name}");
        let golden = |part: &str| goldens.floats(&format!("dspark.{part}.{name}"));
        near(&format!("hidden {name}"), &pass.hidden, &golden("hidden"), CLOSE);
        near(&format!("base logits {name}"), &pass.base_logits, &golden("base_logits"), CLOSE);
        near(&format!("draft logits {name}"), &pass.logits, &golden("logits"), CLOSE);
        near(&format!("confidence {name}"), &pass.confidence, &golden("confidence"), CLOSE);
        let found: Vec<i64> = pass.drafts.iter().map(|d| i64::from(*d)).collect();
        assert_eq!(found, goldens.integers(&format!("dspark.drafts.{name}")), "{name}");
    }
}

/// Feeds a golden prompt, then drafts after the golden token. Returns the prompt's logits too.
pub fn draft_after<D: Device>(model: &mut Model<D>, name: &str) -> (Vec<f32>, DraftPass) {
    let goldens = Goldens::open("golden_fp32.safetensors");
    let token = goldens.integers(&format!("dspark.token.{name}"))[0] as u32;
    let tokens = prompt(name);
    model.release(0);
    let recorder = Recorder::attach(model);
    let logits = feed(model, 0, 0, &tokens);
    ingest(model, 0, 0, 0, tokens.len());
    propose(model, 0, tokens.len(), token);
    model.observe(None);
    let pass = recorder.0.lock().unwrap().drafts.remove(0);
    (logits, pass)
}

/// Greedy speculative rounds after p40, all drafts verified each round.
pub fn rounds<D: Device>(device: impl Fn(usize) -> D) {
    let golden = json("fixtures/golden/golden.json");
    let expected: Vec<serde_json::Value> = field(&golden, "spec_rounds.p40");
    let greedy: Vec<u32> = field(&golden, "greedy.p40");
    let mut model = tiny(CacheMode::Exact, device);
    let prompt = prompt("p40");
    let first = feed(&mut model, 0, 0, &prompt);
    ingest(&mut model, 0, 0, 0, prompt.len());
    let (mut position, mut token) = (40, argmax(&first[39 * VOCAB..]));
    let mut reply = Vec::new();
    for (i, round) in expected.iter().enumerate() {
        assert_eq!((position, token), (field(round, "pos"), field(round, "token")), "round {i}");
        let Proposal { tokens: drafts, confidence } = propose(&mut model, 0, position, token);
        assert_eq!(drafts, field::<Vec<u32>>(round, "drafts"), "round {i}");
        near("confidence", &confidence, &field::<Vec<f32>>(round, "confidence"), CLOSE);
        let window = [&[token], drafts.as_slice()].concat();
        let choices: Vec<u32> = verify(&mut model, 0, position, &window).chunks(VOCAB).map(argmax).collect();
        let accepted = drafts.iter().zip(&choices).take_while(|(d, c)| d == c).count();
        assert_eq!(accepted, field::<usize>(round, "accepted"), "round {i}");
        reply.extend_from_slice(&window[..=accepted]);
        model.keep(0, position + 1 + accepted);
        ingest(&mut model, 0, position, 0, 1 + accepted);
        position += 1 + accepted;
        token = choices[accepted];
    }
    assert_eq!(reply[..32], greedy[..]);
}
