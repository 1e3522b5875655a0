//! The tokenizer and the token map against the Python `tokenizers` package.
//!
//! `data/mini_tokens.json` was written by `tokenizers` 0.23 (the build with Oniguruma) from `models/mini`:
//! `ids` = `encode(text, add_special_tokens=False)`, `plain` = the same after `added_tokens` was emptied, `shown`
//! and `hidden` = `decode(ids, skip_special_tokens=False / True)`.

#![allow(clippy::unwrap_used)]

mod release;

use std::path::{Path, PathBuf};

use rstest::rstest;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokenfare_dsv41::tokenizer::{Control, Special, TextError, Tokenizer, TokenizerError, token_map};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn mini() -> Tokenizer {
    Tokenizer::open(&root().join("models/mini"), 8192).unwrap()
}

fn tiny() -> Tokenizer {
    Tokenizer::open(&root().join("fixtures/tiny"), 512).unwrap()
}

#[derive(Deserialize)]
struct Row {
    text: String,
    ids: Vec<u32>,
    plain: Vec<u32>,
    shown: String,
    hidden: String,
}

fn rows() -> Vec<Row> {
    serde_json::from_str(include_str!("data/mini_tokens.json")).unwrap()
}

#[test]
fn ids_and_text_equal_the_python_package() {
    let mini = mini();
    let rows = rows();
    assert_eq!(rows.len(), 52);
    for row in rows {
        assert_eq!(mini.encode(&row.text).unwrap(), row.ids, "{:?}", row.text);
        assert_eq!(mini.encode_plain(&row.text).unwrap(), row.plain, "{:?}", row.text);
        assert_eq!(mini.decode(&row.ids, Special::Show).unwrap(), row.shown);
        assert_eq!(mini.decode(&row.ids, Special::Hide).unwrap(), row.hidden);
        assert_eq!(mini.decode(&row.plain, Special::Show).unwrap(), row.text);
    }
}

#[test]
fn empty_text_has_no_ids() {
    let mini = mini();
    assert_eq!(mini.encode("").unwrap(), Vec::<u32>::new());
    assert_eq!(mini.encode_plain("").unwrap(), Vec::<u32>::new());
    assert_eq!(mini.decode(&[], Special::Show).unwrap(), "");
}

#[test]
fn white_space_beyond_the_splitter_s_reach_is_refused() {
    let text = format!("a{}b", " ".repeat(900_001));
    assert_eq!(mini().encode(&text), Err(TextError::WhiteSpace { limit: 900_000, at: 1 }));
    let text = format!("a{}b", " ".repeat(900_000));
    let ids = mini().encode_plain(&text).unwrap();
    assert_eq!(mini().decode(&ids, Special::Show).unwrap(), text);
}

#[test]
fn bytes_that_are_not_utf8_are_refused() {
    let mini = mini();
    assert_eq!(mini.encode_bytes(b"ab\xffc"), Err(TextError::Utf8 { valid: 2 }));
    assert_eq!(mini.encode_bytes(b"ab").unwrap(), mini.encode("ab").unwrap());
}

#[test]
fn typed_control_tokens_are_control_in_completions_and_text_in_chat() {
    let mini = mini();
    assert_eq!(mini.encode("<｜User｜>").unwrap(), [8184]);
    let plain = mini.encode_plain("<｜User｜>").unwrap();
    assert!(!plain.contains(&8184));
    assert_eq!(mini.decode(&plain, Special::Show).unwrap(), "<｜User｜>");
}

#[test]
fn every_byte_of_plain_text_survives() {
    let mini = mini();
    for kind in Control::ALL {
        let ids = mini.encode_plain(kind.text()).unwrap();
        let bytes: Vec<u8> = ids.iter().flat_map(|&id| mini.bytes(id).unwrap()).copied().collect();
        assert_eq!(bytes, kind.text().as_bytes());
        assert!(ids.iter().all(|&id| Some(id) != mini.control(kind)));
    }
}

#[test]
fn control_tokens_have_the_ids_of_the_vocabulary() {
    let mini = mini();
    let ids: Vec<Option<u32>> = Control::ALL.iter().map(|&kind| mini.control(kind)).collect();
    let expected =
        [0, 1, 2, 8176, 8184, 8185, 8177, 8186, 8187, 8188, 8189, 8178, 8179, 8180, 8181, 8182, 8183];
    assert_eq!(ids, expected.map(Some));
    assert!(mini.is_special(1) && !mini.is_special(8187) && !mini.is_special(9999));

    let tiny = tiny();
    assert_eq!(tiny.control(Control::Eos), Some(1));
    assert_eq!(tiny.require(Control::User), Ok(501));
    assert_eq!(tiny.control(Control::Domain), None);
    assert_eq!(tiny.require(Control::Domain), Err(TextError::Control { token: "<｜domain｜>" }));
}

#[test]
fn an_unknown_id_has_no_text() {
    assert_eq!(mini().decode(&[0, 8192], Special::Hide), Err(TextError::Id { id: 8192, vocab: 8192 }));
}

#[test]
fn the_token_map_of_tiny_is_the_golden_one() {
    let golden: serde_json::Value =
        serde_json::from_slice(&std::fs::read(root().join("fixtures/golden/golden.json")).unwrap()).unwrap();
    let expected: Vec<u32> = serde_json::from_value(golden["tiny_token_map"].clone()).unwrap();
    let map = token_map(&tiny()).unwrap();
    assert_eq!(map.map, expected);
    assert_eq!(map.size, 441);
}

fn digest(map: &[u32]) -> String {
    let bytes: Vec<u8> = map.iter().flat_map(|id| id.to_le_bytes()).collect();
    Sha256::digest(&bytes).iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn the_token_map_of_mini_equals_the_python_normalizers() {
    let map = token_map(&mini()).unwrap();
    assert_eq!(map.size, 5813);
    assert_eq!(digest(&map.map), "ead73b798c7c3170821c04bd3ab207527f5e5f36824d100c918af93059ebd19f");
}

#[test]
fn the_release_tokenizer_gives_the_published_ids_and_token_map() {
    let Some(real) = release::tokenizer() else { return };
    let golden: serde_json::Value =
        serde_json::from_slice(&std::fs::read(root().join("fixtures/golden/chat.json")).unwrap()).unwrap();
    for case in golden["tokenizer"].as_array().unwrap() {
        let ids: Vec<u32> = serde_json::from_value(case["ids"].clone()).unwrap();
        assert_eq!(real.encode(case["text"].as_str().unwrap()).unwrap(), ids, "{}", case["text"]);
    }
    let map = token_map(&real).unwrap();
    assert_eq!(map.size, 99_092);
    assert_eq!(digest(&map.map), "c60a86322ec17b4142bfef3c57a8d81fb428550cdf487f88a4320cb59fe46481");
}

/// A folder with tiny's files, changed by `edit`.
fn edited(edit: impl FnOnce(&mut serde_json::Value, &mut serde_json::Value)) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let read =
        |name| serde_json::from_slice(&std::fs::read(root().join("fixtures/tiny").join(name)).unwrap());
    let (mut tokenizer, mut config) =
        (read("tokenizer.json").unwrap(), read("tokenizer_config.json").unwrap());
    edit(&mut tokenizer, &mut config);
    std::fs::write(dir.path().join("tokenizer.json"), tokenizer.to_string()).unwrap();
    std::fs::write(dir.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    dir
}

#[rstest]
#[case::no_decoder(
    "/decoder",
    "null",
    "tokenizer.json: expected a ByteLevel decoder, found another one or none"
)]
#[case::no_model("/model", "{}", "tokenizer.json: expected a tokenizer of the `tokenizers` library, found")]
#[case::other_id("/added_tokens/75/id", "600", "at id 600, found it belongs at 511")]
fn a_wrong_tokenizer_is_refused(#[case] pointer: &str, #[case] value: &str, #[case] message: &str) {
    let dir = edited(|tokenizer, _| {
        *tokenizer.pointer_mut(pointer).unwrap() = serde_json::from_str(value).unwrap();
    });
    let error = Tokenizer::open(dir.path(), 512).unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
}

#[test]
fn a_tokenizer_of_another_vocabulary_is_refused() {
    let error = Tokenizer::open(&root().join("fixtures/tiny"), 8192).unwrap_err();
    assert!(matches!(error, TokenizerError::Vocabulary { expected: 8192, found: 512, .. }), "{error}");
    assert!(error.to_string().ends_with("512 tokens, expected the 8192 of config.json (vocab_size)"));
}

#[test]
fn a_missing_id_is_named() {
    let dir = edited(|tokenizer, _| {
        let vocab = tokenizer["model"]["vocab"].as_object_mut().unwrap();
        let last = vocab.values_mut().find(|id| **id == 438).unwrap();
        *last = 700.into();
    });
    let error = Tokenizer::open(dir.path(), 512).unwrap_err();
    assert!(matches!(error, TokenizerError::Gap { id: 438, expected: 512, .. }), "{error}");
}

#[test]
fn a_tokenizer_without_an_end_token_is_refused() {
    let dir = edited(|tokenizer, _| {
        tokenizer["added_tokens"].as_array_mut().unwrap().remove(1);
    });
    let error = Tokenizer::open(dir.path(), 512).unwrap_err();
    assert!(matches!(error, TokenizerError::Control { token: "<｜end▁of▁sentence｜>", .. }), "{error}");
}

#[test]
fn a_config_with_another_begin_token_is_refused() {
    let dir = edited(|_, config| config["bos_token"] = "<s>".into());
    let error = Tokenizer::open(dir.path(), 512).unwrap_err().to_string();
    assert!(error.ends_with("expected bos_token <｜begin▁of▁sentence｜>, found \"<s>\""), "{error}");
}

#[test]
fn missing_and_malformed_files_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = Tokenizer::open(dir.path(), 512).unwrap_err();
    assert!(
        matches!(&error, TokenizerError::Read { file, .. } if file.ends_with("tokenizer.json")),
        "{error}"
    );
    std::fs::copy(root().join("fixtures/tiny/tokenizer.json"), dir.path().join("tokenizer.json")).unwrap();
    let error = Tokenizer::open(dir.path(), 512).unwrap_err();
    assert!(
        matches!(&error, TokenizerError::Read { file, .. } if file.ends_with("tokenizer_config.json")),
        "{error}"
    );
    std::fs::write(dir.path().join("tokenizer_config.json"), "{").unwrap();
    let error = Tokenizer::open(dir.path(), 512).unwrap_err().to_string();
    assert!(error.contains("tokenizer_config.json: expected a JSON object, found EOF"), "{error}");
}
