//! Configurations that are refused, each one small edit away from the fixture's.
#![allow(clippy::unwrap_used, reason = "test helpers")]

use rstest::rstest;
use serde_json::{Value, json};
use tokenfare_dsv41::config::{self, ConfigError};

fn tiny() -> Value {
    serde_json::from_slice(include_bytes!("../../../fixtures/tiny/config.json")).unwrap()
}

/// The message for the fixture with the value at a JSON pointer replaced, or removed by `null`.
fn message(pointer: &str, value: Value) -> String {
    let mut config = tiny();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = config.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    match value {
        Value::Null => drop(parent.remove(key)),
        value => drop(parent.insert(key.to_owned(), value)),
    }
    config::parse(config.to_string().as_bytes()).unwrap_err().to_string()
}

#[test]
fn sizes_of_the_fixture_are_read() {
    let config = config::parse(tiny().to_string().as_bytes()).unwrap();
    assert_eq!((config.hidden, config.layers, config.heads, config.head_dim), (128, 10, 4, 64));
    assert_eq!(config.ratios, [0, 0, 2, 2, 2, 2, 1, 1, 1, 1]);
    assert_eq!((config.norm_eps, config.hc_eps, config.swiglu_limit), (1e-20, 1e-6, 1.5));
    assert_eq!((config.yarn.factor, config.yarn.original), (4.0, 64));
    let engram = config.engram.as_ref().unwrap();
    assert_eq!((engram.columns(), engram.rows.as_slice()), (6, [1362, 1552].as_slice()));
    let drafter = config.drafter.as_ref().unwrap();
    assert_eq!((drafter.noise, drafter.taps.as_slice(), drafter.block), (500, [7, 8, 9].as_slice(), 5));
    assert_eq!(config.image_token, Some(510));
    assert_eq!(config.vision.as_ref().map(|v| (v.layers, v.hidden, v.patch)), Some((2, 64, 14)));
}

#[test]
fn parts_may_be_absent() {
    let mut value = tiny();
    value.as_object_mut().unwrap().remove("vision_config");
    value["text_config"]["engram_layer_ids"] = json!([]);
    value["text_config"]["num_nextn_predict_layers"] = json!(0);
    value["text_config"]["compress_ratios"] = json!([0, 0, 2, 2, 2, 2, 1, 1, 1, 1]);
    let config = config::parse(value.to_string().as_bytes()).unwrap();
    assert_eq!((config.engram, config.drafter, config.vision, config.image_token), (None, None, None, None));
}

#[rstest]
#[case("/architectures", json!(["LlamaForCausalLM"]), "architectures: expected DeepseekV41ForCausalLM, found [\"LlamaForCausalLM\"]")]
#[case("/architectures", Value::Null, "architectures: expected DeepseekV41ForCausalLM, found nothing")]
#[case("/quantization_config", Value::Null, "quantization_config: expected an object, found nothing")]
#[case("/quantization_config/quant_method", json!("awq"), "quantization_config.quant_method: expected \"fp8\", found \"awq\"")]
#[case("/quantization_config/weight_block_size", json!([128, 128]), "quantization_config.weight_block_size: expected [32,32], found [128,128]")]
#[case("/quantization_config/scale_fmt", json!("float"), "quantization_config.scale_fmt: expected \"ue8m0\", found \"float\"")]
#[case(
    "/quantization_config/expert_dtype",
    Value::Null,
    "quantization_config.expert_dtype: expected \"fp4\", found nothing"
)]
#[case("/text_config", json!(3), "text_config: expected an object, found 3")]
#[case(
    "/text_config/hidden_size",
    Value::Null,
    "text_config.hidden_size: expected a whole number from 1 to 16777216, found nothing"
)]
#[case("/text_config/hidden_size", json!("128"), "text_config.hidden_size: expected a whole number from 1 to 16777216, found \"128\"")]
#[case("/text_config/hidden_size", json!(0), "text_config.hidden_size: expected a whole number from 1 to 16777216, found 0")]
#[case("/text_config/hidden_size", json!(-128), "text_config.hidden_size: expected a whole number from 1 to 16777216, found -128")]
#[case("/text_config/hidden_size", json!(128.5), "text_config.hidden_size: expected a whole number from 1 to 16777216, found 128.5")]
#[case("/text_config/hidden_size", json!(u64::MAX), "text_config.hidden_size: expected a whole number from 1 to 16777216, found 18446744073709551615")]
#[case("/text_config/hidden_size", json!(130), "text_config.hidden_size: expected a multiple of 32, found 130")]
#[case("/text_config/head_dim", json!(65), "text_config.head_dim: expected a multiple of 32, found 65")]
#[case("/text_config/num_hidden_layers", json!(100_000), "text_config.num_hidden_layers: expected a whole number from 1 to 1024, found 100000")]
#[case("/text_config/num_attention_heads", json!(1 << 23), "text_config.head_dim: expected num_attention_heads * head_dim of at most 268435456, found 8388608 * 64")]
#[case("/text_config/num_key_value_heads", json!(4), "text_config.num_key_value_heads: expected 1, found 4")]
#[case("/text_config/n_shared_experts", json!(2), "text_config.n_shared_experts: expected 1, found 2")]
#[case("/text_config/hidden_act", json!("gelu"), "text_config.hidden_act: expected \"silu\", found \"gelu\"")]
#[case("/text_config/scoring_func", json!("softmax"), "text_config.scoring_func: expected \"sqrtsoftplus\", found \"softmax\"")]
#[case("/text_config/tie_word_embeddings", json!(true), "text_config.tie_word_embeddings: expected false, found true")]
#[case("/text_config/norm_topk_prob", json!(1), "text_config.norm_topk_prob: expected true or false, found 1")]
#[case("/text_config/rms_norm_eps", json!(0.0), "text_config.rms_norm_eps: expected a number above 0, found 0.0")]
#[case("/text_config/rope_theta", json!(1e300), "text_config.rope_theta: expected a finite number, 0 or above, found 1e+300")]
#[case("/text_config/routed_scaling_factor", json!("1.5"), "text_config.routed_scaling_factor: expected a finite number, 0 or above, found \"1.5\"")]
#[case("/text_config/rope_scaling/rope_type", json!("linear"), "text_config.rope_scaling.rope_type: expected \"yarn\", found \"linear\"")]
#[case("/text_config/rope_scaling/beta_fast", json!(0.5), "text_config.rope_scaling.beta_fast: expected at least beta_slow 1, found 0.5")]
#[case("/text_config/qk_rope_head_dim", json!(48), "text_config.qk_rope_head_dim: expected at most head_dim and index_head_dim, 32, found 48")]
#[case("/text_config/o_groups", json!(3), "text_config.o_groups: expected a divisor of num_attention_heads 4, found 3")]
#[case("/text_config/num_experts_per_tok", json!(9), "text_config.num_experts_per_tok: expected at most n_routed_experts 8, found 9")]
#[case("/bos_token_id", json!(512), "bos_token_id: expected a token id below vocab_size 512, found 512")]
#[case("/eos_token_id", json!([1]), "eos_token_id: expected a token id below vocab_size 512, found [1]")]
#[case("/image_token_id", json!(4096), "image_token_id: expected a token id below vocab_size 512, found 4096")]
#[case("/text_config/compress_ratios", json!([0, 2]), "text_config.compress_ratios: expected 10 entries, or 13 with the drafter's, found 2 entries")]
#[case("/text_config/compress_ratios", json!([0, 0, 2, 2, 2, 2, 1, 4, 1, 1]), "text_config.compress_ratios: expected 0, 1 or 2 for each layer, found 4 for layer 7")]
#[case("/text_config/compress_ratios", json!([0, 0, 2, 2, 2, 2, 1, 1, 1, 1, 0, 1, 0]), "text_config.compress_ratios: expected 0 for each drafter block, found 1")]
#[case("/text_config/compress_ratios", json!([0, 2, 2, 2, 2, 2, 1, 1, 1, 1]), "text_config.kv_source_layer_ids: expected a source at or before layer 1, whose compress ratio is above 0, found [2,4,6]")]
#[case("/text_config/compress_ratios", json!([0, 0, 2, 1, 2, 2, 1, 1, 1, 1]), "text_config.compress_ratios: expected ratio 2 for layer 3, as its source 2, found 1")]
#[case("/text_config/kv_source_layer_ids", json!([2, 4, 10]), "text_config.kv_source_layer_ids: expected ascending layer numbers below num_hidden_layers 10, found [2,4,10]")]
#[case("/text_config/kv_source_layer_ids", json!([2, 6, 4]), "text_config.kv_source_layer_ids: expected ascending layer numbers below num_hidden_layers 10, found [2,6,4]")]
#[case("/text_config/kv_source_layer_ids", json!([1, 2, 4, 6]), "text_config.kv_source_layer_ids: expected layers with a compress ratio above 0, found layer 1 with ratio 0")]
#[case("/text_config/index_source_layer_ids", json!([4, 6, 8]), "text_config.index_source_layer_ids: expected every layer of kv_source_layer_ids among them, found no 2")]
#[case("/text_config/candidate_source_layer_id", json!(10), "text_config.candidate_source_layer_id: expected a whole number from 0 to 9, found 10")]
#[case("/text_config/candidate_source_layer_id", json!(7), "text_config.candidate_source_layer_id: expected one of index_source_layer_ids [2, 4, 6, 8], found 7")]
#[case("/text_config/candidate_source_layer_id", json!(2), "text_config.candidate_source_layer_id: expected a source of the same compressed rows as reader 4, found 2")]
#[case("/text_config/candidate_topk_blocks", json!(4), "text_config.candidate_topk_blocks: expected enough blocks of 4 for index_topk 16, found 4")]
#[case("/text_config/engram_layer_ids", json!([1, 11]), "text_config.engram_layer_ids: expected ascending layer numbers below num_hidden_layers 10, found [1,11]")]
#[case("/text_config/engram_num_embeddings", json!([1362]), "text_config.engram_num_embeddings: expected the sums of the bucket primes, [1362, 1552], found [1362]")]
#[case("/text_config/engram_num_embeddings", json!([1362, 1553]), "text_config.engram_num_embeddings: expected the sums of the bucket primes, [1362, 1552], found [1362,1553]")]
#[case("/text_config/engram_head_dim", json!(16), "text_config.engram_head_dim: expected a multiple of 32, found 16")]
#[case("/text_config/engram_pad_token_id", json!(512), "text_config.engram_pad_token_id: expected a token id below vocab_size 512, found 512")]
#[case("/text_config/engram_compressed_vocab_size", json!(513), "text_config.engram_compressed_vocab_size: expected a whole number from 1 to 512, found 513")]
#[case("/text_config/dspark_noise_token_id", json!(128_799), "text_config.dspark_noise_token_id: expected a token id below vocab_size 512, found 128799")]
#[case("/text_config/dspark_target_layer_ids", json!([]), "text_config.dspark_target_layer_ids: expected at least one layer, found []")]
#[case("/text_config/dspark_target_layer_ids", json!([8, 9, 10]), "text_config.dspark_target_layer_ids: expected ascending layer numbers below num_hidden_layers 10, found [8,9,10]")]
#[case("/text_config/dspark_num_experts_per_tok", json!(5), "text_config.dspark_num_experts_per_tok: expected at most dspark_n_routed_experts 4, found 5")]
#[case("/text_config/dspark_markov_rank", json!(0), "text_config.dspark_markov_rank: expected a whole number from 1 to 16777216, found 0")]
#[case("/vision_config/hidden_size", json!("wide"), "vision_config.hidden_size: expected a whole number from 1 to 16777216, found \"wide\"")]
fn a_field_is_refused_with_what_is_accepted(
    #[case] pointer: &str,
    #[case] value: Value,
    #[case] expected: &str,
) {
    assert_eq!(message(pointer, value), expected);
}

#[rstest]
#[case(b"", "EOF while parsing a value")]
#[case(b"{\"architectures\": ", "EOF while parsing a value")]
#[case(b"[]", "expected a JSON object, found []")]
#[case(b"\xff\xfe", "expected value")]
fn text_that_is_not_an_object_is_refused(#[case] bytes: &[u8], #[case] words: &str) {
    let error = config::parse(bytes).unwrap_err();
    assert!(matches!(error, ConfigError::Json(_)), "{error:?}");
    assert!(error.to_string().contains(words), "{error}");
}
