//! How often drafts are kept, beside how often their confidences say they are.

const DECAY: f64 = 0.97;
const PRIOR: f64 = 2.0;
const FACTOR: (f64, f64) = (0.2, 3.0);
const MOST_Q: f64 = 0.995;

/// The probability a confidence logit stands for: its sigmoid, conditional on all earlier drafts being kept.
pub fn confidence(logit: f32) -> f64 {
    1.0 / (1.0 + libm::exp(-f64::from(logit)))
}

/// Decayed sums of drafts kept and of their confidences, one pair a draft position, shared by all streams.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    positions: Vec<Sums>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Sums {
    kept: f64,
    prob: f64,
}

impl Estimate {
    /// A fresh estimate for drafts of `block` positions (at least one is held).
    pub fn new(block: usize) -> Self {
        Self { positions: vec![Sums::default(); block.max(1)] }
    }

    /// Draft positions held.
    pub fn positions(&self) -> usize {
        self.positions.len()
    }

    /// What confidences at position `j` are multiplied by: `(kept + 2) / (prob + 2)` within 0.2..=3; 1 when fresh.
    /// Positions past the block use the last one.
    pub fn factor(&self, j: usize) -> f64 {
        let sums = self.positions[self.index(j)];
        ((sums.kept + PRIOR) / (sums.prob + PRIOR)).clamp(FACTOR.0, FACTOR.1)
    }

    /// The probability that each draft is kept once those before it are, at most 0.995.
    pub fn probabilities(&self, confidences: &[f64]) -> Vec<f64> {
        let q = |(j, &conf): (usize, &f64)| (conf.max(0.0) * self.factor(j)).min(MOST_Q);
        confidences.iter().enumerate().map(q).collect()
    }

    /// Learns from verified drafts: their `confidences`, and how many were kept. Positions are learnt from as far
    /// as they were reached, the first rejected one included.
    pub fn record(&mut self, confidences: &[f64], kept: usize) {
        for (j, &conf) in confidences.iter().enumerate().take(kept + 1) {
            let index = self.index(j);
            let sums = &mut self.positions[index];
            let hit = if j < kept { 1.0 } else { 0.0 };
            sums.kept = sums.kept * DECAY + hit;
            sums.prob = sums.prob * DECAY + conf.max(0.0);
        }
    }

    fn index(&self, j: usize) -> usize {
        j.min(self.positions.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_estimate_believes_confidences_up_to_the_cap() {
        let e = Estimate::new(3);
        assert_eq!(e.probabilities(&[0.5, 1.0, -0.5, f64::NAN, 0.25]), [0.5, 0.995, 0.0, 0.0, 0.25]);
    }

    #[test]
    fn positions_are_learnt_as_far_as_reached() {
        let mut e = Estimate::new(3);
        e.record(&[0.5, 0.25, 0.75], 1);
        assert_eq!(e.factor(0), 3.0 / 2.5);
        assert_eq!(e.factor(1), 2.0 / 2.25);
        assert_eq!(e.factor(2), 1.0);
        e.record(&[0.5], 0);
        assert_eq!(e.factor(0), (0.97 + 2.0) / (0.5 * 0.97 + 0.5 + 2.0));
    }

    #[test]
    fn factors_stay_within_bounds_and_later_positions_use_the_last() {
        let mut e = Estimate::new(2);
        for _ in 0..200 {
            e.record(&[0.99, 0.99], 0);
        }
        assert_eq!(e.factor(0), 0.2);
        for _ in 0..200 {
            e.record(&[0.01, 0.01, 0.01], 3);
        }
        assert_eq!((e.factor(0), e.factor(1), e.factor(7)), (3.0, 3.0, 3.0));
    }

    #[test]
    fn confidences_are_sigmoids() {
        assert_eq!(confidence(0.0), 0.5);
        assert_eq!(confidence(-1000.0), 0.0);
        assert_eq!(confidence(1000.0), 1.0);
        assert!((confidence(1.0) - 0.731_058_578_630_004_9).abs() < 1e-15);
    }
}
