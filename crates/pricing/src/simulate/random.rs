//! Random numbers that are functions of their key.

use std::f64::consts::TAU;

/// What a number is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Use {
    /// How likely a draft is kept.
    Truth,
    /// Whether it is.
    Kept,
    /// What the head makes of it.
    Head,
    /// How long a round takes.
    Time,
}

/// Random numbers of one seed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Random {
    pub seed: u64,
}

/// The finaliser of splitmix64.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

impl Random {
    /// Even in 0..1, never 0.
    pub fn even(self, what: Use, round: u64, stream: usize, position: usize) -> f64 {
        let keys = [what as u64, round, stream as u64, position as u64];
        let golden = 0x9E37_79B9_7F4A_7C15u64;
        let key = keys.iter().fold(mix(self.seed.wrapping_add(golden)), |key, &part| {
            mix(key.wrapping_add(golden) ^ part.wrapping_mul(0xD1B5_4A32_D192_ED03))
        });
        ((key >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Normal with mean 0 and deviation 1, by Box and Muller's transform.
    pub fn normal(self, what: Use, round: u64, stream: usize, position: usize) -> f64 {
        let (a, b) = (2 * position, 2 * position + 1);
        let radius = libm::sqrt(-2.0 * libm::log(self.even(what, round, stream, a)));
        radius * libm::cos(TAU * self.even(what, round, stream, b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_depend_on_every_part_of_their_key() {
        let random = Random { seed: 1 };
        let base = random.even(Use::Kept, 5, 1, 2);
        assert_eq!(random.even(Use::Kept, 5, 1, 2), base);
        let others = [
            Random { seed: 2 }.even(Use::Kept, 5, 1, 2),
            random.even(Use::Truth, 5, 1, 2),
            random.even(Use::Kept, 6, 1, 2),
            random.even(Use::Kept, 5, 2, 1),
            random.even(Use::Kept, 5, 1, 3),
        ];
        assert!(others.iter().all(|other| *other != base));
    }

    #[test]
    fn means_and_deviations() {
        let random = Random { seed: 3 };
        let n = 20_000u64;
        let mean = |f: &dyn Fn(u64) -> f64| (0..n).map(f).sum::<f64>() / n as f64;
        assert!((mean(&|r| random.even(Use::Time, r, 0, 0)) - 0.5).abs() < 0.01);
        assert!(mean(&|r| random.normal(Use::Time, r, 0, 0)).abs() < 0.03);
        assert!((mean(&|r| random.normal(Use::Time, r, 0, 0).powi(2)) - 1.0).abs() < 0.03);
    }
}
