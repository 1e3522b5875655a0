//! The trained mini checkpoint: recorded completions, and the drafter round by round.

use serde::Deserialize;
use tokenfare_device::Device;
use tokenfare_dsv41::model::Model;
use tokenfare_lanes::Target;

use crate::support::*;
use crate::tiny::{ingest, propose};

const FOLDER: &str = "models/mini";
const VOCAB: usize = 8192;
/// A recorded token counts wherever it leads the next by this much: activations were quantized in the recording.
const MARGIN: f64 = 0.5;
/// Drafts of a pass.
const BLOCK: usize = 5;

#[derive(Deserialize)]
struct Completion {
    prompt_ids: Vec<u32>,
    greedy_ids: Vec<u32>,
    margins: Vec<f64>,
    robust: bool,
}

#[derive(Deserialize)]
struct Rounds {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    prompt_ids: Vec<u32>,
    ids: Vec<u32>,
    rounds: Vec<Round>,
}

#[derive(Deserialize)]
struct Round {
    pos: usize,
    token: u32,
    drafts: Vec<u32>,
    confidence: Vec<f32>,
    accepted: usize,
}

fn mini<D: Device>(device: impl Fn(usize) -> D) -> Model<D> {
    model_with(FOLDER, mini_options(), device, |_| ())
}

/// Feeds `tokens` in pieces, with the drafter's context if asked for; returns the greedy choice after each.
fn choices<D: Device>(model: &mut Model<D>, tokens: &[u32], context: bool) -> Vec<u32> {
    model.release(0);
    let mut found = Vec::with_capacity(tokens.len());
    for (i, piece) in tokens.chunks(mini_options().piece_rows).enumerate() {
        let start = i * mini_options().piece_rows;
        found.extend(feed(model, 0, start, piece).chunks(VOCAB).map(argmax));
        if context {
            ingest(model, 0, start, 0, piece.len());
        }
    }
    found
}

/// All 17 robust completions token for token; the others wherever the recorded margin tells.
pub fn completions<D: Device>(device: impl Fn(usize) -> D) {
    let path = repository(FOLDER).join("golden.json");
    let all: Vec<Completion> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut model = mini(device);
    assert_eq!((all.len(), all.iter().filter(|c| c.robust).count()), (23, 17));
    for (i, c) in all.iter().enumerate() {
        let tokens = [c.prompt_ids.as_slice(), &c.greedy_ids].concat();
        let found = choices(&mut model, &tokens[..tokens.len() - 1], false);
        let found = &found[c.prompt_ids.len() - 1..];
        let told = |at: usize| c.robust || c.margins[at] >= MARGIN;
        for (at, (found, expected)) in found.iter().zip(&c.greedy_ids).enumerate() {
            assert!(
                !told(at) || found == expected,
                "completion {i}, token {at}: {found}, expected {expected}"
            );
        }
    }
}

/// What the drafter did beside the recording.
struct Tally {
    rounds: usize,
    equal_drafts: usize,
    equal_accepts: usize,
    accepted: usize,
    /// Largest confidence difference of each round.
    apart: Vec<f32>,
}

fn tally<D: Device>(device: impl Fn(usize) -> D) -> Tally {
    let recorded: Rounds = serde_json::from_value(json("fixtures/golden/mini_rounds.json")).unwrap();
    let mut model = mini(device);
    let mut tally = Tally { rounds: 0, equal_drafts: 0, equal_accepts: 0, accepted: 0, apart: Vec::new() };
    for case in &recorded.cases {
        let tokens = [case.prompt_ids.as_slice(), &case.ids].concat();
        model.release(0);
        let mut fed = 0;
        for round in &case.rounds {
            while fed < round.pos {
                let end = round.pos.min(fed + mini_options().piece_rows);
                feed(&mut model, 0, fed, &tokens[fed..end]);
                ingest(&mut model, 0, fed, 0, end - fed);
                fed = end;
            }
            let found = propose(&mut model, 0, round.pos, round.token);
            let inside = BLOCK.min(tokens.len() - round.pos - 1);
            let truth = &tokens[round.pos + 1..round.pos + 1 + inside];
            let kept = |drafts: &[u32]| drafts.iter().zip(truth).take_while(|(d, t)| d == t).count();
            let accepted = kept(&found.tokens);
            tally.rounds += 1;
            tally.equal_drafts += usize::from(found.tokens[..inside] == round.drafts[..inside]);
            tally.equal_accepts += usize::from(accepted == round.accepted.min(inside));
            tally.accepted += accepted;
            tally
                .apart
                .push(distance(&found.confidence[..inside.max(1)], &round.confidence[..inside.max(1)]));
        }
    }
    tally.apart.sort_by(f32::total_cmp);
    tally
}

/// The drafter against the recorded rounds of an f32 pass with trained caches.
pub fn drafter<D: Device>(device: impl Fn(usize) -> D) {
    let t = tally(device);
    let share = |part: usize| part as f64 / t.rounds as f64;
    let (median, upper) = (t.apart[t.rounds / 2], t.apart[t.rounds * 3 / 4]);
    println!(
        "{} rounds: drafts equal in {:.4}, accepted counts in {:.4}; confidence apart: median {median}, 75 % under {upper}",
        t.rounds,
        share(t.equal_drafts),
        share(t.equal_accepts)
    );
    assert!(share(t.equal_drafts) >= 0.98, "drafts equal in {}", share(t.equal_drafts));
    assert!(share(t.equal_accepts) >= 0.99, "accepted counts equal in {}", share(t.equal_accepts));
    assert!(median < 1e-3 && upper < 0.01, "confidence apart: median {median}, 75 % under {upper}");
}

/// The mean number of drafts kept a round, which no rounding of a device may move far.
pub fn acceptance<D: Device>(device: impl Fn(usize) -> D) {
    let t = tally(device);
    let mean = t.accepted as f64 / t.rounds as f64;
    println!("{} rounds, {mean:.3} drafts kept a round", t.rounds);
    assert!((mean - 1.983).abs() <= 0.05, "{mean} drafts kept a round, recorded 1.983");
}
