//! Pseudo-random inputs that are the same on every machine.

use crate::{LinearData, Matrix};

/// A splitmix64 sequence.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// A value of about unit variance, between -3 and 3.
    pub(super) fn real(&mut self) -> f32 {
        (0..3).map(|_| (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0).sum()
    }

    /// `len` values of [`Random::real`].
    pub(super) fn reals(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.real()).collect()
    }

    /// `len` cosines, then as many sines, `rows` times.
    pub(super) fn angles(&mut self, rows: usize, len: usize) -> Vec<f32> {
        let mut values = Vec::with_capacity(rows * 2 * len);
        for _ in 0..rows {
            let angles = self.reals(len);
            values.extend(angles.iter().map(|&a| libm::cosf(a)));
            values.extend(angles.iter().map(|&a| libm::sinf(a)));
        }
        values
    }

    /// Places `0..len` in random order.
    pub(super) fn order(&mut self, len: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..len).collect();
        for i in (1..len).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }

    /// `count` different numbers below `bound`, ascending.
    pub(super) fn subset(&mut self, bound: usize, count: usize) -> Vec<u32> {
        let mut chosen: Vec<u32> = self.order(bound)[..count].iter().map(|&i| i as u32).collect();
        chosen.sort_unstable();
        chosen
    }
}

/// How a weight is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Fp4,
    Fp8,
    Bf16,
    F32,
}

/// A stored weight of random values of about `1 / sqrt(cols)`.
pub(super) struct Stored {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) groups: usize,
    pub(super) kind: Kind,
    codes: Vec<u8>,
    scales: Vec<u8>,
}

impl Stored {
    pub(super) fn new(random: &mut Random, kind: Kind, rows: usize, cols: usize, groups: usize) -> Self {
        let len = rows * cols;
        let size = 1.0 / (cols as f32).sqrt();
        // E8M0 bytes near the wanted size over that of a typical code, the smallest byte among them.
        let mut scales = |count: usize, code: f32| -> Vec<u8> {
            let byte = 127 + (size / code).log2().floor() as i32;
            (0..count)
                .map(|i| if i % 29 == 7 { 0 } else { (byte + random.below(3) as i32 - 1) as u8 })
                .collect()
        };
        let scales = match kind {
            Kind::Fp4 => scales(len / 32, 2.0),
            Kind::Fp8 => scales(rows.div_ceil(32) * (cols / 32), 8.0),
            Kind::Bf16 | Kind::F32 => Vec::new(),
        };
        let codes = match kind {
            Kind::Fp4 => (0..len / 2).map(|_| random.below(256) as u8).collect(),
            // Magnitudes up to 30, so that one code does not outweigh all others.
            Kind::Fp8 => (0..len).map(|_| (random.below(0x60) | random.below(2) << 7) as u8).collect(),
            Kind::Bf16 => {
                (0..len).flat_map(|_| half::bf16::from_f32(random.real() * size).to_le_bytes()).collect()
            }
            Kind::F32 => (0..len).flat_map(|_| (random.real() * size).to_le_bytes()).collect(),
        };
        Self { rows, cols, groups, kind, codes, scales }
    }

    pub(super) fn data(&self) -> LinearData<'_> {
        let (codes, scales) = (&*self.codes, &*self.scales);
        let values = match self.kind {
            Kind::Fp4 => Matrix::Fp4 { codes, scales },
            Kind::Fp8 => Matrix::Fp8 { codes, scales },
            Kind::Bf16 => Matrix::Bf16(codes),
            Kind::F32 => Matrix::F32(codes),
        };
        LinearData { rows: self.rows, cols: self.cols, groups: self.groups, values }
    }
}
