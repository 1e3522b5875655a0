//! Damaged checkpoint folders, each one small edit away from the fixture.
#![allow(clippy::unwrap_used, reason = "test helpers")]

mod edit;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use edit::{ENGRAM_SHARD, Folder, INDEX, SHARD};
use rstest::rstest;
use serde_json::{Value, json};
use tokenfare_dsv41::checkpoint::{Checkpoint, CheckpointError, EngramTable, HeaderError};

fn refusal(folder: &Folder) -> CheckpointError {
    Checkpoint::open(folder.path()).expect_err("the folder is damaged")
}

#[track_caller]
fn says(error: &CheckpointError, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{word:?} in {text:?}");
    }
}

/// The header's error, whose file must be the first shard.
#[track_caller]
fn header_error(error: &CheckpointError) -> &HeaderError {
    match error {
        CheckpointError::Header { path, cause } if path.ends_with(SHARD) => cause,
        other => panic!("{other}"),
    }
}

fn rename(object: &mut Value, from: &str, to: &str) {
    let object = object.as_object_mut().unwrap();
    let value = object.remove(from).unwrap();
    object.insert(to.to_owned(), value);
}

#[test]
fn a_checkpoint_is_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Checkpoint>();
    shared::<EngramTable>();
}

#[test]
fn a_folder_without_configuration_or_weights() {
    let folder = Folder::tiny();
    fs::remove_file(folder.file(INDEX)).unwrap();
    let error = refusal(&folder);
    assert!(matches!(error, CheckpointError::NoWeights { .. }), "{error}");
    says(&error, &["expected model.safetensors.index.json or model.safetensors, found neither"]);
    fs::remove_file(folder.file("config.json")).unwrap();
    let error = refusal(&folder);
    assert!(matches!(error, CheckpointError::Io { .. }), "{error}");
    says(&error, &["config.json", "No such file"]);
}

#[test]
fn a_configuration_error_names_the_file() {
    let folder = Folder::tiny();
    folder.json("config.json", |c| c["text_config"]["head_dim"] = json!(0));
    let error = refusal(&folder);
    assert!(matches!(error, CheckpointError::Config { .. }), "{error}");
    says(&error, &["config.json", "text_config.head_dim", "expected a whole number from 1", "found 0"]);
}

#[rstest]
#[case("not json", "expected ident")]
#[case("{}", "missing field `weight_map`")]
#[case(r#"{"weight_map": {"a": 3}}"#, "invalid type: integer `3`")]
#[case(r#"{"weight_map": {"a": "x", "a": "y"}}"#, "duplicate name a")]
fn an_index_that_is_not_one(#[case] text: &str, #[case] words: &str) {
    let folder = Folder::tiny();
    fs::write(folder.file(INDEX), text).unwrap();
    let error = refusal(&folder);
    assert!(matches!(error, CheckpointError::Index { .. }), "{error}");
    says(&error, &[INDEX, words]);
}

#[rstest]
#[case("/etc/passwd")]
#[case("../other/model-00001-of-00002.safetensors")]
#[case("shards/../../model.safetensors")]
#[case("./model-00001-of-00002.safetensors/..")]
#[case("..\\model.safetensors")]
#[case("")]
fn an_index_that_names_a_file_outside(#[case] file: &str) {
    let folder = Folder::tiny();
    folder.json(INDEX, |i| i["weight_map"]["embed.weight"] = json!(file));
    let error = refusal(&folder);
    assert!(matches!(&error, CheckpointError::Outside { file: f, .. } if f == file), "{error}");
    says(&error, &[INDEX, "tensor embed.weight", "expected a file inside the folder"]);
}

#[test]
fn a_link_that_leads_outside() {
    let (folder, other) = (Folder::tiny(), Folder::tiny());
    fs::remove_file(folder.file(SHARD)).unwrap();
    symlink(other.file(SHARD), folder.file(SHARD)).unwrap();
    let error = refusal(&folder);
    assert!(matches!(error, CheckpointError::Outside { .. }), "{error}");
    says(&error, &[SHARD, "->", other.path().to_str().unwrap()]);

    fs::remove_file(folder.file(INDEX)).unwrap();
    symlink(other.file(SHARD), folder.file("model.safetensors")).unwrap();
    let error = refusal(&folder);
    assert!(matches!(error, CheckpointError::Outside { .. }), "{error}");
}

#[test]
fn links_inside_the_folder_and_into_a_hub_cache_are_followed() {
    let folder = Folder::tiny();
    fs::create_dir(folder.file("parts")).unwrap();
    fs::rename(folder.file(SHARD), folder.file("parts/one")).unwrap();
    symlink("parts/one", folder.file(SHARD)).unwrap();
    Checkpoint::open(folder.path()).unwrap();

    let cache = tempfile::tempdir().unwrap();
    let snapshot = cache.path().join("models--org--name/snapshots/0123abcd");
    let blobs = cache.path().join("models--org--name/blobs");
    fs::create_dir_all(&snapshot).unwrap();
    fs::create_dir_all(&blobs).unwrap();
    edit::copy_tiny(&blobs);
    for entry in fs::read_dir(&blobs).unwrap() {
        let name = entry.unwrap().file_name();
        symlink(Path::new("../../blobs").join(&name), snapshot.join(&name)).unwrap();
    }
    Checkpoint::open(&snapshot).unwrap();
    // The same links from a folder that is no snapshot lead outside.
    let elsewhere = cache.path().join("models--org--name/copies/0123abcd");
    fs::create_dir_all(elsewhere.parent().unwrap()).unwrap();
    fs::rename(&snapshot, &elsewhere).unwrap();
    let error = Checkpoint::open(&elsewhere).unwrap_err();
    assert!(matches!(error, CheckpointError::Outside { .. }), "{error}");
}

#[test]
fn a_missing_shard() {
    let folder = Folder::tiny();
    fs::remove_file(folder.file(ENGRAM_SHARD)).unwrap();
    let error = refusal(&folder);
    assert!(matches!(error, CheckpointError::Shard { .. }), "{error}");
    says(&error, &[ENGRAM_SHARD, "shard of tensor layers.", "expected a readable file", "No such file"]);
}

#[test]
fn a_shard_that_is_a_folder() {
    let folder = Folder::tiny();
    fs::remove_file(folder.file(SHARD)).unwrap();
    fs::create_dir(folder.file(SHARD)).unwrap();
    let error = refusal(&folder);
    assert!(matches!(error, CheckpointError::File { .. }), "{error}");
    says(&error, &[SHARD, "expected a regular file"]);
}

#[rstest]
#[case(0)]
#[case(7)]
#[case(1000)]
fn a_shard_cut_inside_its_header(#[case] length: u64) {
    let folder = Folder::tiny();
    fs::File::options().write(true).open(folder.file(SHARD)).unwrap().set_len(length).unwrap();
    let error = refusal(&folder);
    let cause = header_error(&error);
    assert!(matches!(cause, HeaderError::Short { file, .. } if *file == length), "{error}");
    says(&error, &[&format!("found a file of {length} bytes")]);
}

#[test]
fn a_shard_cut_inside_its_data() {
    let folder = Folder::tiny();
    let shard = fs::File::options().write(true).open(folder.file(SHARD)).unwrap();
    let length = shard.metadata().unwrap().len();
    shard.set_len(length - 1).unwrap();
    let error = refusal(&folder);
    assert!(matches!(header_error(&error), HeaderError::Range { .. }), "{error}");
    says(&error, &["tensor ", "expected within the data of"]);
}

#[test]
fn a_shard_with_bytes_behind_its_data() {
    let folder = Folder::tiny();
    let shard = fs::File::options().write(true).open(folder.file(SHARD)).unwrap();
    let length = shard.metadata().unwrap().len();
    shard.set_len(length + 3).unwrap();
    let error = refusal(&folder);
    let HeaderError::Trailing { expected, found } = header_error(&error) else { panic!("{error}") };
    assert_eq!(*found, *expected + 3);
}

#[test]
fn a_header_with_an_absurd_length() {
    let folder = Folder::tiny();
    let mut bytes = fs::read(folder.file(SHARD)).unwrap();
    bytes[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    fs::write(folder.file(SHARD), &bytes).unwrap();
    let error = refusal(&folder);
    assert_eq!(header_error(&error), &HeaderError::Long(u64::MAX));
    bytes[..8].copy_from_slice(&90_000_000u64.to_le_bytes());
    fs::write(folder.file(SHARD), &bytes).unwrap();
    let error = refusal(&folder);
    assert!(matches!(header_error(&error), HeaderError::Short { header: 90_000_008, .. }), "{error}");
}

#[rstest]
#[case(b"{]", "key must be a string")]
#[case(b"[1]", "expected an object")]
#[case(b"\xff\xff", "expected value")]
#[case(
    br#"{"a":{"dtype":"Q4","shape":[1],"data_offsets":[0,1]}}"#,
    "tensor a: expected dtype, shape, data_offsets"
)]
#[case(
    br#"{"a":{"dtype":"I8","shape":[-1],"data_offsets":[0,1]}}"#,
    "tensor a: expected dtype, shape, data_offsets"
)]
#[case(br#"{"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}}"#, "duplicate name a")]
fn a_header_that_is_not_the_formats_json(#[case] header: &[u8], #[case] words: &str) {
    let folder = Folder::tiny();
    folder.raw_header(SHARD, header);
    let error = refusal(&folder);
    assert!(matches!(header_error(&error), HeaderError::Json(_)), "{error}");
    says(&error, &[words]);
}

#[test]
fn byte_ranges_that_do_not_fit() {
    let set = |change: fn(&mut Value)| {
        let folder = Folder::tiny();
        folder.header(SHARD, |h| change(&mut h["embed.weight"]));
        refusal(&folder)
    };
    let error = set(|t| t["data_offsets"] = json!([2000, 1000]));
    assert!(matches!(header_error(&error), HeaderError::Range { start: 2000, end: 1000, .. }), "{error}");
    let error = set(|t| t["data_offsets"] = json!([0, u64::MAX]));
    assert!(matches!(header_error(&error), HeaderError::Range { end: u64::MAX, .. }), "{error}");
    let error = set(|t| t["shape"] = json!([1u64 << 40, 1u64 << 40]));
    assert!(matches!(header_error(&error), HeaderError::Size { .. }), "{error}");
    says(&error, &["tensor embed.weight", "expected more than 2^61 bytes", "found a range of 131072"]);
    let error = set(|t| t["shape"] = json!([512, 64]));
    assert!(matches!(header_error(&error), HeaderError::Size { found: 131_072, .. }), "{error}");
    says(&error, &["expected 65536 bytes for BF16 [512, 64]"]);
}

#[test]
fn tensors_that_overlap_or_leave_a_hole() {
    let moved = |bytes: i64| {
        let folder = Folder::tiny();
        folder.header(SHARD, |h| {
            let range = h["norm.weight"]["data_offsets"].as_array_mut().unwrap();
            for end in range {
                *end = json!(end.as_i64().unwrap() + bytes);
            }
        });
        refusal(&folder)
    };
    let error = moved(-2);
    assert!(matches!(header_error(&error), HeaderError::Overlap { .. }), "{error}");
    says(&error, &["norm.weight", "overlap", "expected from byte"]);
    let error = moved(2);
    let cause = header_error(&error);
    assert!(matches!(cause, HeaderError::Overlap { .. } | HeaderError::Hole { .. }), "{error}");
    says(&error, &["norm.weight"]);
}

#[test]
fn a_tensor_of_another_type_or_shape() {
    let folder = Folder::tiny();
    folder.header(SHARD, |h| h["norm.weight"]["dtype"] = json!("F16"));
    let error = refusal(&folder);
    assert!(matches!(error, CheckpointError::Tensor { .. }), "{error}");
    says(&error, &[SHARD, "tensor norm.weight: expected BF16 [128], found F16 [128]"]);

    let folder = Folder::tiny();
    folder.header(SHARD, |h| h["layers.3.attn.wq_a.weight"]["shape"] = json!([128, 64]));
    let error = refusal(&folder);
    assert!(matches!(error, CheckpointError::Tensor { .. }), "{error}");
    says(&error, &["tensor layers.3.attn.wq_a.weight: expected F8_E4M3 [64, 128], found F8_E4M3 [128, 64]"]);

    let folder = Folder::tiny();
    folder.json("config.json", |c| c["text_config"]["q_lora_rank"] = json!(96));
    says(
        &refusal(&folder),
        &["tensor layers.0.attn.wq_a.weight: expected F8_E4M3 [96, 128], found F8_E4M3 [64, 128]"],
    );
}

#[test]
fn a_missing_tensor() {
    const NAME: &str = "layers.5.ffn.experts.7.w2.scale";
    let folder = Folder::tiny();
    folder.header(SHARD, |h| rename(h, NAME, "spare"));
    let error = refusal(&folder);
    assert!(matches!(error, CheckpointError::Missing { .. }), "{error}");
    says(
        &error,
        &[SHARD, NAME, "expected in model-00001-of-00002.safetensors as the index says, found none"],
    );

    folder.json(INDEX, |i| rename(&mut i["weight_map"], NAME, "spare"));
    let error = refusal(&folder);
    assert!(matches!(error, CheckpointError::Missing { .. }), "{error}");
    says(&error, &[INDEX, NAME, "expected F8_E8M0 [128, 2], found none"]);
}

#[rstest]
#[case("num_hidden_layers", json!(1024), "tensor layers.10.attn.wq_a.weight")]
#[case("n_routed_experts", json!(1 << 24), "tensor layers.0.ffn.gate.weight: expected BF16 [16777216, 128]")]
#[case("vocab_size", json!(1 << 24), "tensor embed.weight: expected BF16 [16777216, 128]")]
#[case("num_nextn_predict_layers", json!(64), "tensor mtp.3.attn.wq_a.weight")]
fn sizes_that_no_shard_backs(#[case] field: &str, #[case] size: Value, #[case] words: &str) {
    let folder = Folder::tiny();
    folder.json("config.json", |c| {
        let text = &mut c["text_config"];
        text[field] = size;
        let layers = text["num_hidden_layers"].as_u64().unwrap() as usize;
        let mut ratios = vec![0, 0, 2, 2, 2, 2, 1, 1, 1, 1];
        ratios.resize(layers, 1);
        text["compress_ratios"] = json!(ratios);
    });
    says(&refusal(&folder), &[words]);
}

#[test]
fn a_tensor_in_another_shard_than_the_index_says() {
    let folder = Folder::tiny();
    folder.json(INDEX, |i| i["weight_map"]["norm.weight"] = json!(ENGRAM_SHARD));
    let error = refusal(&folder);
    assert!(matches!(error, CheckpointError::Elsewhere { .. }), "{error}");
    says(&error, &["tensor norm.weight", &format!("expected in {ENGRAM_SHARD}, found in {SHARD}")]);
}

#[test]
fn a_tensor_that_comes_twice() {
    let folder = Folder::tiny();
    folder.json(INDEX, |i| i["weight_map"]["norm.weight.copy"] = json!("copy.safetensors"));
    fs::copy(folder.file(ENGRAM_SHARD), folder.file("copy.safetensors")).unwrap();
    let error = refusal(&folder);
    assert!(matches!(error, CheckpointError::Duplicate { .. }), "{error}");
    says(&error, &["engram", "expected once", "copy.safetensors", ENGRAM_SHARD]);

    let folder = Folder::tiny();
    folder.header(SHARD, |h| rename(h, "image_start", "model.norm.weight"));
    let error = refusal(&folder);
    assert!(
        matches!(&error, CheckpointError::Duplicate { tensor, .. } if tensor == "norm.weight"),
        "{error}"
    );
    says(&error, &["norm.weight in", "model.norm.weight in"]);
}

#[test]
fn tensors_that_a_text_run_does_not_need_are_not_missed() {
    let folder = Folder::tiny();
    folder.header(SHARD, |h| rename(h, "vision.norm.weight", "something.else"));
    folder.json(INDEX, |i| rename(&mut i["weight_map"], "vision.norm.weight", "something.else"));
    assert!(Checkpoint::open(folder.path()).is_ok());
}

#[test]
fn a_single_file_and_other_spellings_open_as_well() {
    let folder = Folder::tiny();
    let respell = |name: &str| {
        let name = name.replace(".attn.", ".self_attn.").replace(".ffn.", ".mlp.");
        let name = name
            .replace(".gate.bias_vl", ".gate.keep")
            .replace(".gate.bias", ".gate.e_score_correction_bias");
        let name = name.replace(".gate.keep", ".gate.bias_vl");
        format!(
            "model.{}",
            name.strip_suffix(".scale").map_or(name.clone(), |n| format!("{n}.weight_scale_inv"))
        )
    };
    let respell_all = |object: &mut Value| {
        let names: Vec<String> = object.as_object().unwrap().keys().cloned().collect();
        for name in names.iter().filter(|n| *n != "__metadata__" && !n.starts_with("vision")) {
            rename(object, name, &respell(name));
        }
    };
    folder.header(SHARD, respell_all);
    folder.header(ENGRAM_SHARD, respell_all);
    folder.json(INDEX, |i| respell_all(&mut i["weight_map"]));
    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    assert_eq!(checkpoint.tensor("layers.2.ffn.gate.bias").map(|t| t.shape.clone()), Some(vec![8]));

    // A model without Engram fits the first shard alone.
    fs::remove_file(folder.file(INDEX)).unwrap();
    fs::rename(folder.file(SHARD), folder.file("model.safetensors")).unwrap();
    folder.json("config.json", |c| c["text_config"]["engram_layer_ids"] = json!([]));
    assert_eq!(Checkpoint::open(folder.path()).unwrap().shards().len(), 1);
}
