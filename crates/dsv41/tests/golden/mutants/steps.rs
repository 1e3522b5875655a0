//! Operations done otherwise, on values copied from and to the reference device's memory.

use tokenfare_device::{Buffer, Cache, Device, Reference, Result, View};

use super::device::Mutated;

pub type Floats = <Reference as Device>::Buf<f32>;
pub type Indices = <Reference as Device>::Buf<u32>;
pub type Linear = <Reference as Device>::Linear;

/// A view that owns its handle.
#[derive(Clone)]
pub struct Rows {
    pub n: usize,
    pub buf: Floats,
    pub at: usize,
    pub stride: usize,
    pub width: usize,
}

impl Rows {
    pub fn of(n: usize, view: View<'_, Mutated>) -> Self {
        Self { n, buf: view.buf.clone(), at: view.at, stride: view.stride, width: view.width }
    }

    /// Fresh rows.
    pub fn new(device: &Reference, n: usize, width: usize) -> Result<Self> {
        Ok(Self { n, buf: device.alloc(n * width)?, at: 0, stride: width, width })
    }

    pub fn view(&self) -> View<'_, Reference> {
        View { buf: &self.buf, at: self.at, stride: self.stride, width: self.width }
    }

    pub fn load(&self, device: &mut Reference) -> Result<Vec<f32>> {
        let mut values = vec![0.0; self.n * self.width];
        for (r, row) in values.chunks_exact_mut(self.width).enumerate() {
            device.read(&self.buf, self.at + r * self.stride, row)?;
        }
        Ok(values)
    }

    pub fn store(&self, device: &mut Reference, values: &[f32]) -> Result<()> {
        for (r, row) in values.chunks_exact(self.width).enumerate() {
            device.write(&self.buf, self.at + r * self.stride, row)?;
        }
        Ok(())
    }
}

pub fn load<T: tokenfare_device::Element>(
    device: &mut Reference,
    buf: &<Reference as Device>::Buf<T>,
    len: usize,
) -> Result<Vec<T>> {
    let mut values = vec![T::default(); len];
    device.read(buf, 0, &mut values)?;
    Ok(values)
}

/// Pairs value `i` of a head's rotated end with value `i + half` of it.
pub fn pair_halves(rows: &mut [f32], dim: usize, rope_dims: usize) {
    for head in rows.chunks_exact_mut(dim) {
        let (_, end) = head.split_at_mut(head.len() - rope_dims);
        let (first, second) = end.split_at(rope_dims / 2);
        let paired: Vec<f32> = first.iter().zip(second).flat_map(|(a, b)| [*a, *b]).collect();
        end.copy_from_slice(&paired);
    }
}

fn softplus(x: f32) -> f32 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

fn square_mean(x: &[f32]) -> f32 {
    x.iter().map(|v| v * v).sum::<f32>() / x.len() as f32
}

/// The weights of a choice of experts, taken from biased affinities.
pub struct BiasedWeights {
    pub logits: Rows,
    pub bias: Floats,
    pub top_k: usize,
    pub scale: f32,
    pub experts: Indices,
    pub weights: Floats,
}

impl BiasedWeights {
    pub fn run(&self, device: &mut Reference) -> Result<()> {
        let logits = self.logits.load(device)?;
        let bias = load(device, &self.bias, self.logits.width)?;
        let experts = load(device, &self.experts, self.logits.n * self.top_k)?;
        let mut weights = Vec::with_capacity(experts.len());
        for (logits, experts) in logits.chunks_exact(bias.len()).zip(experts.chunks_exact(self.top_k)) {
            let biased = |e: &u32| softplus(logits[*e as usize]).sqrt() + bias[*e as usize];
            let sum: f32 = experts.iter().map(biased).sum();
            weights.extend(experts.iter().map(|e| biased(e) / (sum + 1e-20) * self.scale));
        }
        device.write(&self.weights, 0, &weights)
    }
}

/// Experts whose up projection is clamped from above only.
pub struct UpperClamp {
    pub x: Rows,
    pub experts: Indices,
    pub weights: Floats,
    pub top_k: usize,
    pub routed: Vec<[Linear; 3]>,
    pub shared: [Linear; 3],
    /// Width inside an expert.
    pub inner: usize,
    pub limit: f32,
    pub out: Rows,
}

impl UpperClamp {
    pub fn run(&self, device: &mut Reference) -> Result<()> {
        let chosen = load(device, &self.experts, self.x.n * self.top_k)?;
        let weights = load(device, &self.weights, chosen.len())?;
        let mut sum = vec![0.0; self.x.n * self.out.width];
        for (e, expert) in self.routed.iter().enumerate() {
            let mut factors = vec![0.0; self.x.n];
            for (i, _) in chosen.iter().enumerate().filter(|(_, c)| **c as usize == e) {
                factors[i / self.top_k] = weights[i];
            }
            self.add(device, expert, &factors, &mut sum)?;
        }
        self.add(device, &self.shared, &vec![1.0; self.x.n], &mut sum)?;
        self.out.store(device, &sum)
    }

    fn add(
        &self,
        device: &mut Reference,
        expert: &[Linear; 3],
        factors: &[f32],
        sum: &mut [f32],
    ) -> Result<()> {
        let [w1, w3, w2] = expert;
        let n = self.x.n;
        let gate = Rows::new(device, n, self.inner)?;
        let up = Rows::new(device, n, self.inner)?;
        let y = Rows::new(device, n, self.out.width)?;
        device.linear(n, self.x.view(), w1, gate.view())?;
        device.linear(n, self.x.view(), w3, up.view())?;
        let mut hidden = gate.load(device)?;
        let up = up.load(device)?;
        for (i, (g, u)) in hidden.iter_mut().zip(up).enumerate() {
            let clamped = g.min(self.limit);
            *g = clamped * sigmoid(clamped) * u.min(self.limit) * factors[i / self.inner];
        }
        gate.store(device, &hidden)?;
        device.linear(n, gate.view(), w2, y.view())?;
        sum.iter_mut().zip(y.load(device)?).for_each(|(sum, y)| *sum += y);
        Ok(())
    }
}

/// How an Engram gate is misread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// The similarity itself, not the root of its size.
    WithoutRoot,
    /// Norms of the streams over all of them at once.
    JointNorm,
}

pub struct EngramGate {
    pub kv: Rows,
    pub qk: Floats,
    pub eps: f32,
    pub h: Rows,
    pub gate: Gate,
}

impl EngramGate {
    pub fn run(&self, device: &mut Reference) -> Result<()> {
        let width = self.kv.width - self.h.width;
        let qk = load(device, &self.qk, self.h.width)?;
        let mut rows = self.h.load(device)?;
        let kv = self.kv.load(device)?;
        for (row, kv) in rows.chunks_exact_mut(self.h.width).zip(kv.chunks_exact(self.kv.width)) {
            let joint = square_mean(row);
            let (keys, value) = kv.split_at(self.h.width);
            let streams =
                row.chunks_exact_mut(width).zip(keys.chunks_exact(width)).zip(qk.chunks_exact(width));
            for ((h, key), qk) in streams {
                let mean = if self.gate == Gate::JointNorm { joint } else { square_mean(h) };
                let norm = ((mean + self.eps) * (square_mean(key) + self.eps) * width as f32).sqrt();
                let dot: f32 = h.iter().zip(qk).zip(key).map(|((h, qk), key)| h * qk * key).sum();
                let similarity = dot / norm;
                let size = similarity.abs().max(1e-6);
                let size = if self.gate == Gate::WithoutRoot { size } else { size.sqrt() };
                let gate = sigmoid(size.copysign(similarity));
                h.iter_mut().zip(value).for_each(|(h, value)| *h += gate * value);
            }
        }
        self.h.store(device, &rows)
    }
}

/// Candidate blocks by score alone: the newest has no privilege.
pub struct UnpinnedBlocks {
    pub q: Rows,
    pub gate: Rows,
    pub keys: Cache<Reference>,
    pub base: Indices,
    pub count: Indices,
    pub block: usize,
    pub top: usize,
    pub mask: Indices,
    pub words: usize,
}

impl UnpinnedBlocks {
    pub fn run(&self, device: &mut Reference) -> Result<()> {
        let (n, dim) = (self.q.n, self.keys.width);
        let (q, gate) = (self.q.load(device)?, self.gate.load(device)?);
        let (base, count) = (load(device, &self.base, n)?, load(device, &self.count, n)?);
        let bytes = load(device, &self.keys.bytes, self.keys.bytes.len())?;
        let size = self.keys.format.row_bytes(dim);
        let mut mask = vec![0_u32; n * self.words];
        for r in 0..n {
            let q = &q[r * self.q.width..][..self.q.width];
            let gate = &gate[r * self.gate.width..][..self.gate.width];
            let score = |key: &[u8]| {
                let mut values = vec![0.0; dim];
                self.keys.format.decode(key, &mut values);
                let dot = |q: &[f32]| q.iter().zip(&values).map(|(q, k)| q * k).sum::<f32>();
                q.chunks_exact(dim).zip(gate).map(|(q, g)| dot(q).max(0.0) * g).sum::<f32>()
            };
            let keys = &bytes[base[r] as usize * size..][..count[r] as usize * size];
            let scores: Vec<f32> = keys.chunks_exact(size).map(score).collect();
            let best = |scores: &[f32]| scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let blocks: Vec<f32> = scores.chunks(self.block).map(best).collect();
            let mut order: Vec<usize> = (0..blocks.len()).collect();
            order.sort_by(|a, b| blocks[*b].total_cmp(&blocks[*a]));
            for b in order.into_iter().take(self.top) {
                mask[r * self.words + b / 32] |= 1 << (b % 32);
            }
        }
        device.write(&self.mask, 0, &mask)
    }
}
