//! Runs a case on a device and checks what every operation must keep.

use super::case::{Case, Check, Held, Io, Memory, POOL, Plane, Words};
use super::random::Random;
use crate::{Buffer, Device, Reference, Result};

/// What lies in memory that an operation must not touch, and in outputs before it ran: a NaN that no sum gives.
const UNTOUCHED: u32 = 0x7fe5_a5a5;

/// A row of a launch.
#[derive(Debug, Clone, Copy)]
enum Slot {
    /// A row of the pool.
    Row(usize),
    /// A row of the pool with NaN for every value.
    Nan(usize),
}

impl Slot {
    fn row(self) -> usize {
        match self {
            Self::Row(row) | Self::Nan(row) => row,
        }
    }
}

/// Whether views are dense or lie inside wider rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Dense,
    Strided,
}

/// The output words of one row, by plane.
type Row = Vec<Vec<u32>>;

/// A case set up on a device.
struct Rig<'c, D: Device, C: Case> {
    device: D,
    case: &'c C,
    planes: Vec<Plane>,
    io: Io<D>,
    fixed: C::Fixed<D>,
}

impl<'c, D: Device, C: Case> Rig<'c, D, C> {
    fn new(mut device: D, case: &'c C, layout: Layout) -> Result<Self> {
        let planes = case.planes();
        let mut held = Vec::new();
        for plane in &planes {
            let (at, gap) = match (plane.memory, layout) {
                (Memory::View, Layout::Strided) => (5, 7),
                _ => (0, 0),
            };
            let (width, stride) = (plane.width, plane.width + gap);
            let len = at + (POOL - 1) * stride + width;
            let words = match plane.memory {
                Memory::Index => Words::Index(device.alloc(len)?),
                Memory::View | Memory::Dense => Words::Real(device.alloc(len)?),
            };
            held.push(Held { name: plane.name, width, at, stride, words });
        }
        let fixed = case.fix(&mut device)?;
        Ok(Self { device, case, planes, io: Io { planes: held }, fixed })
    }

    /// Writes the rows of a launch; everything else in memory becomes [`UNTOUCHED`].
    fn load(&mut self, slots: &[Slot]) -> Result<()> {
        self.case.reset(&mut self.device, &self.fixed)?;
        for (plane, held) in self.planes.iter().zip(&self.io.planes) {
            let len = match &held.words {
                Words::Real(buf) => buf.len(),
                Words::Index(buf) => buf.len(),
            };
            let mut words = vec![UNTOUCHED; len];
            if !plane.words.is_empty() {
                for (r, slot) in slots.iter().enumerate() {
                    let place = &mut words[held.at + r * held.stride..][..held.width];
                    match (slot, plane.memory) {
                        (Slot::Nan(_), Memory::View | Memory::Dense) => place.fill(f32::NAN.to_bits()),
                        (slot, _) => {
                            place.copy_from_slice(&plane.words[slot.row() * held.width..][..held.width]);
                        }
                    }
                }
            }
            match &held.words {
                Words::Index(buf) => self.device.write(buf, 0, &words)?,
                Words::Real(buf) => {
                    let values: Vec<f32> = words.iter().map(|&w| f32::from_bits(w)).collect();
                    self.device.write(buf, 0, &values)?;
                }
            }
        }
        Ok(())
    }

    /// The outputs of a launch; panics if memory outside them was written.
    fn outputs(&mut self, slots: &[Slot]) -> Result<Vec<Row>> {
        let mut rows = vec![Row::new(); slots.len()];
        for (plane, held) in self.planes.iter().zip(&self.io.planes) {
            if plane.role.check().is_none() {
                continue;
            }
            let words = read_words(&mut self.device, &held.words)?;
            let mut rest = words.clone();
            for (r, row) in rows.iter_mut().enumerate() {
                let start = held.at + r * held.stride;
                row.push(words[start..start + held.width].to_vec());
                rest[start..start + held.width].fill(UNTOUCHED);
            }
            if let Some(at) = rest.iter().position(|&w| w != UNTOUCHED) {
                panic!(
                    "{}: element {at} of {} lies outside the rows but was written",
                    self.case.name(),
                    held.name
                );
            }
        }
        let pool: Vec<usize> = slots.iter().map(|slot| slot.row()).collect();
        if let Some(left) = self.case.left(&mut self.device, &self.fixed, &pool)? {
            for (row, words) in rows.iter_mut().zip(left) {
                row.push(words);
            }
        }
        Ok(rows)
    }

    fn run(&mut self, slots: &[Slot]) -> Vec<Row> {
        let run = |rig: &mut Self| {
            rig.load(slots)?;
            rig.case.enqueue(&mut rig.device, slots.len(), &rig.io, &rig.fixed)?;
            rig.outputs(slots)
        };
        run(self).unwrap_or_else(|e| panic!("{}: {e}", self.case.name()))
    }

    /// Runs `slots` and asserts that each pool row gives the bits it gave in `whole`.
    fn same_bits(&mut self, what: &str, slots: &[Slot], whole: &[Row]) {
        let rows = self.run(slots);
        self.assert_same(what, slots, &rows, whole);
    }

    fn assert_same(&self, what: &str, slots: &[Slot], rows: &[Row], whole: &[Row]) {
        for (r, (slot, row)) in slots.iter().zip(rows).enumerate() {
            if let &Slot::Row(pool) = slot
                && *row != whole[pool]
            {
                panic!(
                    "{}: {what}: row {pool} at slot {r} of {} gives other bits than in a launch of {POOL} rows",
                    self.case.name(),
                    slots.len()
                );
            }
        }
    }

    /// Replays one program with three sets of rows in its buffers.
    fn replay(&mut self, whole: &[Row]) -> Result<()> {
        let windows: Vec<Vec<Slot>> = [11, 60, 2].iter().map(|&start| consecutive(start, 5)).collect();
        self.load(&windows[0])?;
        let (case, io, fixed) = (self.case, &self.io, &self.fixed);
        let program = self.device.record(|device| case.enqueue(device, 5, io, fixed))?;
        for (plane, held) in self.planes.iter().zip(&self.io.planes) {
            if plane.role.check().is_some() && plane.words.is_empty() {
                let words = read_words(&mut self.device, &held.words)?;
                assert!(
                    words.iter().all(|&w| w == UNTOUCHED),
                    "{}: recording ran the operation",
                    case.name()
                );
            }
        }
        for slots in windows {
            self.load(&slots)?;
            self.device.replay(&program)?;
            let rows = self.outputs(&slots)?;
            self.assert_same("replayed", &slots, &rows, whole);
        }
        Ok(())
    }
}

fn read_words<D: Device>(device: &mut D, words: &Words<D>) -> Result<Vec<u32>> {
    match words {
        Words::Index(buf) => {
            let mut words = vec![0; buf.len()];
            device.read(buf, 0, &mut words)?;
            Ok(words)
        }
        Words::Real(buf) => {
            let mut values = vec![0.0; buf.len()];
            device.read(buf, 0, &mut values)?;
            Ok(super::case::bits(&values))
        }
    }
}

fn consecutive(start: usize, n: usize) -> Vec<Slot> {
    (start..start + n).map(Slot::Row).collect()
}

/// Everything that the suite asks of an operation.
pub(super) fn check<D: Device, C: Case>(make: &impl Fn(usize) -> D, case: &C) {
    let name = case.name();
    let rig = |layout| Rig::new(make(POOL), case, layout).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut rigs = [rig(Layout::Dense), rig(Layout::Strided)];
    let all = consecutive(0, POOL);
    let whole = rigs[0].run(&all);

    let mut reference = Rig::new(Reference::new(POOL), case, Layout::Dense)
        .unwrap_or_else(|e| panic!("{name}, reference: {e}"));
    let expected = reference.run(&all);
    let mut checks: Vec<Check> = rigs[0].planes.iter().filter_map(|plane| plane.role.check()).collect();
    checks.push(case.left_check());
    let typical: Vec<f64> = (0..expected[0].len())
        .map(|i| (expected.iter().map(|row| norm(&row[i]).powi(2)).sum::<f64>() / POOL as f64).sqrt())
        .collect();
    for (r, (row, expected)) in whole.iter().zip(&expected).enumerate() {
        for (i, (words, expected)) in row.iter().zip(expected).enumerate() {
            let check = match checks[i] {
                Check::WithinTypical(part) => {
                    Allowed::Error(f64::from(part) * typical[i].max(norm(expected)))
                }
                check => Allowed::new(check, expected),
            };
            check.compare(&format!("{name}: row {r}, output {i}"), words, expected);
        }
        case.verify(r, row);
    }

    let mut random = Random::new(7);
    for rig in &mut rigs {
        rig.same_bits("all rows", &all, &whole);
        for n in 1..=32 {
            rig.same_bits("fewer rows", &consecutive(n * 7 % (POOL - n), n), &whole);
        }
        for row in [0, 31, POOL - 1] {
            rig.same_bits("alone", &[Slot::Row(row)], &whole);
        }
        for n in [17, POOL] {
            let order: Vec<Slot> = random.order(POOL)[..n].iter().map(|&row| Slot::Row(row)).collect();
            rig.same_bits("another order", &order, &whole);
        }
        for (n, at) in [(2, 1), (8, 3), (32, 31), (33, 16)] {
            let mut slots: Vec<Slot> = (0..n).map(|r| Slot::Nan((r + 40) % POOL)).collect();
            slots[at] = Slot::Row(9);
            rig.same_bits("among NaN rows", &slots, &whole);
        }
        rig.replay(&whole).unwrap_or_else(|e| panic!("{name}, replay: {e}"));
    }
}

/// The norm of words as f32.
fn norm(words: &[u32]) -> f64 {
    words.iter().map(|&w| f64::from(f32::from_bits(w)).powi(2)).sum::<f64>().sqrt()
}

/// What a comparison of words lets pass.
#[derive(Clone, Copy)]
pub(super) enum Allowed {
    /// Anything.
    Any,
    /// The same bits.
    Exact,
    /// An error of at most this norm.
    Error(f64),
}

impl Allowed {
    /// What `check` lets pass for one row.
    pub(super) fn new(check: Check, expected: &[u32]) -> Self {
        match check {
            Check::Verified => Self::Any,
            Check::Exact => Self::Exact,
            Check::Within(part) | Check::WithinTypical(part) => Self::Error(f64::from(part) * norm(expected)),
        }
    }

    /// Panics where `got` is not `expected`.
    pub(super) fn compare(self, what: &str, got: &[u32], expected: &[u32]) {
        assert_eq!(got.len(), expected.len(), "{what}: words");
        match self {
            Self::Any => {}
            Self::Exact => {
                if let Some(i) = (0..got.len()).find(|&i| got[i] != expected[i]) {
                    panic!("{what}: word {i} is {:#x}, expected {:#x}", got[i], expected[i]);
                }
            }
            Self::Error(most) => {
                let value = |w: u32| f64::from(f32::from_bits(w));
                let off = got
                    .iter()
                    .zip(expected)
                    .map(|(&g, &e)| (value(g) - value(e)).powi(2))
                    .sum::<f64>()
                    .sqrt();
                // The comparison is false for a NaN, which must fail.
                let passes = off <= most;
                assert!(passes, "{what}: off by {off:e}, allowed {most:e}, norm {:e}", norm(expected));
            }
        }
    }
}
