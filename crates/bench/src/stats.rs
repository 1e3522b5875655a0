//! Statistics of few numbers.

use serde::{Deserialize, Serialize};

/// Middle and ends of some numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The median; of an even count, the mean of the middle two.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Of `numbers`, which must be finite; none of no numbers.
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = numbers.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Some(Self { median, min, max })
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} ({:.1}-{:.1})", self.median, self.min, self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(&[], None)]
    #[case(&[2.0], Some((2.0, 2.0, 2.0)))]
    #[case(&[3.0, 1.0], Some((2.0, 1.0, 3.0)))]
    #[case(&[3.0, 1.0, 10.0], Some((3.0, 1.0, 10.0)))]
    fn medians(#[case] numbers: &[f64], #[case] expected: Option<(f64, f64, f64)>) {
        let found = Spread::of(numbers.iter().copied());
        assert_eq!(found.map(|s| (s.median, s.min, s.max)), expected);
    }
}
