//! Attention over window and compressed rows.

use super::Tolerance;
use super::case::{Case, Check, Io, Memory, POOL, Plane};
use super::norms::upload;
use super::random::Random;
use super::rig::check;
use crate::{Attention, Cache, CacheFormat, Device, NONE, Result, Selected};

/// Slots of the caches.
const SLOTS: usize = 3;
/// Cache rows before the first slot.
const LEAD: usize = 5;

/// Sizes of a case.
struct Sizes {
    heads: usize,
    dim: usize,
    window: CacheFormat,
    /// Window rows a slot.
    ring: usize,
    /// Most window rows that a query sees.
    reach: usize,
    /// Compressed rows: format, rows a slot, width of the list.
    selected: Option<(CacheFormat, usize, usize)>,
    /// Factor of the queries, which sharpens the softmax.
    sharp: f32,
}

struct Attend {
    sizes: Sizes,
    q: Vec<f32>,
    sink: Vec<f32>,
    window: Vec<u8>,
    compressed: Vec<u8>,
    base: Vec<u32>,
    lo: Vec<u32>,
    hi: Vec<u32>,
    compressed_base: Vec<u32>,
    list: Vec<u32>,
    tolerance: f32,
}

fn cache_bytes(random: &mut Random, format: CacheFormat, width: usize, rows: usize) -> Vec<u8> {
    let size = format.row_bytes(width);
    let mut bytes = vec![0; rows * size];
    bytes.chunks_exact_mut(size).for_each(|row| format.encode(&random.reals(width), row));
    bytes
}

impl Attend {
    fn random(random: &mut Random, sizes: Sizes, tolerance: f32) -> Self {
        let Sizes { heads, dim, ring, .. } = sizes;
        let slot = |r: usize| r * 7 % SLOTS;
        let hi: Vec<u32> =
            (0..POOL).map(|r| if r == 0 { 1 } else { random.below(5 * ring) } as u32).collect();
        // Rows 3, 10, 17, ... see no window row.
        let seen: Vec<usize> =
            (0..POOL).map(|r| if r % 7 == 3 { 0 } else { 1 + random.below(sizes.reach) }).collect();
        let lo = hi.iter().zip(&seen).map(|(&hi, &seen)| hi.saturating_sub(seen as u32)).collect();
        let base = (0..POOL).map(|r| if r % 11 == 7 { NONE } else { (LEAD + slot(r) * ring) as u32 });
        let (mut compressed, mut compressed_base, mut list) = (Vec::new(), Vec::new(), Vec::new());
        if let Some((format, rows, top_k)) = sizes.selected {
            compressed = cache_bytes(random, format, dim, LEAD + SLOTS * rows);
            for r in 0..POOL {
                compressed_base.push((LEAD + slot(r) * rows) as u32);
                // Among the rows without a window, some have no list either: no keys at all.
                let count = if r % 2 == 1 && r % 5 == 0 { 0 } else { random.below(top_k + 1) };
                list.extend(random.subset(rows, count));
                list.resize((r + 1) * top_k, NONE);
            }
        }
        Self {
            q: random.reals(POOL * heads * dim).iter().map(|v| v * sizes.sharp).collect(),
            sink: random.reals(heads),
            window: cache_bytes(random, sizes.window, dim, LEAD + SLOTS * ring),
            compressed,
            base: base.collect(),
            lo,
            hi,
            compressed_base,
            list,
            tolerance,
            sizes,
        }
    }
}

/// Sinks, window rows and compressed rows on a device.
struct Held<D: Device> {
    sink: D::Buf<f32>,
    window: Cache<D>,
    compressed: Option<Cache<D>>,
}

impl Case for Attend {
    type Fixed<D: Device> = Held<D>;

    fn name(&self) -> String {
        let Sizes { heads, dim, window, ring, selected, sharp, .. } = &self.sizes;
        format!(
            "attention of {heads} heads of {dim}, {window:?} ring of {ring}, {selected:?}, queries x {sharp}"
        )
    }

    fn planes(&self) -> Vec<Plane> {
        let width = self.sizes.heads * self.sizes.dim;
        let mut planes = vec![
            Plane::view("q", width, &self.q),
            Plane::index("base", 1, &self.base),
            Plane::index("lo", 1, &self.lo),
            Plane::index("hi", 1, &self.hi),
            Plane::output("out", width, Memory::View, Check::Within(self.tolerance)),
        ];
        if let Some((_, _, top_k)) = self.sizes.selected {
            planes.push(Plane::index("selected base", 1, &self.compressed_base));
            planes.push(Plane::index("list", top_k, &self.list));
        }
        planes
    }

    fn fix<D: Device>(&self, device: &mut D) -> Result<Held<D>> {
        let dim = self.sizes.dim;
        let mut cache = |format: CacheFormat, bytes: &[u8]| {
            let cache = Cache::new(device, format, dim, bytes.len() / format.row_bytes(dim))?;
            device.write(&cache.bytes, 0, bytes)?;
            Ok(cache)
        };
        let window = cache(self.sizes.window, &self.window)?;
        let compressed = match self.sizes.selected {
            Some((format, ..)) => Some(cache(format, &self.compressed)?),
            None => None,
        };
        Ok(Held { sink: upload(device, &self.sink)?, window, compressed })
    }

    fn enqueue<D: Device>(&self, device: &mut D, n: usize, io: &Io<D>, held: &Held<D>) -> Result<()> {
        let selected = held.compressed.as_ref().zip(self.sizes.selected);
        let args = Attention {
            q: io.view("q"),
            heads: self.sizes.heads,
            scale: 1.0 / (self.sizes.dim as f32).sqrt(),
            sink: &held.sink,
            window: &held.window,
            base: io.index("base"),
            ring: self.sizes.ring,
            lo: io.index("lo"),
            hi: io.index("hi"),
            selected: selected.map(|(cache, (_, _, top_k))| Selected {
                cache,
                base: io.index("selected base"),
                list: io.index("list"),
                top_k,
            }),
            out: io.view("out"),
        };
        device.attention(n, args)
    }

    fn verify(&self, row: usize, outputs: &[Vec<u32>]) {
        let empty = self.lo[row] == self.hi[row]
            && self
                .sizes
                .selected
                .is_none_or(|(_, _, k)| self.list[row * k..][..k].iter().all(|&j| j == NONE));
        if self.base[row] == NONE || empty {
            let zero = outputs[0].iter().all(|&w| f32::from_bits(w) == 0.0);
            assert!(zero, "{}: row {row} has no keys, its output is not 0", self.name());
        }
    }
}

/// [`Device::attention`] in every cache format: rings that wrap, empty windows and lists, rows that are not live.
pub fn attention<D: Device>(make: &impl Fn(usize) -> D, tolerance: Tolerance) {
    let mut random = Random::new(19);
    let small =
        |window, selected| Sizes { heads: 8, dim: 128, window, ring: 24, reach: 20, selected, sharp: 1.0 };
    for sizes in [
        small(CacheFormat::Fp8, Some((CacheFormat::Fp4Group16, 40, 12))),
        small(CacheFormat::F32, Some((CacheFormat::F32, 40, 12))),
        small(CacheFormat::Fp8, None),
        Sizes { heads: 3, dim: 64, ring: 9, reach: 9, ..small(CacheFormat::Fp4Group32, None) },
        Sizes {
            heads: 2,
            ring: 160,
            reach: 130,
            ..small(CacheFormat::Fp8, Some((CacheFormat::Fp4Group16, 300, 256)))
        },
        // More decoded keys than a thread keeps.
        Sizes {
            heads: 6,
            dim: 512,
            ring: 160,
            reach: 130,
            ..small(CacheFormat::Fp8, Some((CacheFormat::Fp4Group16, 300, 256)))
        },
        Sizes {
            heads: 5,
            dim: 96,
            ring: 1400,
            reach: 1300,
            ..small(CacheFormat::F32, Some((CacheFormat::Fp4Group32, 64, 32)))
        },
    ] {
        check(make, &Attend::random(&mut random, sizes, tolerance.float));
    }
    // Scores beyond the range of exp; their own rounding grows with them.
    let sharp = Sizes { sharp: 60.0, ..small(CacheFormat::Fp8, Some((CacheFormat::Fp4Group16, 40, 12))) };
    check(make, &Attend::random(&mut random, sharp, 100.0 * tolerance.float));
}
