//! One case of every operation but the experts, on any device.

use tokenfare_device::{
    Attention, Buffer, Cache, CacheFormat, CacheStore, Candidates, Device, Element, IndexSelect, LinearData,
    Matrix, NONE, PairPool, Result, Route, Selected, View,
};

/// Rows of a case.
pub const N: usize = 7;

/// Splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Values in -1..1.
    pub fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0).collect()
    }

    pub fn below(&mut self, n: u64) -> u32 {
        (self.next() % n) as u32
    }
}

/// A device with a random source and the results so far.
pub struct Bench<D: Device> {
    pub device: D,
    random: Random,
    /// Name and values of each result.
    pub results: Vec<(&'static str, Vec<f32>)>,
}

impl<D: Device> Bench<D> {
    pub fn new(device: D) -> Self {
        Self { device, random: Random(7), results: Vec::new() }
    }

    fn buffer<T: Element>(&mut self, values: &[T]) -> Result<D::Buf<T>> {
        let buffer = self.device.alloc(values.len())?;
        self.device.write(&buffer, 0, values)?;
        Ok(buffer)
    }

    fn floats(&mut self, n: usize) -> Result<D::Buf<f32>> {
        let values = self.random.floats(n);
        self.buffer(&values)
    }

    fn keep(&mut self, name: &'static str, buffer: &D::Buf<f32>) -> Result<()> {
        let mut values = vec![0.0; buffer.len()];
        self.device.read(buffer, 0, &mut values)?;
        self.results.push((name, values));
        Ok(())
    }

    fn keep_indices(&mut self, name: &'static str, buffer: &D::Buf<u32>) -> Result<()> {
        let mut values = vec![0; buffer.len()];
        self.device.read(buffer, 0, &mut values)?;
        self.results.push((name, values.into_iter().map(|v| v as f32).collect()));
        Ok(())
    }

    /// Runs every operation once.
    pub fn run(&mut self) -> Result<()> {
        self.rows()?;
        self.streams()?;
        self.caches()?;
        self.selections()?;
        self.attentions()?;
        self.routes()
    }

    fn rows(&mut self) -> Result<()> {
        let width = 1000;
        let (x, y) = (self.floats(N * width)?, self.floats(N * width)?);
        let weight = self.floats(width)?;
        self.device.rms_norm(N, View::dense(&x, width), &weight, 1e-20, View::dense(&y, width))?;
        self.keep("rms_norm", &y)?;
        self.device.add(N, View::dense(&x, width), View::dense(&y, width))?;
        self.keep("add", &y)?;
        let index = self.buffer(&[3, NONE, 0, 6, 6, 1, 2])?;
        let selected = self.floats(N * width)?;
        self.device.select_rows(N, View::dense(&y, width), &index, View::dense(&selected, width))?;
        self.keep("select_rows", &selected)?;
        let bytes: Vec<u8> = self
            .random
            .floats(50 * 40)
            .iter()
            .flat_map(|v| v.to_bits().to_le_bytes()[2..].to_vec())
            .collect();
        let table = self.device.table(50, 40, &bytes)?;
        let ids = self.buffer(&[0, 49, 7, 7, 23, 11, 30])?;
        let rows = self.floats(N * 160)?;
        self.device.gather(N, &table, &ids, 4, View::dense(&rows, 160))?;
        self.keep("gather", &rows)
    }

    fn streams(&mut self) -> Result<()> {
        let (s, width) = (4, 1352);
        let h = self.floats(N * s * width)?;
        let (pre, post) = (self.floats(N * s)?, self.floats(N * s)?);
        let (comb, b, x) = (self.floats(N * s * s)?, self.floats(N * width)?, self.floats(N * width)?);
        let weight = self.floats(width)?;
        let (dense, streams) = (View::dense(&x, width), View::dense(&h, s * width));
        self.device.hc_collapse(N, streams, View::dense(&pre, s), None, dense)?;
        self.keep("hc_collapse", &x)?;
        self.device.hc_collapse(N, streams, View::dense(&pre, s), Some((&weight, 1e-20)), dense)?;
        self.keep("hc_collapse with norm", &x)?;
        self.device.hc_mean(N, streams, dense)?;
        self.keep("hc_mean", &x)?;
        let (post, comb) = (View::dense(&post, s), View::dense(&comb, s * s));
        self.device.hc_expand(N, View::dense(&b, width), post, comb, streams)?;
        self.keep("hc_expand", &h)?;
        let values = self.random.floats(24 * s * width);
        let bytes: Vec<u8> = values.iter().flat_map(|v| (v * 0.1).to_le_bytes()).collect();
        let values = Matrix::F32(&bytes);
        let mix = self.device.linear_weight(LinearData { rows: 24, cols: s * width, groups: 1, values })?;
        let (base, scale, mixes) = (self.floats(24)?, self.floats(3)?, self.floats(N * 24)?);
        let out = View::dense(&mixes, 24);
        self.device.linear(N, streams, &mix, out)?;
        self.keep("linear", &mixes)?;
        self.device.hc_mix(N, streams, &mix, &base, &scale, 20, 1e-6, 1e-20, out)?;
        self.keep("hc_mix", &mixes)?;
        let (kv, qk) = (self.floats(N * (s + 1) * width)?, self.floats(s * width)?);
        self.device.engram_gate(N, View::dense(&kv, (s + 1) * width), &qk, 1e-20, streams)?;
        self.keep("engram_gate", &h)
    }

    fn angles(&mut self, dims: usize) -> Result<D::Buf<f32>> {
        let mut values = Vec::new();
        for _ in 0..N {
            let angles = self.random.floats(dims / 2);
            values.extend(angles.iter().map(|a| a.cos()));
            values.extend(angles.iter().map(|a| a.sin()));
        }
        self.buffer(&values)
    }

    fn caches(&mut self) -> Result<()> {
        let (width, heads) = (192, 5);
        let angles = self.angles(64)?;
        for (format, name) in [
            (CacheFormat::Fp8, "fp8"),
            (CacheFormat::Fp4Group16, "fp4 16"),
            (CacheFormat::Fp4Group32, "fp4 32"),
            (CacheFormat::F32, "f32"),
        ] {
            let x = self.floats(N * heads * width)?;
            let view = View::dense(&x, heads * width);
            self.device.rope(N, view, heads, &angles, 64, format == CacheFormat::F32, format)?;
            self.keep(name, &x)?;
            let weight = self.floats(width)?;
            let cache = Cache::new(&self.device, format, width, 20)?;
            let index = self.buffer(&[5, 19, NONE, 0, 1, 2, 3])?;
            for norm in [None, Some((&weight, 1e-20))] {
                let (x, angles, index) = (view.cols(width, width), &angles, &index);
                let store = CacheStore { x, norm, angles, rope_dims: 64, cache: &cache, index };
                self.device.cache_store(N, store)?;
                let mut bytes = vec![0; cache.bytes.len()];
                self.device.read(&cache.bytes, 0, &mut bytes)?;
                self.results.push((name, bytes.into_iter().map(f32::from).collect()));
            }
        }
        let width = 200;
        let (kv, gate, out) = (self.floats(N * width)?, self.floats(N * width)?, self.floats(N * width)?);
        let carry = self.floats(4 * 2 * width)?;
        let store = self.buffer(&[0, NONE, 2, 2, NONE, 1, NONE])?;
        let first = self.buffer(&[NONE, 0, NONE, 2, 3, NONE, 1])?;
        let [kv, gate, pooled] = [&kv, &gate, &out].map(|b| View::dense(b, width));
        let args = PairPool { kv, gate, carry: &carry, store: &store, first: &first, out: pooled };
        self.device.pair_pool(N, args)?;
        self.keep("pair_pool", &out)?;
        self.keep("pair_pool carry", &carry)
    }

    /// A cache of random rows.
    fn filled(&mut self, format: CacheFormat, width: usize, rows: usize) -> Result<Cache<D>> {
        let cache = Cache::new(&self.device, format, width, rows)?;
        let mut bytes = Vec::new();
        for _ in 0..rows {
            let values = self.random.floats(width);
            let mut row = vec![0; format.row_bytes(width)];
            format.encode(&values, &mut row);
            bytes.extend(row);
        }
        self.device.write(&cache.bytes, 0, &bytes)?;
        Ok(cache)
    }

    fn selections(&mut self) -> Result<()> {
        let (width, heads, top_k, words) = (64, 6, 40, 32);
        let keys = self.filled(CacheFormat::Fp4Group32, width, 3000)?;
        let base = self.buffer(&[0, 0, NONE, 1500, 1500, 2, 2960])?;
        let count = self.buffer(&[1500, 1499, 9, 1500, 17, 0, 40])?;
        let q = self.floats(N * heads * width)?;
        let gate = self.floats(N * heads)?;
        let mask = self.buffer(&[0; N * 32])?;
        for (name, turn) in [("index_select", 0), ("index_select and mask", 1), ("masked index_select", 2)] {
            let out = self.buffer(&[7; N * 40])?;
            let candidates = match turn {
                0 => Candidates::None,
                1 => Candidates::Write { block: 8, top: 11, mask: &mask, words },
                _ => Candidates::Read { block: 8, mask: &mask, words },
            };
            let (q, gate) = (View::dense(&q, heads * width), View::dense(&gate, heads));
            let select = IndexSelect {
                q,
                gate,
                scale: 0.02,
                keys: &keys,
                base: &base,
                count: &count,
                top_k,
                candidates,
                out: &out,
            };
            self.device.index_select(N, select)?;
            self.keep_indices(name, &out)?;
            self.keep_indices("mask", &mask)?;
        }
        Ok(())
    }

    fn attentions(&mut self) -> Result<()> {
        self.attention("attention", 96, 24, None)?;
        self.attention("attention over selected rows", 96, 24, Some(30))?;
        // More decoded keys than a thread keeps.
        self.attention("attention in blocks", 512, 40, Some(250))
    }

    fn attention(
        &mut self,
        name: &'static str,
        width: usize,
        ring: usize,
        top_k: Option<usize>,
    ) -> Result<()> {
        let heads = 6;
        let window = self.filled(CacheFormat::Fp8, width, 3 * ring)?;
        let cache = self.filled(CacheFormat::Fp4Group16, width, 200)?;
        let slot = |slot: usize| (slot * ring) as u32;
        let base = self.buffer(&[slot(0), slot(0), slot(1), NONE, slot(2), slot(2), slot(1)])?;
        let lo = self.buffer(&[0, 10, 100, 3, 5, 7, 7])?;
        let hi = self.buffer(&[1, 34, 117, 9, 29, 7, 7])?;
        let places = self.buffer(&[0, 0, 100, 100, 100, 0, 0])?;
        let listed = top_k.unwrap_or(1);
        let mut list: Vec<u32> = (0..N * listed).map(|_| self.random.below(100)).collect();
        list[5 * listed + 3.min(listed)..].fill(NONE);
        let list = self.buffer(&list)?;
        let q = self.floats(N * heads * width)?;
        let sink = self.floats(heads)?;
        let out = self.floats(N * heads * width)?;
        for rows in [N, 1] {
            let selected = top_k.map(|top_k| Selected { cache: &cache, base: &places, list: &list, top_k });
            let args = Attention {
                q: View::dense(&q, heads * width),
                heads,
                scale: 0.6,
                sink: &sink,
                window: &window,
                base: &base,
                ring,
                lo: &lo,
                hi: &hi,
                selected,
                out: View::dense(&out, heads * width),
            };
            self.device.attention(rows, args)?;
            self.keep(name, &out)?;
        }
        Ok(())
    }

    fn routes(&mut self) -> Result<()> {
        let (experts, top_k) = (100, 6);
        let logits = self.random.floats(N * experts).into_iter().map(|v| v * 30.0).collect::<Vec<_>>();
        let (logits, bias) = (self.buffer(&logits)?, self.floats(experts)?);
        for normalize in [true, false] {
            let (chosen, weights) = (self.buffer(&[0; N * 6])?, self.floats(N * top_k)?);
            let args = Route {
                logits: View::dense(&logits, experts),
                bias: &bias,
                top_k,
                normalize,
                scale: 1.5,
                experts: &chosen,
                weights: &weights,
            };
            self.device.route(N, args)?;
            self.keep_indices("route", &chosen)?;
            self.keep("route weights", &weights)?;
        }
        Ok(())
    }
}
