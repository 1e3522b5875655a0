//! The operations of the forward pass. Shapes are written `[rows, width]`; `n` is the number of rows of a launch.

use crate::{Buffer, Cache, CacheFormat, Element, LinearData, Result};

/// `n` rows of `width` f32 values inside a buffer: row `r` starts at `at + r * stride`.
pub struct View<'a, D: Device> {
    /// The memory.
    pub buf: &'a D::Buf<f32>,
    /// First element of row 0.
    pub at: usize,
    /// Elements from one row to the next.
    pub stride: usize,
    /// Values a row.
    pub width: usize,
}

impl<'a, D: Device> View<'a, D> {
    /// Dense rows of `width` from the start of `buf`.
    pub fn dense(buf: &'a D::Buf<f32>, width: usize) -> Self {
        Self { buf, at: 0, stride: width, width }
    }

    /// Columns `at..at + width` of these rows.
    pub fn cols(self, at: usize, width: usize) -> Self {
        debug_assert!(at + width <= self.stride);
        Self { buf: self.buf, at: self.at + at, stride: self.stride, width }
    }

    /// The rows from `row` on, every `step`-th.
    pub fn rows(self, row: usize, step: usize) -> Self {
        Self { buf: self.buf, at: self.at + row * self.stride, stride: self.stride * step, width: self.width }
    }

    /// Whether `n` rows lie inside the buffer.
    pub fn fits(&self, n: usize) -> bool {
        n == 0 || self.at + (n - 1) * self.stride + self.width <= self.buf.len()
    }
}

impl<D: Device> Clone for View<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<D: Device> Copy for View<'_, D> {}

/// Arguments of [`Device::cache_store`].
pub struct CacheStore<'a, D: Device> {
    /// `[n, cache.width]`, not changed.
    pub x: View<'a, D>,
    /// RMSNorm weight `[width]` and epsilon, applied first; `None`: the rows are stored as they are.
    pub norm: Option<(&'a D::Buf<f32>, f32)>,
    /// `[n, rope_dims]`: `rope_dims/2` cosines, then as many sines; rotates the last `rope_dims` values.
    pub angles: &'a D::Buf<f32>,
    /// Number of rotated values.
    pub rope_dims: usize,
    /// Where the rows go.
    pub cache: &'a Cache<D>,
    /// `[n]` cache row of each row, [`crate::NONE`] to skip.
    pub index: &'a D::Buf<u32>,
}

/// Arguments of [`Device::pair_pool`]: the ratio-2 compressor.
pub struct PairPool<'a, D: Device> {
    /// `[n, w]` values.
    pub kv: View<'a, D>,
    /// `[n, w]` gate scores.
    pub gate: View<'a, D>,
    /// `[carry rows, 2w]`: (kv, gate) of earlier tokens. All rows of this launch are written in order first.
    pub carry: &'a D::Buf<f32>,
    /// `[n]` carry row that row `r` is written to, [`crate::NONE`] to skip.
    pub store: &'a D::Buf<u32>,
    /// `[n]` carry row of the group's first token when row `r` closes a group, else [`crate::NONE`].
    pub first: &'a D::Buf<u32>,
    /// `[n, w]`: per value, `kv_first * a + kv_r * b` with `(a, b) = softmax(gate_first, gate_r)`; 0 where no group closes.
    pub out: View<'a, D>,
}

/// How an index selection meets the candidate blocks: a reader scores only inside kept blocks.
pub enum Candidates<'a, D: Device> {
    /// This layer ignores candidate blocks.
    None,
    /// Keep the best `top` blocks of `block` keys by their best score, the newest reachable block always; ties
    /// to the lower block. Sets bit `b % 32` of `mask[r * words + b / 32]`. The selection itself is unmasked.
    Write {
        /// Keys a block.
        block: usize,
        /// Blocks kept.
        top: usize,
        /// `[n, words]` bits.
        mask: &'a D::Buf<u32>,
        /// Words a row.
        words: usize,
    },
    /// Only keys inside kept blocks can be selected.
    Read {
        /// Keys a block.
        block: usize,
        /// `[n, words]` bits, as written before.
        mask: &'a D::Buf<u32>,
        /// Words a row.
        words: usize,
    },
}

/// Arguments of [`Device::index_select`].
pub struct IndexSelect<'a, D: Device> {
    /// `[n, heads * keys.width]`, rotated and round-tripped.
    pub q: View<'a, D>,
    /// `[n, heads]` head weights before scaling.
    pub gate: View<'a, D>,
    /// Factor of the head weights, `dim^-0.5 * heads^-0.5`.
    pub scale: f32,
    /// Index keys of all slots.
    pub keys: &'a Cache<D>,
    /// `[n]` first key row of the row's slot, [`crate::NONE`] for a row that is not live (selects nothing).
    pub base: &'a D::Buf<u32>,
    /// `[n]` reachable keys.
    pub count: &'a D::Buf<u32>,
    /// Keys to select.
    pub top_k: usize,
    /// Candidate blocks.
    pub candidates: Candidates<'a, D>,
    /// `[n, top_k]` key numbers relative to `base`, ascending, [`crate::NONE`] at the end.
    /// Score of key j: `sum_h max(q_h . k_j, 0) * gate_h * scale`; ties to the lower key.
    pub out: &'a D::Buf<u32>,
}

/// Selected compressed rows as attention keys.
pub struct Selected<'a, D: Device> {
    /// Compressed rows of all slots.
    pub cache: &'a Cache<D>,
    /// `[n]` first row of the row's slot.
    pub base: &'a D::Buf<u32>,
    /// `[n, top_k]` as [`IndexSelect::out`] gives it.
    pub list: &'a D::Buf<u32>,
    /// Width of the list.
    pub top_k: usize,
}

/// Arguments of [`Device::attention`]: one key-value head shared by all query heads, values = keys.
///
/// `o = sum_j exp(s_j - m) k_j / (sum_j exp(s_j - m) + exp(sink - m))`, `s_j = scale * q . k_j`, over window
/// positions `lo..hi` ascending, then selected rows in list order. No keys at all: `o = 0`.
pub struct Attention<'a, D: Device> {
    /// `[n, heads * window.width]`, rotated.
    pub q: View<'a, D>,
    /// Number of query heads.
    pub heads: usize,
    /// Factor of the scores, `width^-0.5`.
    pub scale: f32,
    /// `[heads]` sink logits, unscaled.
    pub sink: &'a D::Buf<f32>,
    /// Window rows of all slots; position `p` of a slot is row `base + p % ring`.
    pub window: &'a Cache<D>,
    /// `[n]` first window row of the row's slot, [`crate::NONE`] for a row that is not live (output 0).
    pub base: &'a D::Buf<u32>,
    /// Window rows a slot.
    pub ring: usize,
    /// `[n]` first visible window position.
    pub lo: &'a D::Buf<u32>,
    /// `[n]` one past the last visible window position.
    pub hi: &'a D::Buf<u32>,
    /// Compressed rows beside the window.
    pub selected: Option<Selected<'a, D>>,
    /// `[n, heads * window.width]`.
    pub out: View<'a, D>,
}

/// Arguments of [`Device::route`].
pub struct Route<'a, D: Device> {
    /// `[n, experts]` router logits.
    pub logits: View<'a, D>,
    /// `[experts]` added to the affinities for the choice only.
    pub bias: &'a D::Buf<f32>,
    /// Experts a row.
    pub top_k: usize,
    /// Whether the chosen affinities are divided by their sum + 1e-20.
    pub normalize: bool,
    /// Factor of the weights.
    pub scale: f32,
    /// `[n, top_k]` chosen experts, ascending. Affinity `sqrt(softplus(logit))`; ties to the lower expert.
    pub experts: &'a D::Buf<u32>,
    /// `[n, top_k]` weights in the same order.
    pub weights: &'a D::Buf<f32>,
}

/// Arguments of [`Device::moe`].
pub struct Moe<'a, D: Device> {
    /// `[n, d]`.
    pub x: View<'a, D>,
    /// `[n, top_k]` as [`Route`] gives them.
    pub experts: &'a D::Buf<u32>,
    /// `[n, top_k]`.
    pub weights: &'a D::Buf<f32>,
    /// Experts a row.
    pub top_k: usize,
    /// The routed experts.
    pub routed: &'a D::Experts,
    /// The shared expert: w1 and w3 `[inner, d]`, w2 `[d, inner]`.
    pub shared: &'a [D::Linear; 3],
    /// `g = min(w1 x, limit)`, `u = clamp(w3 x, -limit, limit)`; 0: no limit.
    pub limit: f32,
    /// At least [`Device::moe_scratch`] values.
    pub scratch: &'a D::Buf<f32>,
    /// `[n, d]`: `sum over routed, ascending expert, of w2(weight * silu(g) * u)`, plus the shared expert's `w2(silu(g) * u)`.
    pub out: View<'a, D>,
}

/// A device that runs the model's operations.
///
/// Operations are enqueued and run in order; an error may be reported by a later call, at the latest by
/// [`Device::read`]. Argument sizes are checked when the operation is enqueued ([`crate::DeviceError::Shape`]).
/// `n` never exceeds the `max_rows` the device was made for.
pub trait Device: Sized + Send + Sync + 'static {
    /// Device memory.
    type Buf<T: Element>: Buffer;
    /// A packed linear weight.
    type Linear: Send + Sync + 'static;
    /// A packed bf16 table `[rows, width]` that rows are gathered from.
    type Table: Send + Sync + 'static;
    /// The packed routed experts of one layer.
    type Experts: Send + Sync + 'static;
    /// A recorded sequence of operations.
    type Program: Send + 'static;

    /// What a user reads: kind, path and threads, such as `cpu (avx512, 2 threads)`.
    fn name(&self) -> String;

    /// Rows of one launch beyond which a launch is dearer by a step (pricing joins no cost across it).
    fn launch_bound(&self) -> usize;

    /// Allocates `len` zeroed elements.
    fn alloc<T: Element>(&self, len: usize) -> Result<Self::Buf<T>>;

    /// Enqueues a copy of `src` to `dst[at..]`; `src` is taken over before the call returns.
    fn write<T: Element>(&mut self, dst: &Self::Buf<T>, at: usize, src: &[T]) -> Result<()>;

    /// Waits for everything enqueued and copies `src[at..at + out.len()]` to `out`.
    fn read<T: Element>(&mut self, src: &Self::Buf<T>, at: usize, out: &mut [T]) -> Result<()>;

    /// Packs a linear weight. May be called from several threads at once.
    fn linear_weight(&self, data: LinearData<'_>) -> Result<Self::Linear>;

    /// Packs a bf16 table (little-endian bytes, `2 * rows * width`).
    fn table(&self, rows: usize, width: usize, bf16: &[u8]) -> Result<Self::Table>;

    /// Joins packed experts `[w1, w3, w2]` into one layer's routed experts, in expert order.
    fn experts(&self, list: Vec<[Self::Linear; 3]>) -> Result<Self::Experts>;

    /// Runs `body` once, keeping what it enqueues (everything but `write` and `read`, which it must not call).
    /// The operations are kept, not run: each [`Device::replay`] runs them.
    fn record(&mut self, body: impl FnOnce(&mut Self) -> Result<()>) -> Result<Self::Program>;

    /// Enqueues a recorded sequence, with whatever its buffers hold by then.
    fn replay(&mut self, program: &Self::Program) -> Result<()>;

    /// `out[r, c * width + d] = table[ids[r], d]` for `c < copies`; an id past the table is an error at enqueue
    /// or read. `out` is `[n, copies * width]`.
    fn gather(
        &mut self,
        n: usize,
        table: &Self::Table,
        ids: &Self::Buf<u32>,
        copies: usize,
        out: View<'_, Self>,
    ) -> Result<()>;

    /// `y[r] = W x[r]`. `x` is `[n, groups * cols]`, `y` `[n, rows]`.
    fn linear(&mut self, n: usize, x: View<'_, Self>, w: &Self::Linear, y: View<'_, Self>) -> Result<()>;

    /// `y[r, d] = x[r, d] * (mean(x[r]^2) + eps)^-0.5 * weight[d]`. `x` and `y` may be the same view.
    fn rms_norm(
        &mut self,
        n: usize,
        x: View<'_, Self>,
        weight: &Self::Buf<f32>,
        eps: f32,
        y: View<'_, Self>,
    ) -> Result<()>;

    /// `y[r] = x[index[r]]`; a [`crate::NONE`] row gives zeros. `x` holds at least as many rows as its buffer allows.
    fn select_rows(
        &mut self,
        n: usize,
        x: View<'_, Self>,
        index: &Self::Buf<u32>,
        y: View<'_, Self>,
    ) -> Result<()>;

    /// `y += x`, both `[n, width]`.
    fn add(&mut self, n: usize, x: View<'_, Self>, y: View<'_, Self>) -> Result<()>;

    /// The hyper-connection mixes of streams `h` `[n, s * d]` into `out` `[n, 2s + s*s]` = pre, post, comb
    /// (row-major, old stream first): `m = (h . fn^T) * (mean(h^2) + norm_eps)^-0.5`, then
    /// `pre = sigmoid(m scale[0] + base) + eps`, `post = 2 sigmoid(m scale[1] + base)`, and comb from
    /// `c = m scale[2] + base`: softmax over each row, `+ eps`, columns divided by their sum `+ eps`, then `iters - 1`
    /// times rows and columns divided so. `mix` is `[2s + s*s, s * d]`, `base` `[2s + s*s]`, `scale` `[3]`.
    #[allow(clippy::too_many_arguments, reason = "the operation's own parameters")]
    fn hc_mix(
        &mut self,
        n: usize,
        h: View<'_, Self>,
        mix: &Self::Linear,
        base: &Self::Buf<f32>,
        scale: &Self::Buf<f32>,
        iters: usize,
        eps: f32,
        norm_eps: f32,
        out: View<'_, Self>,
    ) -> Result<()>;

    /// `x[r, d] = sum_s pre[r, s] * h[r, s*width + d]`, then RMSNorm with weight and epsilon if given.
    /// `pre` is `[n, s]`, `x` `[n, width]`.
    fn hc_collapse(
        &mut self,
        n: usize,
        h: View<'_, Self>,
        pre: View<'_, Self>,
        norm: Option<(&Self::Buf<f32>, f32)>,
        x: View<'_, Self>,
    ) -> Result<()>;

    /// In place: `h'[j] = post[j] * b + sum_i comb[i, j] * h[i]`. `b` is `[n, d]`, `post` `[n, s]`, `comb` `[n, s*s]`.
    fn hc_expand(
        &mut self,
        n: usize,
        b: View<'_, Self>,
        post: View<'_, Self>,
        comb: View<'_, Self>,
        h: View<'_, Self>,
    ) -> Result<()>;

    /// `x[r, d] = mean over streams of h[r, s*width + d]`.
    fn hc_mean(&mut self, n: usize, h: View<'_, Self>, x: View<'_, Self>) -> Result<()>;

    /// In place on `x` `[n, heads * dim]`: rotates the last `rope_dims` values of each head by adjacent pairs
    /// (`e' = e cos - o sin`, `o' = e sin + o cos`; `inverse` negates sin), then passes each head through `round_trip`.
    /// `angles` is `[n, rope_dims]`: cosines, then sines.
    #[allow(clippy::too_many_arguments, reason = "the operation's own parameters")]
    fn rope(
        &mut self,
        n: usize,
        x: View<'_, Self>,
        heads: usize,
        angles: &Self::Buf<f32>,
        rope_dims: usize,
        inverse: bool,
        round_trip: CacheFormat,
    ) -> Result<()>;

    /// Norm, rotation and storage of cache rows.
    fn cache_store(&mut self, n: usize, args: CacheStore<'_, Self>) -> Result<()>;

    /// Gated pooling of token pairs.
    fn pair_pool(&mut self, n: usize, args: PairPool<'_, Self>) -> Result<()>;

    /// Selection of the compressed rows that a query attends to.
    fn index_select(&mut self, n: usize, args: IndexSelect<'_, Self>) -> Result<()>;

    /// Attention over the sliding window and the selected compressed rows.
    fn attention(&mut self, n: usize, args: Attention<'_, Self>) -> Result<()>;

    /// Choice of routed experts.
    fn route(&mut self, n: usize, args: Route<'_, Self>) -> Result<()>;

    /// f32 values that [`Device::moe`] needs for `n` rows.
    fn moe_scratch(&self, n: usize, top_k: usize, width: usize, inner: usize) -> usize;

    /// Routed and shared experts.
    fn moe(&mut self, n: usize, args: Moe<'_, Self>) -> Result<()>;

    /// In place on `h` `[n, s * d]`: `kv` is `[n, (s + 1) * d]` = s keys, then the value; `qk` `[s * d]` the
    /// product of the trained q and k weights. Per stream `dot = sum_d h_d qk_d key_d * (mean(h^2) + eps)^-0.5 *
    /// (mean(key^2) + eps)^-0.5 * d^-0.5`; `h += sigmoid(sign(dot) sqrt(max(|dot|, 1e-6))) * value`.
    fn engram_gate(
        &mut self,
        n: usize,
        kv: View<'_, Self>,
        qk: &Self::Buf<f32>,
        eps: f32,
        h: View<'_, Self>,
    ) -> Result<()>;
}
