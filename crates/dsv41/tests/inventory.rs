//! The tensors that a configuration calls for.
#![allow(clippy::unwrap_used, reason = "test helpers")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tokenfare_dsv41::checkpoint::inventory::inventory;
use tokenfare_dsv41::checkpoint::{Checkpoint, Dtype};
use tokenfare_dsv41::config;
use tokenfare_dsv41::info::describe;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

#[test]
fn the_released_configuration_gives_the_published_totals() {
    let config = config::parse(include_bytes!("data/release_config.json")).unwrap();
    let all = inventory(&config);
    assert_eq!(all.len(), 96_085);
    let mut bytes: BTreeMap<Dtype, u64> = BTreeMap::new();
    for spec in &all {
        *bytes.entry(spec.dtype).or_default() += spec.bytes();
    }
    let published = [
        (Dtype::I8, 278_585_671_680),
        (Dtype::F8_E4M3, 204_015_223_296),
        (Dtype::F8_E8M0, 23_563_015_184),
        (Dtype::BF16, 3_952_883_712),
        (Dtype::F32, 169_229_128),
    ];
    assert_eq!(bytes, BTreeMap::from(published));
    assert_eq!(bytes.values().sum::<u64>(), 510_286_023_000);
}

#[test]
fn the_fixture_holds_its_inventory_and_nothing_else() {
    let checkpoint = Checkpoint::open(&repository("fixtures/tiny")).unwrap();
    let mut expected: Vec<_> =
        inventory(checkpoint.config()).into_iter().map(|s| (s.name, s.dtype, s.shape)).collect();
    let mut found: Vec<_> =
        checkpoint.tensors().map(|(name, t)| (name.to_owned(), t.dtype, t.shape.clone())).collect();
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(found, expected);
}

#[test]
fn the_mini_checkpoint_opens() {
    let checkpoint = Checkpoint::open(&repository("models/mini")).unwrap();
    let config = checkpoint.config();
    assert_eq!((config.layers, config.hidden, config.vocab, config.experts), (10, 384, 8192, 16));
    assert_eq!(config.vision, None);
    assert_eq!(checkpoint.shards().len(), 4);
}

#[test]
fn the_mini_checkpoint_is_summed_up() {
    let info = describe(&Checkpoint::open(&repository("models/mini")).unwrap());
    assert_eq!((info.files, info.file_bytes), (4, 55_851_608));
    assert_eq!((info.model.architecture, info.model.context), ("DeepseekV41ForCausalLM", 4096));
    // A row of 72 bytes and a key of 34 at two sources of ratio 2 and one of ratio 1.
    assert_eq!(info.model.growth, 212.0);
    assert_eq!(info.model.window_bytes, 10 * 128 * 132);
    assert_eq!(info.model.vision_bytes, 0);
    let tables = info.model.engram.unwrap().bytes;
    assert_eq!(tables, (49_796 + 50_980) * 33);
    assert_eq!(info.model.resident_bytes, info.model.total.bytes - tables);
}
