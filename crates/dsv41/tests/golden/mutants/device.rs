//! The reference device with one misread operation.

use tokenfare_device::{
    Attention, Buffer, Cache, CacheFormat, CacheStore, Candidates, Device, Element, IndexSelect, LinearData,
    Moe, PairPool, Reference, Result, Route, Selected, View,
};

use super::misreading::Misreading;
use super::steps::*;

/// Width inside an expert of the tiny checkpoint.
const INNER: usize = 64;
/// Drafts of a pass.
const BLOCK: u32 = 5;
/// Positions of a full window.
const WINDOW: u32 = 16;

type Step = Box<dyn Fn(&mut Reference) -> Result<()> + Send + Sync>;

/// A recorded sequence of operations and of steps on the host between them.
pub struct Program(Vec<Step>);

/// Experts one by one beside the packed ones.
pub struct Experts {
    list: Vec<[Linear; 3]>,
    packed: <Reference as Device>::Experts,
}

/// Delegates to [`Reference`], all but what the misreading changes.
pub struct Mutated {
    device: Reference,
    misreading: Misreading,
    recording: Option<Vec<Step>>,
    /// Hyper-connection mixes so far: two a layer, the first before attention.
    mixes: usize,
    last_mix: Option<Rows>,
    /// Angles of the last rotation of queries.
    query_angles: Option<Floats>,
    /// Whether the last stored row was a compressed one.
    stored_compressed: bool,
    /// Weight and epsilon of the drafter's last norm.
    draft_norm: Option<(Floats, f32)>,
}

impl Mutated {
    pub fn new(max_rows: usize, misreading: Misreading) -> Self {
        Self {
            device: Reference::new(max_rows),
            misreading,
            recording: None,
            mixes: 0,
            last_mix: None,
            query_angles: None,
            stored_compressed: false,
            draft_norm: None,
        }
    }

    /// Of a prompt's launches the drafter's pass alone is recorded.
    fn drafting(&self) -> bool {
        self.recording.is_some()
    }

    /// Runs or records an operation.
    fn run(&mut self, op: impl FnOnce(&mut Reference) -> Result<()>) -> Result<()> {
        match &mut self.recording {
            None => op(&mut self.device),
            Some(steps) => {
                let program = self.device.record(op)?;
                steps.push(Box::new(move |device| device.replay(&program)));
                Ok(())
            }
        }
    }

    /// Runs or records a step on the host.
    fn host(&mut self, step: impl Fn(&mut Reference) -> Result<()> + Send + Sync + 'static) -> Result<()> {
        match &mut self.recording {
            None => step(&mut self.device),
            Some(steps) => {
                steps.push(Box::new(step));
                Ok(())
            }
        }
    }

    /// A copy of rows, changed by `change`.
    fn changed(&mut self, rows: Rows, change: impl Fn(&mut [f32]) + Send + Sync + 'static) -> Result<Rows> {
        let copy = Rows::new(&self.device, rows.n, rows.width)?;
        let out = copy.clone();
        self.host(move |device| {
            let mut values = rows.load(device)?;
            change(&mut values);
            out.store(device, &values)
        })?;
        Ok(copy)
    }

    /// What each row sees of the window, changed by `change` of row, first position and end.
    fn visible(
        &mut self,
        n: usize,
        (lo, hi): (&Indices, &Indices),
        change: impl Fn(u32, u32, u32) -> (u32, u32) + Send + Sync + 'static,
    ) -> Result<(Indices, Indices)> {
        let copies: (Indices, Indices) = (self.device.alloc(n)?, self.device.alloc(n)?);
        let (lo, hi, out) = (lo.clone(), hi.clone(), copies.clone());
        self.host(move |device| {
            let spans = load(device, &lo, n)?.into_iter().zip(load(device, &hi, n)?);
            let spans = spans.enumerate().map(|(row, (lo, hi))| change(row as u32, lo, hi));
            let (lo, hi): (Vec<u32>, Vec<u32>) = spans.unzip();
            device.write(&out.0, 0, &lo)?;
            device.write(&out.1, 0, &hi)
        })?;
        Ok(copies)
    }

    /// Rows, then the same values negated.
    fn opposed(&mut self, rows: Rows) -> Result<Rows> {
        let doubled = Rows::new(&self.device, rows.n, 2 * rows.width)?;
        let out = doubled.clone();
        self.host(move |device| {
            let values = rows.load(device)?;
            let negated = |row: &[f32]| [row.to_vec(), row.iter().map(|v| -v).collect()].concat();
            let values: Vec<f32> = values.chunks_exact(rows.width).flat_map(negated).collect();
            out.store(device, &values)
        })?;
        Ok(doubled)
    }
}

fn view(view: View<'_, Mutated>) -> View<'_, Reference> {
    View { buf: view.buf, at: view.at, stride: view.stride, width: view.width }
}

fn cache(cache: &Cache<Mutated>) -> Cache<Reference> {
    Cache { bytes: cache.bytes.clone(), format: cache.format, width: cache.width }
}

impl Device for Mutated {
    type Buf<T: Element> = <Reference as Device>::Buf<T>;
    type Linear = Linear;
    type Table = <Reference as Device>::Table;
    type Experts = Experts;
    type Program = Program;

    fn name(&self) -> String {
        format!("{} misreading {:?}", self.device.name(), self.misreading)
    }

    fn launch_bound(&self) -> usize {
        self.device.launch_bound()
    }

    fn alloc<T: Element>(&self, len: usize) -> Result<Self::Buf<T>> {
        self.device.alloc(len)
    }

    fn write<T: Element>(&mut self, dst: &Self::Buf<T>, at: usize, src: &[T]) -> Result<()> {
        self.device.write(dst, at, src)
    }

    fn read<T: Element>(&mut self, src: &Self::Buf<T>, at: usize, out: &mut [T]) -> Result<()> {
        self.device.read(src, at, out)
    }

    fn linear_weight(&self, data: LinearData<'_>) -> Result<Linear> {
        self.device.linear_weight(data)
    }

    fn table(&self, rows: usize, width: usize, bf16: &[u8]) -> Result<Self::Table> {
        self.device.table(rows, width, bf16)
    }

    fn experts(&self, list: Vec<[Linear; 3]>) -> Result<Experts> {
        Ok(Experts { packed: self.device.experts(list.clone())?, list })
    }

    fn record(&mut self, body: impl FnOnce(&mut Self) -> Result<()>) -> Result<Program> {
        self.recording = Some(Vec::new());
        let result = body(self);
        let steps = self.recording.take().unwrap_or_default();
        result.map(|()| Program(steps))
    }

    fn replay(&mut self, program: &Program) -> Result<()> {
        program.0.iter().try_for_each(|step| step(&mut self.device))
    }

    fn gather(
        &mut self,
        n: usize,
        table: &Self::Table,
        ids: &Indices,
        copies: usize,
        out: View<'_, Self>,
    ) -> Result<()> {
        self.run(|d| d.gather(n, table, ids, copies, view(out)))
    }

    fn linear(&mut self, n: usize, x: View<'_, Self>, w: &Linear, y: View<'_, Self>) -> Result<()> {
        // The confidence head is the one weight with one output.
        if let (Misreading::ConfidenceAfterNorm, 1, Some((norm, eps))) =
            (self.misreading, y.width, self.draft_norm.clone())
        {
            let features = self.changed(Rows::of(n, x), |_| ())?;
            let hidden = features.view().cols(0, norm.len());
            self.run(|d| d.rms_norm(n, hidden, &norm, eps, hidden))?;
            return self.run(|d| d.linear(n, features.view(), w, view(y)));
        }
        self.run(|d| d.linear(n, view(x), w, view(y)))
    }

    fn rms_norm(
        &mut self,
        n: usize,
        x: View<'_, Self>,
        weight: &Floats,
        eps: f32,
        y: View<'_, Self>,
    ) -> Result<()> {
        // The drafter's last norm alone reads rows that lie beside others.
        if x.stride > x.width {
            self.draft_norm = Some((weight.clone(), eps));
        }
        self.run(|d| d.rms_norm(n, view(x), weight, eps, view(y)))
    }

    fn select_rows(&mut self, n: usize, x: View<'_, Self>, index: &Indices, y: View<'_, Self>) -> Result<()> {
        self.run(|d| d.select_rows(n, view(x), index, view(y)))
    }

    fn add(&mut self, n: usize, x: View<'_, Self>, y: View<'_, Self>) -> Result<()> {
        self.run(|d| d.add(n, view(x), view(y)))
    }

    fn hc_mix(
        &mut self,
        n: usize,
        h: View<'_, Self>,
        mix: &Linear,
        base: &Floats,
        scale: &Floats,
        iters: usize,
        eps: f32,
        norm_eps: f32,
        out: View<'_, Self>,
    ) -> Result<()> {
        self.mixes += 1;
        self.last_mix = Some(Rows::of(n, out));
        self.run(|d| d.hc_mix(n, view(h), mix, base, scale, iters, eps, norm_eps, view(out)))
    }

    fn hc_collapse(
        &mut self,
        n: usize,
        h: View<'_, Self>,
        pre: View<'_, Self>,
        norm: Option<(&Floats, f32)>,
        x: View<'_, Self>,
    ) -> Result<()> {
        let mix = self.last_mix.clone();
        let own = mix.as_ref().map(|mix| mix.view().cols(0, pre.width));
        let before_attention = self.mixes % 2 == 1;
        let pre = match own {
            Some(own) if self.misreading == Misreading::PreMixNotDelayed && before_attention => own,
            _ => view(pre),
        };
        self.run(|d| d.hc_collapse(n, view(h), pre, norm, view(x)))
    }

    fn hc_expand(
        &mut self,
        n: usize,
        b: View<'_, Self>,
        post: View<'_, Self>,
        comb: View<'_, Self>,
        h: View<'_, Self>,
    ) -> Result<()> {
        if self.misreading != Misreading::CombTransposed {
            return self.run(|d| d.hc_expand(n, view(b), view(post), view(comb), view(h)));
        }
        let s = post.width;
        let transposed = self.changed(Rows::of(n, comb), move |rows| {
            for row in rows.chunks_exact_mut(s * s) {
                let old = row.to_vec();
                (0..s * s).for_each(|i| row[i] = old[i % s * s + i / s]);
            }
        })?;
        self.run(|d| d.hc_expand(n, view(b), view(post), transposed.view(), view(h)))
    }

    fn hc_mean(&mut self, n: usize, h: View<'_, Self>, x: View<'_, Self>) -> Result<()> {
        self.run(|d| d.hc_mean(n, view(h), view(x)))
    }

    fn rope(
        &mut self,
        n: usize,
        x: View<'_, Self>,
        heads: usize,
        angles: &Floats,
        rope_dims: usize,
        inverse: bool,
        round_trip: CacheFormat,
    ) -> Result<()> {
        if inverse && self.misreading == Misreading::NoInverseRope {
            return Ok(());
        }
        if !inverse {
            self.query_angles = Some(angles.clone());
        }
        if self.misreading == Misreading::HalfSplitRope {
            let (rows, dim) = (Rows::of(n, x), x.width / heads);
            self.host(move |device| {
                let mut values = rows.load(device)?;
                pair_halves(&mut values, dim, rope_dims);
                rows.store(device, &values)
            })?;
        }
        self.run(|d| d.rope(n, view(x), heads, angles, rope_dims, inverse, round_trip))
    }

    fn cache_store(&mut self, n: usize, args: CacheStore<'_, Self>) -> Result<()> {
        let CacheStore { x, mut norm, angles, rope_dims, cache: to, index } = args;
        // Compressed rows come without a norm, the index keys of their groups right after them.
        let compressed = norm.is_none();
        let index_key = std::mem::replace(&mut self.stored_compressed, compressed) && !compressed;
        let at_last = match self.misreading {
            Misreading::CompressedRopeAtLast => compressed,
            Misreading::IndexKeyRopeAtLast => index_key,
            _ => false,
        };
        let own = self.query_angles.clone().filter(|_| at_last);
        let angles = own.as_ref().unwrap_or(angles);
        let mut rows = Rows::of(n, x);
        if self.misreading == Misreading::HalfSplitRope {
            let width = x.width;
            rows = self.changed(rows, |_| ())?;
            if let Some((weight, eps)) = norm.take() {
                self.run(|d| d.rms_norm(n, rows.view(), weight, eps, rows.view()))?;
            }
            rows = self.changed(rows, move |values| pair_halves(values, width, rope_dims))?;
        }
        let to = cache(to);
        let args = CacheStore { x: rows.view(), norm, angles, rope_dims, cache: &to, index };
        self.run(|d| d.cache_store(n, args))
    }

    fn pair_pool(&mut self, n: usize, args: PairPool<'_, Self>) -> Result<()> {
        let PairPool { kv, gate, carry, store, first, out } = args;
        let args = PairPool { kv: view(kv), gate: view(gate), carry, store, first, out: view(out) };
        self.run(|d| d.pair_pool(n, args))
    }

    fn index_select(&mut self, n: usize, args: IndexSelect<'_, Self>) -> Result<()> {
        let IndexSelect { q, gate, scale, keys, base, count, top_k, candidates, out } = args;
        let keys = cache(keys);
        let (mut q, mut gate) = (Rows::of(n, q), Rows::of(n, gate));
        if self.misreading == Misreading::NoReluInIndex {
            // A head less its opposite: max(s, 0) - max(-s, 0) = s.
            q = self.opposed(q)?;
            gate = self.opposed(gate)?;
        }
        let candidates: Candidates<'_, Reference> = match candidates {
            Candidates::Write { block, top, mask, words } => Candidates::Write { block, top, mask, words },
            Candidates::Read { block, mask, words } if self.misreading != Misreading::CandidatesIgnored => {
                Candidates::Read { block, mask, words }
            }
            Candidates::Read { .. } | Candidates::None => Candidates::None,
        };
        let unpinned = match &candidates {
            Candidates::Write { block, top, mask, words }
                if self.misreading == Misreading::NewestNotPinned =>
            {
                let (q, gate, keys) = (q.clone(), gate.clone(), keys.clone());
                let (base, count, mask) = (base.clone(), count.clone(), (*mask).clone());
                let (block, top, words) = (*block, *top, *words);
                Some(UnpinnedBlocks { q, gate, keys, base, count, block, top, mask, words })
            }
            _ => None,
        };
        let (q, gate, keys) = (q.view(), gate.view(), &keys);
        self.run(|d| {
            d.index_select(n, IndexSelect { q, gate, scale, keys, base, count, top_k, candidates, out })
        })?;
        match unpinned {
            Some(blocks) => self.host(move |device| blocks.run(device)),
            None => Ok(()),
        }
    }

    fn attention(&mut self, n: usize, args: Attention<'_, Self>) -> Result<()> {
        let Attention { q, heads, scale, sink, window, base, ring, lo, hi, selected, out } = args;
        let span = match self.misreading {
            Misreading::WindowOneShort if !self.drafting() => {
                Some(self.visible(n, (lo, hi), |_, lo, hi| (lo + u32::from(hi - lo == WINDOW), hi))?)
            }
            Misreading::DraftWindowSlides if self.drafting() => {
                Some(self.visible(n, (lo, hi), |row, lo, hi| (lo + 1 + row % BLOCK, hi))?)
            }
            Misreading::DraftBlockCausal if self.drafting() => {
                Some(self.visible(n, (lo, hi), |row, lo, hi| (lo, hi - (BLOCK - 1 - row % BLOCK)))?)
            }
            _ => None,
        };
        let (lo, hi) = span.as_ref().map_or((lo, hi), |(lo, hi)| (lo, hi));
        let mut sinks = Rows { n: 1, buf: sink.clone(), at: 0, stride: heads, width: heads };
        if self.misreading == Misreading::SinkIgnored {
            sinks = self.changed(sinks, |values| values.fill(-1e9))?;
        }
        let window = cache(window);
        let compressed = selected.as_ref().map(|s| cache(s.cache));
        let selected = selected.zip(compressed.as_ref()).map(|(s, cache)| Selected {
            cache,
            base: s.base,
            list: s.list,
            top_k: s.top_k,
        });
        let args = Attention {
            q: view(q),
            heads,
            scale,
            sink: &sinks.buf,
            window: &window,
            base,
            ring,
            lo,
            hi,
            selected,
            out: view(out),
        };
        self.run(|d| d.attention(n, args))
    }

    fn route(&mut self, n: usize, args: Route<'_, Self>) -> Result<()> {
        let Route { logits, bias, top_k, normalize, mut scale, experts, weights } = args;
        if self.misreading == Misreading::RouteScaleMissing {
            scale = 1.0;
        }
        let args = Route { logits: view(logits), bias, top_k, normalize, scale, experts, weights };
        self.run(|d| d.route(n, args))?;
        if self.misreading != Misreading::BiasedRoutingWeights {
            return Ok(());
        }
        let (bias, experts, weights) = (bias.clone(), experts.clone(), weights.clone());
        let biased = BiasedWeights { logits: Rows::of(n, logits), bias, top_k, scale, experts, weights };
        self.host(move |device| biased.run(device))
    }

    fn moe_scratch(&self, n: usize, top_k: usize, width: usize, inner: usize) -> usize {
        self.device.moe_scratch(n, top_k, width, inner)
    }

    fn moe(&mut self, n: usize, args: Moe<'_, Self>) -> Result<()> {
        let Moe { x, experts, weights, top_k, routed, shared, limit, scratch, out } = args;
        if self.misreading == Misreading::UpClampUpperOnly {
            let clamp = UpperClamp {
                x: Rows::of(n, x),
                experts: experts.clone(),
                weights: weights.clone(),
                top_k,
                routed: routed.list.clone(),
                shared: shared.clone(),
                inner: INNER,
                limit,
                out: Rows::of(n, out),
            };
            return self.host(move |device| clamp.run(device));
        }
        let (routed, x, out) = (&routed.packed, view(x), view(out));
        self.run(|d| d.moe(n, Moe { x, experts, weights, top_k, routed, shared, limit, scratch, out }))
    }

    fn engram_gate(
        &mut self,
        n: usize,
        kv: View<'_, Self>,
        qk: &Floats,
        eps: f32,
        h: View<'_, Self>,
    ) -> Result<()> {
        let gate = match self.misreading {
            Misreading::EngramWithoutSqrt => Gate::WithoutRoot,
            Misreading::EngramJointNorm => Gate::JointNorm,
            _ => return self.run(|d| d.engram_gate(n, view(kv), qk, eps, view(h))),
        };
        let step = EngramGate { kv: Rows::of(n, kv), qk: qk.clone(), eps, h: Rows::of(n, h), gate };
        self.host(move |device| step.run(device))
    }
}
