//! Cache rows and the pairing of compressed tokens.

use super::Tolerance;
use super::case::{Case, Check, Io, Memory, POOL, Plane, bits};
use super::norms::upload;
use super::random::Random;
use super::rig::{Allowed, check};
use super::rope::spread;
use crate::{Buffer, Cache, CacheFormat, CacheStore, Device, NONE, PairPool, Reference, Result, View};

/// The byte that untouched cache rows hold.
const UNTOUCHED: u8 = 0xa5;

/// Rows of the cache that the cases store to.
const CACHE_ROWS: usize = 150;

/// Epsilon of the norms, above the mean square of the smallest rows.
const NORM_EPS: f32 = 1e-3;

struct Store {
    x: Vec<f32>,
    norm: Option<Vec<f32>>,
    angles: Vec<f32>,
    rope_dims: usize,
    format: CacheFormat,
    width: usize,
    index: Vec<u32>,
    check: Check,
}

impl Store {
    fn random(random: &mut Random, width: usize, rope_dims: usize, normed: bool) -> Self {
        let places = random.order(CACHE_ROWS);
        Self {
            x: spread(random, POOL, width),
            norm: normed.then(|| random.reals(width)),
            angles: random.angles(POOL, rope_dims / 2),
            rope_dims,
            format: CacheFormat::F32,
            width,
            index: (0..POOL).map(|r| if r % 11 == 4 { NONE } else { places[r] as u32 }).collect(),
            check: Check::Verified,
        }
    }

    /// A cache after a store of the first `n` rows.
    fn stored<D: Device>(&self, device: &mut D, n: usize) -> Result<Vec<u8>> {
        let (cache, norm) = self.fix(device)?;
        self.reset(device, &(cache.clone(), None))?;
        let (x, angles) = (upload(device, &self.x)?, upload(device, &self.angles)?);
        let index = device.alloc(POOL)?;
        device.write(&index, 0, &self.index)?;
        let args = CacheStore {
            x: View::dense(&x, self.width),
            norm: norm.as_ref().map(|weight| (weight, NORM_EPS)),
            angles: &angles,
            rope_dims: self.rope_dims,
            cache: &cache,
            index: &index,
        };
        device.cache_store(n, args)?;
        read_bytes(device, &cache)
    }
}

fn read_bytes<D: Device>(device: &mut D, cache: &Cache<D>) -> Result<Vec<u8>> {
    let mut bytes = vec![0; cache.bytes.len()];
    device.read(&cache.bytes, 0, &mut bytes)?;
    Ok(bytes)
}

impl Case for Store {
    type Fixed<D: Device> = (Cache<D>, Option<D::Buf<f32>>);

    fn name(&self) -> String {
        let Self { rope_dims, format, width, .. } = self;
        format!("cache_store of {width}, {format:?}, {rope_dims} rotated, norm: {}", self.norm.is_some())
    }

    fn planes(&self) -> Vec<Plane> {
        vec![
            Plane::view("x", self.width, &self.x),
            Plane::dense("angles", self.rope_dims.max(1), &widened(&self.angles, self.rope_dims)),
            Plane::index("index", 1, &self.index),
        ]
    }

    fn fix<D: Device>(&self, device: &mut D) -> Result<Self::Fixed<D>> {
        let cache = Cache::new(device, self.format, self.width, CACHE_ROWS)?;
        Ok((cache, self.norm.as_ref().map(|weight| upload(device, weight)).transpose()?))
    }

    fn reset<D: Device>(&self, device: &mut D, (cache, _): &Self::Fixed<D>) -> Result<()> {
        device.write(&cache.bytes, 0, &vec![UNTOUCHED; cache.bytes.len()])
    }

    fn enqueue<D: Device>(
        &self,
        device: &mut D,
        n: usize,
        io: &Io<D>,
        (cache, norm): &Self::Fixed<D>,
    ) -> Result<()> {
        let args = CacheStore {
            x: io.view("x"),
            norm: norm.as_ref().map(|weight| (weight, NORM_EPS)),
            angles: io.dense("angles"),
            rope_dims: self.rope_dims,
            cache,
            index: io.index("index"),
        };
        device.cache_store(n, args)
    }

    fn left<D: Device>(
        &self,
        device: &mut D,
        (cache, _): &Self::Fixed<D>,
        rows: &[usize],
    ) -> Result<Option<Vec<Vec<u32>>>> {
        let mut bytes = read_bytes(device, cache)?;
        let size = cache.format.row_bytes(cache.width);
        let mut left = Vec::new();
        for &row in rows {
            if self.index[row] == NONE {
                left.push(Vec::new());
                continue;
            }
            let place = &mut bytes[self.index[row] as usize * size..][..size];
            left.push(match self.format {
                CacheFormat::F32 => place.as_chunks().0.iter().map(|&b| u32::from_le_bytes(b)).collect(),
                _ => place.iter().map(|&b| u32::from(b)).collect(),
            });
            place.fill(UNTOUCHED);
        }
        let strays = bytes.iter().position(|&b| b != UNTOUCHED);
        assert_eq!(
            strays.map(|at| at / size),
            None,
            "{}: a cache row that no index names changed",
            self.name()
        );
        Ok(Some(left))
    }

    fn left_check(&self) -> Check {
        self.check
    }
}

/// Angles of at least one value a row, since an empty buffer is no plane.
fn widened(angles: &[f32], rope_dims: usize) -> Vec<f32> {
    if rope_dims == 0 { vec![0.0; POOL] } else { angles.to_vec() }
}

/// [`Device::cache_store`] in every format, with absent rows.
pub fn cache_store<D: Device>(make: &impl Fn(usize) -> D, tolerance: Tolerance) {
    let mut random = Random::new(12);
    for (width, rope_dims, normed) in [(128, 32, true), (64, 64, false), (96, 0, false)] {
        for format in [CacheFormat::F32, CacheFormat::Fp8, CacheFormat::Fp4Group16, CacheFormat::Fp4Group32] {
            let plain = !normed && rope_dims == 0;
            let check_row = match format {
                CacheFormat::F32 => Check::Within(tolerance.float),
                // Without a norm or a rotation there is nothing that may round otherwise.
                _ if plain => Check::Exact,
                _ => Check::Verified,
            };
            let case = Store::random(&mut random, width, rope_dims, normed);
            check(make, &Store { format, check: check_row, ..case });
        }
    }
}

/// A stored row is the scalar encoding, bit for bit, of the row that an f32 cache gets.
pub fn cache_store_is_exact<D: Device>(make: &impl Fn(usize) -> D, _tolerance: Tolerance) {
    let mut random = Random::new(13);
    for (width, rope_dims, normed) in [(128, 32, true), (128, 64, false), (64, 0, false), (512, 64, true)] {
        let mut case = Store::random(&mut random, width, rope_dims, normed);
        let mut device = make(POOL);
        let mut stored =
            |case: &Store| case.stored(&mut device, POOL).unwrap_or_else(|e| panic!("{}: {e}", case.name()));
        let plain = stored(&case);
        for format in [CacheFormat::Fp8, CacheFormat::Fp4Group16, CacheFormat::Fp4Group32] {
            case.format = format;
            let got = stored(&case);
            let size = format.row_bytes(width);
            for &row in case.index.iter().filter(|&&row| row != NONE) {
                let mut values = vec![0.0; width];
                CacheFormat::F32.decode(&plain[row as usize * 4 * width..][..4 * width], &mut values);
                let mut expected = vec![0; size];
                format.encode(&values, &mut expected);
                let got = &got[row as usize * size..][..size];
                assert_eq!(got, expected, "{}: cache row {row} of {values:?}", case.name());
            }
        }
    }
}

struct Pool {
    kv: Vec<f32>,
    gate: Vec<f32>,
    carry: Vec<f32>,
    store: Vec<u32>,
    first: Vec<u32>,
    width: usize,
    tolerance: f32,
}

impl Pool {
    /// Row `r` closes a group of carry row `POOL + r`, which an earlier launch left, and goes to carry row `r`.
    fn random(random: &mut Random, width: usize, tolerance: f32) -> Self {
        Self {
            kv: random.reals(POOL * width),
            gate: random.reals(POOL * width),
            carry: random.reals(2 * POOL * 2 * width),
            store: (0..POOL).map(|r| if r % 5 == 1 { NONE } else { r as u32 }).collect(),
            first: (0..POOL).map(|r| if r % 3 == 2 { NONE } else { (POOL + r) as u32 }).collect(),
            width,
            tolerance,
        }
    }
}

impl Case for Pool {
    type Fixed<D: Device> = D::Buf<f32>;

    fn name(&self) -> String {
        format!("pair_pool of {}", self.width)
    }

    fn planes(&self) -> Vec<Plane> {
        vec![
            Plane::view("kv", self.width, &self.kv),
            Plane::view("gate", self.width, &self.gate),
            Plane::index("store", 1, &self.store),
            Plane::index("first", 1, &self.first),
            Plane::output("out", self.width, Memory::View, Check::Within(self.tolerance)),
        ]
    }

    fn fix<D: Device>(&self, device: &mut D) -> Result<D::Buf<f32>> {
        upload(device, &self.carry)
    }

    fn reset<D: Device>(&self, device: &mut D, carry: &D::Buf<f32>) -> Result<()> {
        device.write(carry, 0, &self.carry)
    }

    fn enqueue<D: Device>(&self, device: &mut D, n: usize, io: &Io<D>, carry: &D::Buf<f32>) -> Result<()> {
        let args = PairPool {
            kv: io.view("kv"),
            gate: io.view("gate"),
            carry,
            store: io.index("store"),
            first: io.index("first"),
            out: io.view("out"),
        };
        device.pair_pool(n, args)
    }

    fn left<D: Device>(
        &self,
        device: &mut D,
        carry: &D::Buf<f32>,
        rows: &[usize],
    ) -> Result<Option<Vec<Vec<u32>>>> {
        let mut values = vec![0.0; carry.len()];
        device.read(carry, 0, &mut values)?;
        let size = 2 * self.width;
        let left = rows.iter().map(|&row| bits(&values[row * size..][..size])).collect();
        for (row, (now, before)) in values.chunks(size).zip(self.carry.chunks(size)).enumerate() {
            let named = rows.iter().any(|&r| self.store[r] == row as u32);
            assert!(named || bits(now) == bits(before), "{}: carry row {row} changed", self.name());
        }
        Ok(Some(left))
    }
}

/// [`Device::pair_pool`] of groups that an earlier launch opened.
pub fn pair_pool<D: Device>(make: &impl Fn(usize) -> D, tolerance: Tolerance) {
    let mut random = Random::new(14);
    for width in [128, 64] {
        check(make, &Pool::random(&mut random, width, tolerance.float));
    }
}

/// [`Device::pair_pool`] of groups that the launch itself opens: all rows are written before any is read.
pub fn pair_pool_within_launch<D: Device>(make: &impl Fn(usize) -> D, tolerance: Tolerance) {
    let mut case = Pool::random(&mut Random::new(15), 128, tolerance.float);
    // Even rows open a group; odd rows close it and leave their own carry row behind.
    case.store = (0..POOL as u32).collect();
    case.first = (0..POOL as u32).map(|r| if r % 2 == 1 { r - 1 } else { NONE }).collect();
    let whole = pooled(&mut make(POOL), &case, &[POOL]);
    let split = pooled(&mut make(POOL), &case, &[1, 2, 30, 63]);
    assert_eq!(bits(&whole), bits(&split), "launches of 1, 2, 30 and 63 rows against one of all");
    let expected = pooled(&mut Reference::new(POOL), &case, &[POOL]);
    for (r, (got, expected)) in whole.chunks(128).zip(expected.chunks(128)).enumerate() {
        let (got_bits, expected) = (bits(got), bits(expected));
        let allowed = Allowed::new(Check::Within(tolerance.float), &expected);
        allowed.compare(&format!("row {r}"), &got_bits, &expected);
        assert!(r % 2 == 1 || got.iter().all(|&v| v == 0.0), "row {r} closes no group");
    }
}

/// The outputs of consecutive launches of the given sizes.
fn pooled<D: Device>(device: &mut D, case: &Pool, launches: &[usize]) -> Vec<f32> {
    let mut run = || -> Result<Vec<f32>> {
        let carry = upload(device, &case.carry)?;
        let mut rows = Vec::new();
        for &n in launches {
            let start = rows.len() / case.width;
            let (kv, gate) = (upload(device, &case.kv)?, upload(device, &case.gate)?);
            let (store, first) = (device.alloc(n)?, device.alloc(n)?);
            device.write(&store, 0, &case.store[start..start + n])?;
            device.write(&first, 0, &case.first[start..start + n])?;
            let out = device.alloc(n * case.width)?;
            let args = PairPool {
                kv: View::dense(&kv, case.width).rows(start, 1),
                gate: View::dense(&gate, case.width).rows(start, 1),
                carry: &carry,
                store: &store,
                first: &first,
                out: View::dense(&out, case.width),
            };
            device.pair_pool(n, args)?;
            let mut values = vec![0.0; n * case.width];
            device.read(&out, 0, &mut values)?;
            rows.extend(values);
        }
        Ok(rows)
    };
    run().unwrap_or_else(|e| panic!("{}: {e}", case.name()))
}
