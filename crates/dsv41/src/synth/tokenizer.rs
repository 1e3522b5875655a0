//! A byte-level tokenizer in the family's form: control tokens, the 256 bytes, frequent letter pairs.

use serde_json::{Map, Value, json};

use crate::tokenizer::Control;

/// Token ids.
pub(super) const VOCAB: usize = 512;

/// Control tokens at the end of the vocabulary, in the release's order.
const TAIL: [Control; 14] = [
    Control::System,
    Control::User,
    Control::Assistant,
    Control::ThinkOpen,
    Control::ThinkClose,
    Control::Dsml,
    Control::LatestReminder,
    Control::Action,
    Control::Query,
    Control::Authority,
    Control::Domain,
    Control::Title,
    Control::ReadUrl,
    Control::Image,
];

/// Id of the token that opens a system message, the first of the tail.
pub(super) const SYSTEM: usize = VOCAB - TAIL.len();

const HEAD: [Control; 3] = [Control::Bos, Control::Eos, Control::Pad];

/// Letters by their frequency in English text, the space of byte-level vocabularies first.
const LETTERS: &str = "Ġetaoinshrdlcumwfgypbvk";

/// The pre-tokenizer's splits, as in the release.
const SPLITS: [&str; 3] = [
    r"\p{N}{1,3}",
    "[一-龥\u{3040}-ゟ゠-ヿ]+",
    concat!(
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+",
        "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
    ),
];

/// The text of `tokenizer.json`.
pub(super) fn tokenizer_json() -> String {
    let pairs = letter_pairs();
    let texts = HEAD.iter().map(|c| c.text().to_owned()).chain(byte_texts());
    let texts = texts.chain(pairs.iter().map(|[a, b]| format!("{a}{b}")));
    let vocab: Map<String, Value> = texts.enumerate().map(|(id, text)| (text, json!(id))).collect();
    let added = HEAD.iter().enumerate().chain((SYSTEM..).zip(&TAIL));
    let added: Vec<Value> = added.map(|(id, control)| added_token(id, *control)).collect();
    let mut steps: Vec<Value> = SPLITS
        .iter()
        .map(|regex| {
            json!({ "type": "Split", "pattern": { "Regex": regex }, "behavior": "Isolated", "invert": false })
        })
        .collect();
    steps.push(
        json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false }),
    );
    let root = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": { "type": "Sequence", "pretokenizers": steps },
        "post_processor": null,
        "decoder": { "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true },
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocab, "merges": pairs,
        },
    });
    format!("{root:#}\n")
}

/// The text of `tokenizer_config.json`.
pub(super) fn tokenizer_config_json() -> String {
    let root = json!({
        "bos_token": Control::Bos.text(), "eos_token": Control::Eos.text(), "pad_token": Control::Eos.text(),
        "add_bos_token": false, "add_eos_token": false, "clean_up_tokenization_spaces": false,
        "tokenizer_class": "PreTrainedTokenizerFast",
    });
    format!("{root:#}\n")
}

/// Of the control tokens only the first three are flagged special, as in the release.
fn added_token(id: usize, control: Control) -> Value {
    let special = HEAD.contains(&control);
    let normalized = !special && control != Control::Image;
    json!({
        "id": id, "content": control.text(), "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": normalized, "special": special,
    })
}

/// The characters that stand for the bytes in byte-level vocabularies: printable Latin-1 as it is, the rest
/// from U+0100 on.
fn byte_texts() -> impl Iterator<Item = String> {
    let mut shifted = 0x100..;
    (0..=255u8).filter_map(move |byte| {
        let printable = matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
        let code = if printable { Some(u32::from(byte)) } else { shifted.next() };
        code.and_then(char::from_u32).map(String::from)
    })
}

/// Pairs of frequent letters that fill the vocabulary, the most frequent first.
fn letter_pairs() -> Vec<[String; 2]> {
    let letters: Vec<String> = LETTERS.chars().map(String::from).collect();
    let ranks = (0..letters.len()).flat_map(|a| (1..letters.len()).map(move |b| (a, b)));
    let mut ranks: Vec<(usize, usize)> = ranks.collect();
    ranks.sort_by_key(|(a, b)| (a + b, *a));
    let room = SYSTEM - HEAD.len() - 256;
    ranks.into_iter().take(room).map(|(a, b)| [letters[a].clone(), letters[b].clone()]).collect()
}
