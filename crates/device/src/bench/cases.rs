//! The operations that are measured, over repeatable random values.

use super::{Op, Options, Sizes, Work};
use crate::{
    Attention, Buffer, Cache, CacheFormat, Candidates, Device, IndexSelect, LinearData, Matrix, Moe, Result,
    Selected, View,
};

/// Scale byte of 1/1024, with which sums of the products stay near one.
const SCALE: u8 = 117;

/// Rows that choose their experts before the choices repeat.
const CHOICES: usize = 64;

/// `len` repeatable bytes, each a normal number as E4M3 and, in pairs, as BF16 below 2.
fn bytes(len: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        bytes.extend((state >> 16 & 0xBFBF_BFBF_BFBF | 0x2020_2020_2020).to_le_bytes().into_iter().take(6));
    }
    bytes.truncate(len);
    bytes
}

fn reals(len: usize) -> Vec<f32> {
    (0..len).map(|i| (i * 7919 % 251) as f32 / 125.0 - 1.0).collect()
}

/// One operation with its weights, caches and rows.
pub(super) struct Case<D: Device> {
    sizes: Sizes,
    /// Rows that are read.
    x: D::Buf<f32>,
    /// Rows that are written.
    y: D::Buf<f32>,
    kind: Kind<D>,
}

enum Kind<D: Device> {
    Linear { weights: Vec<D::Linear>, bytes: u64, next: usize, format: &'static str },
    Moe(Experts<D>),
    Attention(Keys<D>),
    IndexSelect(IndexKeys<D>),
}

struct Experts<D: Device> {
    routed: D::Experts,
    shared: [D::Linear; 3],
    chosen: D::Buf<u32>,
    weights: D::Buf<f32>,
    scratch: D::Buf<f32>,
    /// Choices of [`CHOICES`] rows.
    choices: Vec<u32>,
    next: usize,
}

struct Keys<D: Device> {
    window: Cache<D>,
    compressed: Cache<D>,
    sink: D::Buf<f32>,
    zero: D::Buf<u32>,
    hi: D::Buf<u32>,
    list: D::Buf<u32>,
}

struct IndexKeys<D: Device> {
    keys: Cache<D>,
    gate: D::Buf<f32>,
    base: D::Buf<u32>,
    count: D::Buf<u32>,
    out: D::Buf<u32>,
}

fn filled<D: Device, T: crate::Element>(device: &mut D, values: &[T]) -> Result<D::Buf<T>> {
    let buf = device.alloc(values.len())?;
    device.write(&buf, 0, values)?;
    Ok(buf)
}

/// A cache of `rows` rows whose codes and scales are ordinary numbers.
fn cache<D: Device>(device: &mut D, format: CacheFormat, width: usize, rows: usize) -> Result<Cache<D>> {
    let cache = Cache::new(device, format, width, rows)?;
    let mut row = vec![0; format.row_bytes(width)];
    format.encode(&reals(width), &mut row);
    device.write(&cache.bytes, 0, &row.repeat(rows))?;
    Ok(cache)
}

fn fp4<D: Device>(device: &D, rows: usize, cols: usize, codes: &[u8]) -> Result<D::Linear> {
    let scales = vec![SCALE; rows * cols / 32];
    let values = Matrix::Fp4 { codes: &codes[..rows * cols / 2], scales: &scales };
    device.linear_weight(LinearData { rows, cols, groups: 1, values })
}

fn fp4_bytes(rows: usize, cols: usize) -> u64 {
    (rows * cols / 2 + rows * cols / 32) as u64
}

fn linear<D: Device>(device: &D, op: Op, options: &Options) -> Result<Kind<D>> {
    let Sizes { hidden: cols, outputs: rows, .. } = options.sizes;
    let codes = bytes(2 * rows * cols);
    let scales = vec![SCALE; rows.div_ceil(32) * (cols / 32)];
    let (format, values, bytes) = match op {
        Op::LinearFp8 => {
            let codes = &codes[..rows * cols];
            ("FP8", Matrix::Fp8 { codes, scales: &scales }, rows * cols + scales.len())
        }
        Op::LinearBf16 => ("BF16", Matrix::Bf16(&codes), 2 * rows * cols),
        _ => ("FP4", Matrix::Bf16(&[]), rows * cols / 2 + rows * cols / 32),
    };
    let count = (options.weights / bytes as u64).max(1);
    let pack = |_| match op {
        Op::LinearFp4 => fp4(device, rows, cols, &codes),
        _ => device.linear_weight(LinearData { rows, cols, groups: 1, values }),
    };
    let weights = (0..count).map(pack).collect::<Result<_>>()?;
    Ok(Kind::Linear { weights, bytes: bytes as u64, next: 0, format })
}

fn experts<D: Device>(device: &mut D, sizes: &Sizes, rows: usize) -> Result<Experts<D>> {
    let Sizes { hidden, inner, experts, top_k, .. } = *sizes;
    let codes = bytes(hidden * inner / 2);
    let expert = |device: &D| -> Result<[D::Linear; 3]> {
        Ok([
            fp4(device, inner, hidden, &codes)?,
            fp4(device, inner, hidden, &codes)?,
            fp4(device, hidden, inner, &codes)?,
        ])
    };
    let list = (0..experts).map(|_| expert(device)).collect::<Result<_>>()?;
    // Steps that do not divide each other spread the choices like a router does.
    let choice = |row: usize| {
        let mut chosen: Vec<u32> =
            (0..top_k).map(|k| ((row * 11 + k * (experts / top_k).max(1)) % experts) as u32).collect();
        chosen.sort_unstable();
        chosen
    };
    Ok(Experts {
        routed: device.experts(list)?,
        shared: expert(device)?,
        chosen: device.alloc(rows * top_k)?,
        weights: filled(device, &vec![1.0; rows * top_k])?,
        scratch: device.alloc(device.moe_scratch(rows, top_k, hidden, inner))?,
        choices: (0..CHOICES).flat_map(choice).collect(),
        next: 0,
    })
}

impl<D: Device> Case<D> {
    /// Makes the weights and buffers of `op`.
    pub fn new(device: &mut D, op: Op, options: &Options) -> Result<Self> {
        let sizes = options.sizes;
        let rows = options.rows.iter().copied().max().unwrap_or(1);
        let queries = sizes.heads * sizes.head_dim;
        let index = sizes.index_heads * sizes.index_dim;
        let (kind, width, out) = match op {
            Op::LinearFp4 | Op::LinearFp8 | Op::LinearBf16 => {
                (linear(device, op, options)?, sizes.hidden, sizes.outputs)
            }
            Op::Moe => (Kind::Moe(experts(device, &sizes, rows)?), sizes.hidden, sizes.hidden),
            Op::Attention => {
                let list: Vec<u32> = (0..rows).flat_map(|_| 0..sizes.selected as u32).collect();
                let keys = Keys {
                    window: cache(device, CacheFormat::Fp8, sizes.head_dim, sizes.window)?,
                    compressed: cache(device, CacheFormat::Fp4Group16, sizes.head_dim, sizes.selected)?,
                    sink: filled(device, &vec![0.0; sizes.heads])?,
                    zero: filled(device, &vec![0; rows])?,
                    hi: filled(device, &vec![sizes.window as u32; rows])?,
                    list: filled(device, &list)?,
                };
                (Kind::Attention(keys), queries, queries)
            }
            Op::IndexSelect => {
                let keys = IndexKeys {
                    keys: cache(device, CacheFormat::Fp4Group32, sizes.index_dim, sizes.keys)?,
                    gate: filled(device, &reals(rows * sizes.index_heads))?,
                    base: filled(device, &vec![0; rows])?,
                    count: filled(device, &vec![sizes.keys as u32; rows])?,
                    out: device.alloc(rows * sizes.selected)?,
                };
                (Kind::IndexSelect(keys), index, 1)
            }
        };
        let (x, y) = (filled(device, &reals(rows * width))?, device.alloc(rows * out)?);
        Ok(Self { sizes, x, y, kind })
    }

    /// The sizes in words.
    pub fn shape(&self) -> String {
        let s = &self.sizes;
        match &self.kind {
            Kind::Linear { format, weights, .. } => {
                format!("N={} K={} {format}, {} matrices", s.outputs, s.hidden, weights.len())
            }
            Kind::Moe(_) => {
                format!("{} of {} experts + shared, {} x {} FP4", s.top_k, s.experts, s.inner, s.hidden)
            }
            Kind::Attention(_) => {
                format!("{} heads x {}, {} + {} keys", s.heads, s.head_dim, s.window, s.selected)
            }
            Kind::IndexSelect(_) => {
                format!("{} heads x {}, best {} of {}", s.index_heads, s.index_dim, s.selected, s.keys)
            }
        }
    }

    /// Runs one launch of `n` rows to its end.
    pub fn launch(&mut self, device: &mut D, n: usize) -> Result<Work> {
        let (sizes, x, y) = (self.sizes, &self.x, &self.y);
        let work = match &mut self.kind {
            Kind::Linear { weights, bytes, next, .. } => {
                let weight = &weights[*next % weights.len()];
                *next += 1;
                device.linear(n, View::dense(x, sizes.hidden), weight, View::dense(y, sizes.outputs))?;
                Work { bytes: *bytes, flops: 2 * (n * sizes.hidden * sizes.outputs) as u64 }
            }
            Kind::Moe(experts) => experts.launch(device, n, &sizes, x, y)?,
            Kind::Attention(keys) => keys.launch(device, n, &sizes, x, y)?,
            Kind::IndexSelect(keys) => keys.launch(device, n, &sizes, x)?,
        };
        device.read(y, 0, &mut [0.0])?;
        Ok(work)
    }
}

impl<D: Device> Experts<D> {
    fn launch(
        &mut self,
        device: &mut D,
        n: usize,
        sizes: &Sizes,
        x: &D::Buf<f32>,
        y: &D::Buf<f32>,
    ) -> Result<Work> {
        let k = sizes.top_k;
        let chosen: Vec<u32> =
            (0..n).flat_map(|r| self.choices[(self.next + r) % CHOICES * k..][..k].to_vec()).collect();
        self.next += n;
        device.write(&self.chosen, 0, &chosen)?;
        device.moe(
            n,
            Moe {
                x: View::dense(x, sizes.hidden),
                experts: &self.chosen,
                weights: &self.weights,
                top_k: k,
                routed: &self.routed,
                shared: &self.shared,
                limit: 10.0,
                scratch: &self.scratch,
                out: View::dense(y, sizes.hidden),
            },
        )?;
        let mut distinct = chosen;
        distinct.sort_unstable();
        distinct.dedup();
        let matrices = 3 * (distinct.len() + 1) as u64;
        let products = 3 * n * (k + 1) * sizes.hidden * sizes.inner;
        Ok(Work { bytes: matrices * fp4_bytes(sizes.inner, sizes.hidden), flops: 2 * products as u64 })
    }
}

impl<D: Device> Keys<D> {
    fn launch(
        &self,
        device: &mut D,
        n: usize,
        sizes: &Sizes,
        x: &D::Buf<f32>,
        y: &D::Buf<f32>,
    ) -> Result<Work> {
        let width = sizes.heads * sizes.head_dim;
        let selected =
            Selected { cache: &self.compressed, base: &self.zero, list: &self.list, top_k: sizes.selected };
        device.attention(
            n,
            Attention {
                q: View::dense(x, width),
                heads: sizes.heads,
                scale: 0.05,
                sink: &self.sink,
                window: &self.window,
                base: &self.zero,
                ring: sizes.window,
                lo: &self.zero,
                hi: &self.hi,
                selected: Some(selected),
                out: View::dense(y, width),
            },
        )?;
        let bytes = self.window.bytes.len() + self.compressed.bytes.len();
        Ok(Work {
            bytes: (bytes * n) as u64,
            flops: 4 * (n * (sizes.window + sizes.selected) * width) as u64,
        })
    }
}

impl<D: Device> IndexKeys<D> {
    fn launch(&self, device: &mut D, n: usize, sizes: &Sizes, x: &D::Buf<f32>) -> Result<Work> {
        let width = sizes.index_heads * sizes.index_dim;
        device.index_select(
            n,
            IndexSelect {
                q: View::dense(x, width),
                gate: View::dense(&self.gate, sizes.index_heads),
                scale: 0.01,
                keys: &self.keys,
                base: &self.base,
                count: &self.count,
                top_k: sizes.selected,
                candidates: Candidates::None,
                out: &self.out,
            },
        )?;
        let flops = 2 * (n * sizes.keys * width) as u64;
        Ok(Work { bytes: (self.keys.bytes.len() * n) as u64, flops })
    }
}
