//! Common misreadings of the model, each of which the golden values must expose.
//!
//! `fixtures/mutants.txt` lists them, with how far each moves logits, draft logits and confidences of p200, relative
//! to their norm, in an independent implementation. A misreading is made from outside, by a device that misreads an
//! operation or by an edited configuration, so the model under test is the one that is served.

mod device;
mod misreading;
mod steps;

use tokenfare_device::Reference;
use tokenfare_dsv41::config::Config;
use tokenfare_dsv41::model::{CacheMode, Model};
use tokenfare_dsv41::observer::DraftPass;
use tokenfare_dsv41::tokenizer::{Tokenizer, token_map};

use self::device::Mutated;
use self::misreading::Misreading;
use crate::support::*;
use crate::tiny::{CLOSE, draft_after, propose};

/// The token that the listed movements were measured after.
const TOKEN: u32 = 100;

/// A line of the list.
struct Listed {
    name: String,
    /// Of logits, draft logits and confidences.
    moves: [f64; 3],
}

fn listed() -> Vec<Listed> {
    let text = std::fs::read_to_string(repository("fixtures/mutants.txt")).unwrap();
    let parse = |line: &str| {
        let mut rest = line;
        let mut moves = [0.0; 3];
        for (i, label) in [" confidence ", " draft logits ", " logits "].into_iter().enumerate() {
            let (before, number) = rest.rsplit_once(label).unwrap_or_else(|| panic!("{line}"));
            moves[2 - i] = number.trim().parse().unwrap();
            rest = before;
        }
        Listed { name: rest.trim().to_owned(), moves }
    };
    text.lines().map(parse).collect()
}

/// What a model makes of p200.
struct Outcome {
    logits: Vec<f32>,
    /// After the golden token.
    golden: DraftPass,
    /// After [`TOKEN`].
    other: DraftPass,
}

impl Outcome {
    fn of(misreading: Misreading) -> Self {
        let edit = |config: &mut Config| misreading.edit(config);
        let device = |max_rows| Mutated::new(max_rows, misreading);
        let mut model: Model<Mutated> =
            model_with("fixtures/tiny", tiny_options(CacheMode::Exact), device, edit);
        let (logits, golden) = draft_after(&mut model, "p200");
        let recorder = Recorder::attach(&mut model);
        propose(&mut model, 0, 200, TOKEN);
        let other = recorder.0.lock().unwrap().drafts.remove(0);
        Self { logits, golden, other }
    }

    /// Largest distance from the golden logits, draft logits and confidences.
    fn off_goldens(&self, goldens: &Goldens) -> f32 {
        let distances = [
            distance(&self.logits, &goldens.floats("logits.p200")),
            distance(&self.golden.logits, &goldens.floats("dspark.logits.p200")),
            distance(&self.golden.confidence, &goldens.floats("dspark.confidence.p200")),
        ];
        distances.into_iter().fold(0.0, f32::max)
    }

    /// Movements from another outcome, relative to the norms of that.
    fn moves(&self, base: &Self) -> [f64; 3] {
        [
            relative(&self.logits, &base.logits),
            relative(&self.other.logits, &base.other.logits),
            relative(&self.other.confidence, &base.other.confidence),
        ]
    }
}

fn relative(found: &[f32], base: &[f32]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let apart = norm(&mut found.iter().zip(base).map(|(f, b)| f64::from(*f) - f64::from(*b)));
    apart / norm(&mut base.iter().map(|b| f64::from(*b)))
}

/// Whether a movement is the listed one, which has two digits.
fn as_listed(found: f64, listed: f64) -> bool {
    if listed == 0.0 { found == 0.0 } else { (found - listed).abs() <= 0.06 * listed }
}

fn digits(moves: &[f64; 3]) -> String {
    moves.map(|m| format!("{m:.1e}")).join(" ")
}

/// Each listed misreading leaves the golden values by more than their tolerance, and moves the model as far as it
/// moves the independent implementation. Two cannot be seen: Engram norms taken over all streams at once differ by
/// 3.5e-5 only, and the padding token's own id is its compressed id.
#[test]
fn misreadings_leave_the_goldens() {
    let goldens = Goldens::open("golden_fp32.safetensors");
    let list = listed();
    assert_eq!(list.len(), 23);
    let base = Outcome::of(Misreading::None);
    let mut failures = Vec::new();
    let mut seen = 0;
    for Listed { name, moves } in &list {
        let misreading = Misreading::named(name).unwrap_or_else(|| panic!("unknown misreading: {name}"));
        let outcome = Outcome::of(misreading);
        let apart = outcome.off_goldens(&goldens);
        let found = outcome.moves(&base);
        println!("{name:45} {apart:.1e} from the goldens, moves {}", digits(&found));
        let hidden = misreading.is_visible() && apart <= CLOSE;
        let strayed = misreading == Misreading::None && apart > CLOSE;
        if hidden || strayed {
            failures.push(format!("{name}: {apart} from the goldens"));
        }
        if !found.iter().zip(moves).all(|(found, listed)| as_listed(*found, *listed)) {
            failures.push(format!("{name}: moves {}, listed {}", digits(&found), digits(moves)));
        }
        seen += usize::from(misreading.is_visible());
    }
    assert!(failures.is_empty(), "{failures:#?}");
    assert_eq!(seen, 20);
}

/// The device that misreads nothing is the reference device, bit for bit.
#[test]
fn misreading_nothing_changes_no_bit() {
    let mut model = tiny(CacheMode::Exact, Reference::new);
    let (logits, pass) = draft_after(&mut model, "p200");
    let outcome = Outcome::of(Misreading::None);
    assert!(outcome.logits.iter().map(|v| v.to_bits()).eq(logits.iter().map(|v| v.to_bits())));
    assert_eq!(outcome.golden, pass);
}

/// Why the raw padding id is no misreading here.
#[test]
fn the_padding_token_is_its_own_compressed_id() {
    let tokenizer = Tokenizer::open(&repository("fixtures/tiny"), 512).unwrap();
    assert_eq!(token_map(&tokenizer).unwrap().map[2], 2);
}
