//! The reference device on inputs small enough to work out by hand, or in f64 from the definition.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use tokenfare_device::{
    Attention, Cache, CacheFormat, CacheStore, Candidates, Device, DeviceError, Element, IndexSelect,
    LinearData, Matrix, Moe, NONE, PairPool, Reference, Route, Selected, View,
};

type Buf<T> = <Reference as Device>::Buf<T>;

fn put<T: Element>(device: &mut Reference, values: &[T]) -> Buf<T> {
    let buf = device.alloc(values.len()).unwrap();
    device.write(&buf, 0, values).unwrap();
    buf
}

fn get<T: Element>(device: &mut Reference, buf: &Buf<T>, len: usize) -> Vec<T> {
    let mut values = vec![T::default(); len];
    device.read(buf, 0, &mut values).unwrap();
    values
}

fn weight(device: &Reference, rows: usize, cols: usize, values: &[f32]) -> <Reference as Device>::Linear {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    device.linear_weight(LinearData { rows, cols, groups: 1, values: Matrix::F32(&bytes) }).unwrap()
}

fn assert_near(got: &[f32], expected: &[f64]) {
    assert_eq!(got.len(), expected.len());
    for (i, (&got, &expected)) in got.iter().zip(expected).enumerate() {
        let near = (f64::from(got) - expected).abs() <= 2e-6 * expected.abs().max(1.0);
        assert!(near, "value {i}: {got}, expected {expected}");
    }
}

/// `W e_k` for each column `k`: the decoded weight, transposed.
fn columns(data: LinearData<'_>) -> Vec<f32> {
    let mut device = Reference::new(64);
    let w = device.linear_weight(data).unwrap();
    let mut identity = vec![0.0; data.cols * data.cols];
    (0..data.cols).for_each(|k| identity[k * data.cols + k] = 1.0);
    let (x, y) = (put(&mut device, &identity), device.alloc(data.cols * data.rows).unwrap());
    device.linear(data.cols, View::dense(&x, data.cols), &w, View::dense(&y, data.rows)).unwrap();
    get(&mut device, &y, data.cols * data.rows)
}

#[test]
fn an_fp4_weight_has_its_low_nibble_first_and_a_scale_for_32_columns() {
    let mut codes = [0; 64];
    codes[0] = 0x21;
    // Row 1, columns 62 and 63.
    codes[63] = 0xf7;
    let scales = [127, 0, 0, 130];
    let values = Matrix::Fp4 { codes: &codes, scales: &scales };
    let w = columns(LinearData { rows: 2, cols: 64, groups: 1, values });
    assert_eq!((w[0], w[2]), (0.5, 1.0));
    assert_eq!((w[62 * 2 + 1], w[63 * 2 + 1]), (48.0, -48.0));
    assert_eq!(w.iter().filter(|&&v| v != 0.0).count(), 4);
}

#[test]
fn an_fp8_weight_has_a_scale_for_32_rows_and_columns() {
    // E4M3 0x38 is 1, everywhere.
    let codes = [0x38; 33 * 64];
    let values = Matrix::Fp8 { codes: &codes, scales: &[127, 128, 129, 126] };
    let w = columns(LinearData { rows: 33, cols: 64, groups: 1, values });
    for (i, &v) in w.iter().enumerate() {
        let (col, row) = (i / 33, i % 33);
        assert_eq!(v, [[1.0, 2.0], [4.0, 0.5]][row / 32][col / 32], "row {row}, column {col}");
    }
}

#[test]
fn a_grouped_weight_maps_each_group_of_inputs_to_its_own_outputs() {
    let mut device = Reference::new(1);
    let bytes: Vec<u8> =
        [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let data = LinearData { rows: 4, cols: 2, groups: 2, values: Matrix::F32(&bytes) };
    let w = device.linear_weight(data).unwrap();
    let (x, y) = (put(&mut device, &[1.0, 10.0, 100.0, 1000.0]), device.alloc(4).unwrap());
    device.linear(1, View::dense(&x, 4), &w, View::dense(&y, 4)).unwrap();
    assert_eq!(get(&mut device, &y, 4), [21.0, 43.0, 6500.0, 8700.0]);
}

#[test]
fn rope_turns_adjacent_pairs_at_the_end_of_each_head() {
    let mut device = Reference::new(1);
    // Two heads of 4 values, the last pair turned by a quarter.
    let x = put(&mut device, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    let angles = put(&mut device, &[0.0, 1.0]);
    let view = View::dense(&x, 8);
    device.rope(1, view, 2, &angles, 2, false, CacheFormat::F32).unwrap();
    assert_eq!(get(&mut device, &x, 8), [1.0, 2.0, -4.0, 3.0, 5.0, 6.0, -8.0, 7.0]);
    device.rope(1, view, 2, &angles, 2, true, CacheFormat::F32).unwrap();
    assert_eq!(get(&mut device, &x, 8), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
}

#[test]
fn streams_are_collapsed_and_expanded_by_their_mixes() {
    let mut device = Reference::new(1);
    let h = put(&mut device, &[1.0, 2.0, 10.0, 20.0]);
    let (pre, x) = (put(&mut device, &[0.5, 0.25]), device.alloc(2).unwrap());
    device.hc_collapse(1, View::dense(&h, 4), View::dense(&pre, 2), None, View::dense(&x, 2)).unwrap();
    assert_eq!(get(&mut device, &x, 2), [3.0, 6.0]);
    device.hc_mean(1, View::dense(&h, 4), View::dense(&x, 2)).unwrap();
    assert_eq!(get(&mut device, &x, 2), [5.5, 11.0]);
    let b = put(&mut device, &[100.0, 200.0]);
    let (post, comb) = (put(&mut device, &[1.0, 2.0]), put(&mut device, &[0.5, 3.0, 0.25, 7.0]));
    let (post, comb) = (View::dense(&post, 2), View::dense(&comb, 4));
    device.hc_expand(1, View::dense(&b, 2), post, comb, View::dense(&h, 4)).unwrap();
    // Old streams (1, 2) and (10, 20): the first goes by (0.5, 3), the second by (0.25, 7).
    assert_eq!(get(&mut device, &h, 4), [103.0, 206.0, 273.0, 546.0]);
}

#[test]
fn a_pair_is_pooled_by_the_softmax_of_its_gates() {
    let mut device = Reference::new(2);
    let (kv, gate) = (put(&mut device, &[1.0, 2.0, 5.0, 6.0]), put(&mut device, &[0.0, 3.0, 0.0, -1.0]));
    let carry = device.alloc(3 * 4).unwrap();
    let (store, first) = (put(&mut device, &[2, NONE]), put(&mut device, &[NONE, 2]));
    let out = put(&mut device, &[9.0; 4]);
    let args = PairPool {
        kv: View::dense(&kv, 2),
        gate: View::dense(&gate, 2),
        carry: &carry,
        store: &store,
        first: &first,
        out: View::dense(&out, 2),
    };
    device.pair_pool(2, args).unwrap();
    let second = 1.0 / (1.0 + 4f64.exp());
    assert_near(&get(&mut device, &out, 4), &[0.0, 0.0, 3.0, 2.0 + 4.0 * second]);
    assert_eq!(get(&mut device, &carry, 12)[8..], [1.0, 2.0, 0.0, 3.0]);
}

#[test]
fn attention_wraps_its_ring_and_counts_the_sink_in_the_denominator_only() {
    let mut device = Reference::new(1);
    let window = Cache::new(&device, CacheFormat::F32, 32, 4).unwrap();
    let compressed = Cache::new(&device, CacheFormat::F32, 32, 3).unwrap();
    let angles = device.alloc(0).unwrap();
    let store = |device: &mut Reference, cache: &Cache<Reference>, row: u32, value: f32| {
        let (mut values, index) = ([0.0; 32], put(device, &[row]));
        values[1] = value;
        let x = put(device, &values);
        let x = View::dense(&x, 32);
        let args = CacheStore { x, norm: None, angles: &angles, rope_dims: 0, cache, index: &index };
        device.cache_store(1, args).unwrap();
    };
    // Positions 5 and 6 of a ring of 3 from row 1 lie at rows 3 and 1.
    store(&mut device, &window, 3, 2.0);
    store(&mut device, &window, 1, -1.0);
    store(&mut device, &window, 2, 100.0);
    store(&mut device, &compressed, 2, 0.5);
    let (q, out) = (put(&mut device, &[3.0; 32]), device.alloc(32).unwrap());
    let sink = put(&mut device, &[0.7]);
    let [base, lo, hi, selected_base] = [1, 5, 7, 1].map(|v| put(&mut device, &[v]));
    let list = put(&mut device, &[1, NONE]);
    let selected = Selected { cache: &compressed, base: &selected_base, list: &list, top_k: 2 };
    let args = Attention {
        q: View::dense(&q, 32),
        heads: 1,
        scale: 0.5,
        sink: &sink,
        window: &window,
        base: &base,
        ring: 3,
        lo: &lo,
        hi: &hi,
        selected: Some(selected),
        out: View::dense(&out, 32),
    };
    device.attention(1, args).unwrap();
    let keys = [2.0, -1.0, 0.5];
    let weight = |key: f64| (1.5 * key).exp();
    let total: f64 = keys.iter().map(|&k| weight(k)).sum::<f64>() + f64::from(0.7f32).exp();
    let mut expected = [0.0; 32];
    expected[1] = keys.iter().map(|&k| weight(k) * k).sum::<f64>() / total;
    assert_near(&get(&mut device, &out, 32), &expected);
}

/// What a selection does with blocks of two keys.
#[derive(Clone, Copy)]
enum Blocks {
    All,
    WriteBest(usize),
    Read,
}

/// The selection among five keys by one head that reads their first value, and the mask after it.
fn select(keys: [f32; 5], gate: f32, top_k: usize, blocks: Blocks, mask: u32) -> (Vec<u32>, u32) {
    let mut device = Reference::new(1);
    let cache = Cache::new(&device, CacheFormat::F32, 32, 5).unwrap();
    let mut bytes = Vec::new();
    for key in keys {
        let mut values = [0.0f32; 32];
        values[0] = key;
        bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    }
    device.write(&cache.bytes, 0, &bytes).unwrap();
    let (q, gate) = (put(&mut device, &[1.0; 32]), put(&mut device, &[gate]));
    let (base, count) = (put(&mut device, &[0]), put(&mut device, &[5]));
    let (mask, out) = (put(&mut device, &[mask]), device.alloc(top_k).unwrap());
    let candidates = match blocks {
        Blocks::All => Candidates::None,
        Blocks::WriteBest(top) => Candidates::Write { block: 2, top, mask: &mask, words: 1 },
        Blocks::Read => Candidates::Read { block: 2, mask: &mask, words: 1 },
    };
    let args = IndexSelect {
        q: View::dense(&q, 32),
        gate: View::dense(&gate, 1),
        scale: 0.1,
        keys: &cache,
        base: &base,
        count: &count,
        top_k,
        candidates,
        out: &out,
    };
    device.index_select(1, args).unwrap();
    (get(&mut device, &out, top_k), get(&mut device, &mask, 1)[0])
}

#[test]
fn selection_takes_the_best_scores_and_the_lower_of_equal_ones() {
    let keys = [1.0, -5.0, 3.0, 1.0, -2.0];
    assert_eq!(select(keys, 1.0, 2, Blocks::All, 0).0, [0, 2]);
    assert_eq!(select(keys, 1.0, 3, Blocks::All, 0).0, [0, 2, 3]);
    // Keys 1 and 4 both score 0.
    assert_eq!(select(keys, 1.0, 4, Blocks::All, 0).0, [0, 1, 2, 3]);
    assert_eq!(select(keys, -1.0, 2, Blocks::All, 0).0, [1, 4]);
    assert_eq!(select(keys, 1.0, 7, Blocks::All, 0).0, [0, 1, 2, 3, 4, NONE, NONE]);
}

#[test]
fn candidate_blocks_are_the_newest_and_the_best() {
    let keys = [1.0, -5.0, 3.0, 1.0, -2.0];
    // Blocks of two keys: best scores 1, 3 and the newest.
    for (top, expected) in [(1, 0b100), (2, 0b110), (3, 0b111)] {
        assert_eq!(select(keys, 1.0, 2, Blocks::WriteBest(top), u32::MAX), (vec![0, 2], expected));
    }
    assert_eq!(select(keys, 1.0, 2, Blocks::Read, 0b101).0, [0, 1]);
    assert_eq!(select(keys, 1.0, 2, Blocks::Read, 0b100).0, [4, NONE]);
}

#[test]
fn routing_chooses_by_bias_and_weighs_without_it() {
    let mut device = Reference::new(1);
    let logits = put(&mut device, &[0.0, 1.0, 30.0, -1.0]);
    let bias = put(&mut device, &[9.0, 0.0, 0.0, 9.0]);
    let (experts, weights) = (device.alloc(2).unwrap(), device.alloc(2).unwrap());
    let args = Route {
        logits: View::dense(&logits, 4),
        bias: &bias,
        top_k: 2,
        normalize: true,
        scale: 1.5,
        experts: &experts,
        weights: &weights,
    };
    device.route(1, args).unwrap();
    assert_eq!(get(&mut device, &experts, 2), [0, 3]);
    let affinity = |x: f64| x.exp().ln_1p().sqrt();
    let sum = affinity(0.0) + affinity(-1.0);
    let expected = [affinity(0.0) / sum * 1.5, affinity(-1.0) / sum * 1.5];
    assert_near(&get(&mut device, &weights, 2), &expected);
}

#[test]
fn experts_are_weighted_before_their_output_and_the_shared_one_is_added() {
    let mut device = Reference::new(1);
    let expert = |device: &Reference, gate: f32, up: f32, down: f32| {
        [weight(device, 1, 1, &[gate]), weight(device, 1, 1, &[up]), weight(device, 1, 1, &[down])]
    };
    let list = (0..3).map(|e| expert(&device, e as f32, 1.0 + e as f32, 2.0)).collect();
    let routed = device.experts(list).unwrap();
    let shared = expert(&device, 1.0, -4.0, 5.0);
    let (x, out, scratch) = (put(&mut device, &[2.0]), device.alloc(1).unwrap(), device.alloc(0).unwrap());
    let (experts, weights) = (put(&mut device, &[1, 2]), put(&mut device, &[0.5, 0.25]));
    let args = Moe {
        x: View::dense(&x, 1),
        experts: &experts,
        weights: &weights,
        top_k: 2,
        routed: &routed,
        shared: &shared,
        limit: 3.0,
        scratch: &scratch,
        out: View::dense(&out, 1),
    };
    device.moe(1, args).unwrap();
    let silu = |x: f64| x / (1.0 + (-x).exp());
    // Gates 2 and 4, ups 4 and 6, shared gate 2 and up -8, all within a limit of 3.
    let expected = 2.0 * 0.5 * silu(2.0) * 3.0 + 2.0 * 0.25 * silu(3.0) * 3.0 + 5.0 * silu(2.0) * -3.0;
    assert_near(&get(&mut device, &out, 1), &[expected]);
}

#[test]
fn the_engram_gate_follows_the_sign_and_root_of_each_streams_similarity() {
    let mut device = Reference::new(1);
    // Two streams of two values, their keys, the value.
    let streams = [3.0, 4.0, 1.0, -1.0];
    let keys = [1.0, 1.0, -2.0, 0.0];
    let value = [10.0, 20.0];
    let qk = [1.0, 0.5, 2.0, 1.0];
    let kv = put(&mut device, &[keys.as_slice(), &value].concat());
    let (h, weights) = (put(&mut device, &streams), put(&mut device, &qk));
    device.engram_gate(1, View::dense(&kv, 6), &weights, 1e-20, View::dense(&h, 4)).unwrap();
    let mut expected = Vec::new();
    for i in 0..2 {
        let at = |values: &[f32], d: usize| f64::from(values[2 * i + d]);
        let sum: f64 = (0..2).map(|d| at(&streams, d) * at(&qk, d) * at(&keys, d)).sum();
        let rms = |values: &[f32]| ((at(values, 0).powi(2) + at(values, 1).powi(2)) / 2.0).sqrt();
        let similarity = sum / rms(&streams) / rms(&keys) / 2f64.sqrt();
        let gate = 1.0 / (1.0 + (-similarity.abs().sqrt().copysign(similarity)).exp());
        expected.extend((0..2).map(|d| at(&streams, d) + gate * f64::from(value[d])));
    }
    assert_near(&get(&mut device, &h, 4), &expected);
}

#[test]
fn an_error_names_the_operation_and_what_it_expected() {
    let mut device = Reference::new(2);
    let (x, weight) = (device.alloc(8).unwrap(), device.alloc(3).unwrap());
    let error = device.rms_norm(2, View::dense(&x, 4), &weight, 1e-6, View::dense(&x, 4)).unwrap_err();
    assert_eq!(error.to_string(), "rms_norm: weight is 3, expected 4");
    let error = device.add(3, View::dense(&x, 2), View::dense(&x, 2)).unwrap_err();
    assert_eq!(error.to_string(), "add: n is 3, expected at most 2 rows");
    let index = put(&mut device, &[0, 2]);
    let error = device.select_rows(2, View::dense(&x, 4), &index, View::dense(&x, 4)).unwrap_err();
    assert_eq!(error.to_string(), "select_rows: index is 2, expected rows inside 8 values");
}

#[test]
fn recording_refuses_reads_writes_and_itself_and_ends_with_an_error_too() {
    let mut device = Reference::new(1);
    let x = put(&mut device, &[1.0, 2.0]);
    let view = View::dense(&x, 2);
    let failed = |result: Result<_, DeviceError>| matches!(result, Err(DeviceError::Failed { .. }));
    assert!(failed(device.record(|d| d.write(&x, 0, &[5.0])).map(drop)));
    assert!(failed(device.record(|d| d.read(&x, 0, &mut [0.0])).map(drop)));
    assert!(failed(device.record(|d| d.record(|_| Ok(())).map(drop)).map(drop)));
    let program = device.record(|d| d.add(1, view, view)).unwrap();
    assert!(failed(device.record(|d| d.replay(&program)).map(drop)));
    assert_eq!(get(&mut device, &x, 2), [1.0, 2.0]);
    device.replay(&program).unwrap();
    device.replay(&program).unwrap();
    assert_eq!(get(&mut device, &x, 2), [4.0, 8.0]);
}
