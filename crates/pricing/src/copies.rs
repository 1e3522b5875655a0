//! How often drafts copied from a stream's own tokens are kept.

const DECAY: f64 = 0.85;
const PRIOR_WEIGHT: f64 = 2.0;
const MISSES_BEFORE_SILENCE: usize = 4;
const SILENT_ROUNDS: usize = 16;

/// A range of match lengths whose copies are judged together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Band {
    /// Matches of fewer than 8 tokens.
    From0,
    /// Matches of 8..=15 tokens.
    From8,
    /// Matches of 16..=31 tokens.
    From16,
    /// Matches of 32 tokens and more.
    From32,
}

impl Band {
    /// The band of a match of `matched` tokens.
    pub fn of(matched: usize) -> Self {
        match matched {
            0..8 => Self::From0,
            8..16 => Self::From8,
            16..32 => Self::From16,
            _ => Self::From32,
        }
    }

    /// The probability that a copied draft is kept, before any evidence.
    pub fn prior(self) -> f64 {
        match self {
            Self::From0 => 0.45,
            Self::From8 => 0.7,
            Self::From16 => 0.8,
            Self::From32 => 0.9,
        }
    }
}

/// Evidence about one stream's copies.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CopyRecord {
    bands: [Evidence; 4],
    misses: usize,
    silent: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Evidence {
    kept: f64,
    tries: f64,
}

impl CopyRecord {
    /// The probability that each copied draft is kept once those before it are: `(kept + 2*prior) / (tries + 2)`.
    pub fn probability(&self, band: Band) -> f64 {
        let e = self.bands[band as usize];
        (e.kept + PRIOR_WEIGHT * band.prior()) / (e.tries + PRIOR_WEIGHT)
    }

    /// Whether copies are left out, after keeping nothing four times in a row.
    pub fn is_silent(&self) -> bool {
        self.silent > 0
    }

    /// Learns from a round that verified `depth` copied drafts and kept `kept` of them.
    pub fn record(&mut self, band: Band, depth: usize, kept: usize) {
        let e = &mut self.bands[band as usize];
        e.kept = e.kept * DECAY + kept as f64;
        e.tries = e.tries * DECAY + depth.min(kept + 1) as f64;
        self.misses = if kept == 0 { self.misses + 1 } else { 0 };
        if self.misses == MISSES_BEFORE_SILENCE {
            self.misses = 0;
            self.silent = SILENT_ROUNDS;
        }
    }

    /// Passes a round that copied nothing.
    pub fn pass(&mut self) {
        self.silent = self.silent.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(0, Band::From0, 0.45)]
    #[case(7, Band::From0, 0.45)]
    #[case(8, Band::From8, 0.7)]
    #[case(15, Band::From8, 0.7)]
    #[case(16, Band::From16, 0.8)]
    #[case(31, Band::From16, 0.8)]
    #[case(32, Band::From32, 0.9)]
    #[case(64, Band::From32, 0.9)]
    fn bands_and_priors(#[case] matched: usize, #[case] band: Band, #[case] prior: f64) {
        assert_eq!(Band::of(matched), band);
        assert_eq!(CopyRecord::default().probability(band), prior);
    }

    #[test]
    fn evidence_decays_a_round_and_stays_in_its_band() {
        let mut r = CopyRecord::default();
        r.record(Band::From8, 4, 4);
        r.record(Band::From8, 4, 1);
        let (kept, tries) = (4.0 * 0.85 + 1.0, 4.0 * 0.85 + 2.0);
        assert_eq!(r.probability(Band::From8), (kept + 1.4) / (tries + 2.0));
        assert_eq!(r.probability(Band::From16), 0.8);
    }

    #[test]
    fn four_empty_copies_in_a_row_silence_sixteen_rounds() {
        let mut r = CopyRecord::default();
        for kept in [0, 0, 0, 1, 0, 0, 0] {
            r.record(Band::From0, 2, kept);
            assert!(!r.is_silent());
        }
        r.record(Band::From0, 2, 0);
        for _ in 0..16 {
            assert!(r.is_silent());
            r.pass();
        }
        assert!(!r.is_silent());
        r.record(Band::From0, 2, 0);
        assert!(!r.is_silent());
    }
}
