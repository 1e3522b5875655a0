//! Selection of compressed rows.

use super::Tolerance;
use super::case::{Case, Check, Io, Memory, POOL, Plane};
use super::random::Random;
use super::rig::check;
use crate::{Cache, CacheFormat, Candidates, Device, IndexSelect, NONE, Result};

/// What a case does with candidate blocks.
#[derive(Debug, Clone, PartialEq)]
enum Blocks {
    Ignored,
    Written { block: usize, top: usize, words: usize },
    Read { block: usize, words: usize, mask: Vec<u32> },
}

struct Select {
    q: Vec<f32>,
    gate: Vec<f32>,
    scale: f32,
    heads: usize,
    dim: usize,
    format: CacheFormat,
    keys: Vec<u8>,
    base: Vec<u32>,
    count: Vec<u32>,
    top_k: usize,
    blocks: Blocks,
    tolerance: f32,
}

/// Sizes of a case.
struct Sizes {
    heads: usize,
    dim: usize,
    format: CacheFormat,
    /// Keys of each of two slots.
    keys: usize,
    top_k: usize,
}

impl Select {
    fn random(random: &mut Random, sizes: Sizes, blocks: Blocks, tolerance: Tolerance) -> Self {
        let Sizes { heads, dim, format, keys: slot, top_k } = sizes;
        let rows = 2 * slot + 9;
        let size = format.row_bytes(dim);
        let mut keys = vec![0; rows * size];
        for row in 0..rows {
            if row % 6 == 5 {
                // Equal keys make ties.
                keys.copy_within((row - 4) * size..(row - 3) * size, row * size);
            } else {
                format.encode(&random.reals(dim), &mut keys[row * size..][..size]);
            }
        }
        let mut q = random.reals(POOL * heads * dim);
        // All scores of this row are zero.
        q[5 * heads * dim..6 * heads * dim].fill(0.0);
        q.chunks_exact_mut(dim).for_each(|head| CacheFormat::Fp4Group32.round_trip(head));
        let count = (0..POOL).map(|r| match r {
            0 => 0,
            1 => 1,
            2 => top_k,
            3 => top_k - 1,
            4..=7 => slot,
            _ => random.below(slot + 1),
        } as u32);
        let count = count.collect();
        let base = (0..POOL).map(|r| match r % 9 {
            8 => NONE,
            r if r % 2 == 0 => 3,
            _ => (slot + 7) as u32,
        });
        Self {
            q,
            gate: random.reals(POOL * heads),
            scale: 1.0 / ((dim * heads) as f32).sqrt(),
            heads,
            dim,
            format,
            keys,
            base: base.collect(),
            count,
            top_k,
            blocks,
            tolerance: tolerance.float,
        }
    }

    fn key(&self, row: usize, j: usize) -> &[u8] {
        let size = self.format.row_bytes(self.dim);
        &self.keys[(self.base[row] as usize + j) * size..][..size]
    }

    /// Scores of a row's reachable keys, and how far a device may be off.
    fn scores(&self, row: usize) -> (Vec<f64>, f64) {
        let mut scores = Vec::new();
        let mut slack = 0.0f64;
        for j in 0..self.count[row] as usize {
            let mut key = vec![0.0; self.dim];
            self.format.decode(self.key(row, j), &mut key);
            let (mut score, mut size) = (0.0, 0.0);
            for h in 0..self.heads {
                let q = &self.q[(row * self.heads + h) * self.dim..][..self.dim];
                let gate = f64::from(self.gate[row * self.heads + h]) * f64::from(self.scale);
                let terms = || q.iter().zip(&key).map(|(&q, &k)| f64::from(q) * f64::from(k));
                score += terms().sum::<f64>().max(0.0) * gate;
                size += terms().map(f64::abs).sum::<f64>() * gate.abs();
            }
            slack = slack.max(size * f64::from(self.tolerance));
            scores.push(score);
        }
        (scores, slack)
    }

    /// Asserts that `chosen` are the best `k` of `eligible` up to `slack`, and ties of `tied` pairs low.
    fn assert_best(
        &self,
        what: &str,
        chosen: &[usize],
        eligible: &[usize],
        k: usize,
        (scores, slack): (&[f64], f64),
        tied: impl Fn(usize, usize) -> bool,
    ) {
        assert_eq!(chosen.len(), k.min(eligible.len()), "{what}: number chosen of {}", eligible.len());
        assert!(chosen.is_sorted_by(|a, b| a < b), "{what}: not ascending: {chosen:?}");
        assert!(chosen.iter().all(|j| eligible.contains(j)), "{what}: not eligible: {chosen:?}");
        let worst = chosen.iter().map(|&j| scores[j]).fold(f64::INFINITY, f64::min);
        for &other in eligible.iter().filter(|j| !chosen.contains(j)) {
            assert!(
                scores[other] <= worst + 2.0 * slack,
                "{what}: {other} of score {} left out, worst chosen {worst}",
                scores[other]
            );
            for &j in chosen.iter().filter(|&&j| j > other) {
                assert!(!tied(other, j), "{what}: {j} chosen before {other} of the same score");
            }
        }
    }

    fn verify_mask(&self, row: usize, mask: &[u32], block: usize, top: usize) {
        let (scores, slack) = self.scores(row);
        let best: Vec<f64> =
            scores.chunks(block).map(|c| c.iter().copied().fold(f64::NEG_INFINITY, f64::max)).collect();
        let kept: Vec<usize> = (0..mask.len() * 32).filter(|b| mask[b / 32] >> (b % 32) & 1 == 1).collect();
        let what = format!("{}: blocks of row {row}", self.name());
        let Some(newest) = best.len().checked_sub(1) else {
            assert!(kept.is_empty(), "{what}: {kept:?} kept, none reachable");
            return;
        };
        assert!(kept.contains(&newest), "{what}: newest block {newest} not kept: {kept:?}");
        let others: Vec<usize> = kept.into_iter().filter(|&b| b != newest).collect();
        let eligible: Vec<usize> = (0..newest).collect();
        self.assert_best(&what, &others, &eligible, top - 1, (&best, slack), |_, _| slack == 0.0);
    }
}

impl Case for Select {
    type Fixed<D: Device> = Cache<D>;

    fn name(&self) -> String {
        let Self { heads, dim, format, top_k, .. } = self;
        let blocks = match &self.blocks {
            Blocks::Ignored => "all blocks".to_owned(),
            Blocks::Written { block, top, .. } => format!("best {top} blocks of {block} written"),
            Blocks::Read { block, .. } => format!("blocks of {block} read"),
        };
        format!("index_select {top_k} by {heads} heads of {dim}, {format:?}, {blocks}")
    }

    fn planes(&self) -> Vec<Plane> {
        let mut planes = vec![
            Plane::view("q", self.heads * self.dim, &self.q),
            Plane::view("gate", self.heads, &self.gate),
            Plane::index("base", 1, &self.base),
            Plane::index("count", 1, &self.count),
            Plane::output("out", self.top_k, Memory::Index, Check::Verified),
        ];
        match &self.blocks {
            Blocks::Ignored => {}
            Blocks::Written { words, .. } => {
                planes.push(Plane::output("mask", *words, Memory::Index, Check::Verified));
            }
            Blocks::Read { words, mask, .. } => planes.push(Plane::index("mask", *words, mask)),
        }
        planes
    }

    fn fix<D: Device>(&self, device: &mut D) -> Result<Cache<D>> {
        let rows = self.keys.len() / self.format.row_bytes(self.dim);
        let cache = Cache::new(device, self.format, self.dim, rows)?;
        device.write(&cache.bytes, 0, &self.keys)?;
        Ok(cache)
    }

    fn enqueue<D: Device>(&self, device: &mut D, n: usize, io: &Io<D>, keys: &Cache<D>) -> Result<()> {
        let candidates = match self.blocks {
            Blocks::Ignored => Candidates::None,
            Blocks::Written { block, top, words } => {
                Candidates::Write { block, top, mask: io.index("mask"), words }
            }
            Blocks::Read { block, words, .. } => Candidates::Read { block, mask: io.index("mask"), words },
        };
        let args = IndexSelect {
            q: io.view("q"),
            gate: io.view("gate"),
            scale: self.scale,
            keys,
            base: io.index("base"),
            count: io.index("count"),
            top_k: self.top_k,
            candidates,
            out: io.index("out"),
        };
        device.index_select(n, args)
    }

    fn verify(&self, row: usize, outputs: &[Vec<u32>]) {
        let what = format!("{}: row {row}", self.name());
        let list = &outputs[0];
        if self.base[row] == NONE {
            assert!(list.iter().all(|&j| j == NONE), "{what} is not live: {list:?}");
            return;
        }
        let end = list.iter().position(|&j| j == NONE).unwrap_or(list.len());
        assert!(list[end..].iter().all(|&j| j == NONE), "{what}: keys after the end: {list:?}");
        let chosen: Vec<usize> = list[..end].iter().map(|&j| j as usize).collect();
        let reachable = 0..self.count[row] as usize;
        let eligible: Vec<usize> = match &self.blocks {
            Blocks::Read { block, words, mask } => {
                let mask = &mask[row * words..][..*words];
                reachable.filter(|j| mask[j / block / 32] >> (j / block % 32) & 1 == 1).collect()
            }
            _ => reachable.collect(),
        };
        let (scores, slack) = self.scores(row);
        let tied = |a, b| slack == 0.0 || self.key(row, a) == self.key(row, b);
        self.assert_best(&what, &chosen, &eligible, self.top_k, (&scores, slack), tied);
        if let Blocks::Written { block, top, .. } = self.blocks {
            self.verify_mask(row, &outputs[1], block, top);
        }
    }
}

/// [`Device::index_select`] over all keys: none, few and many reachable, rows that are not live, ties.
pub fn index_select<D: Device>(make: &impl Fn(usize) -> D, tolerance: Tolerance) {
    let mut random = Random::new(17);
    for sizes in [
        Sizes { heads: 8, dim: 64, format: CacheFormat::Fp4Group32, keys: 150, top_k: 16 },
        Sizes { heads: 3, dim: 128, format: CacheFormat::F32, keys: 70, top_k: 5 },
        Sizes { heads: 4, dim: 64, format: CacheFormat::Fp4Group32, keys: 400, top_k: 256 },
    ] {
        check(make, &Select::random(&mut random, sizes, Blocks::Ignored, tolerance));
    }
}

/// [`Device::index_select`] that writes candidate blocks, and that reads them.
pub fn index_select_candidates<D: Device>(make: &impl Fn(usize) -> D, tolerance: Tolerance) {
    let mut random = Random::new(18);
    let sizes = |keys| Sizes { heads: 8, dim: 64, format: CacheFormat::Fp4Group32, keys, top_k: 16 };
    for (keys, block, top, words) in [(150, 4, 6, 3), (270, 8, 64, 2), (90, 8, 1, 1)] {
        let written = Blocks::Written { block, top, words };
        check(make, &Select::random(&mut random, sizes(keys), written, tolerance));
    }
    for (keys, block, words) in [(150, 4, 3), (270, 8, 2)] {
        let mask = (0..POOL * words).map(|_| random.below(1 << 32) as u32).collect();
        check(
            make,
            &Select::random(&mut random, sizes(keys), Blocks::Read { block, words, mask }, tolerance),
        );
    }
}
