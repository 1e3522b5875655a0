//! The noise rule: what two pairs of runs say of a cell.
//!
//! The order of a comparison is base, this, this, base. A cell is *slower* only if both runs of this are under both runs of
//! base and the means differ by more than one percent; *faster* is the mirror image; everything else is *within noise*.

use serde::{Deserialize, Serialize};

/// Fewest pieces of text in a reply that is timed.
pub const FEWEST_PIECES: usize = 4;
/// Least difference of the means, as a share of base, that counts.
pub const LEAST_GAP: f64 = 0.01;
/// Ratio of the means under which a cell is listed apart.
pub const LISTED_UNDER: f64 = 0.98;

/// One run of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measured {
    /// Tokens a second.
    Speed(f64),
    /// Too few pieces of text to time.
    TooShort,
    /// It failed.
    Failed,
    /// It was not made.
    Missing,
}

impl Measured {
    /// The speed, if it has one.
    pub fn speed(self) -> Option<f64> {
        match self {
            Self::Speed(speed) => Some(speed),
            _ => None,
        }
    }
}

/// What is said of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Both runs of this beat both runs of base, and the means by more than one percent.
    Faster,
    /// The mirror image of faster.
    Slower,
    /// Neither.
    WithinNoise,
    /// A run had too few pieces of text.
    Unmeasured,
    /// A run failed.
    Failed,
    /// A run is missing.
    NotRun,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::WithinNoise => "within noise",
            Self::Unmeasured => "unmeasured",
            Self::Failed => "failed",
            Self::NotRun => "not run",
        })
    }
}

/// The four runs of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Four {
    /// First and last.
    pub base: [Measured; 2],
    /// Second and third.
    pub this: [Measured; 2],
}

impl Four {
    fn runs(&self) -> [Measured; 4] {
        [self.base[0], self.this[0], self.this[1], self.base[1]]
    }

    /// Speeds of base and of this, if all runs have one.
    fn speeds(&self) -> Option<([f64; 2], [f64; 2])> {
        let [a, b] = self.base.map(Measured::speed);
        let [c, d] = self.this.map(Measured::speed);
        Some(([a?, b?], [c?, d?]))
    }

    /// Each run of this over the run of base beside it: first over first, second over second.
    pub fn ratios(&self) -> [Option<f64>; 2] {
        [0, 1].map(|i| Some(self.this[i].speed()? / self.base[i].speed()?))
    }

    /// Mean of this over mean of base.
    pub fn mean_ratio(&self) -> Option<f64> {
        let (base, this) = self.speeds()?;
        Some((this[0] + this[1]) / (base[0] + base[1]))
    }

    /// The verdict by the noise rule. Any run without a speed leaves the cell without one.
    pub fn verdict(&self) -> Verdict {
        let has = |what| self.runs().contains(&what);
        if has(Measured::Failed) {
            return Verdict::Failed;
        }
        if has(Measured::Missing) {
            return Verdict::NotRun;
        }
        let (Some((base, this)), Some(ratio)) = (self.speeds(), self.mean_ratio()) else {
            return Verdict::Unmeasured;
        };
        let all_under = |low: [f64; 2], high: [f64; 2]| low.iter().all(|l| high.iter().all(|h| l < h));
        if all_under(this, base) && ratio < 1.0 - LEAST_GAP {
            Verdict::Slower
        } else if all_under(base, this) && ratio > 1.0 + LEAST_GAP {
            Verdict::Faster
        } else {
            Verdict::WithinNoise
        }
    }
}

/// What the hashes of a cell's runs say, from the best to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hashes {
    /// Every stream has one hash in all runs and repetitions.
    Equal,
    /// A hash is missing, so that nothing is shown.
    Missing,
    /// Two runs differ: the comparison fails.
    Unequal,
}

impl std::fmt::Display for Hashes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Equal => "equal",
            Self::Unequal => "UNEQUAL",
            Self::Missing => "missing",
        })
    }
}

/// Compares the hashes of all runs of a cell, discarded ones included: each item is one repetition, by stream.
///
/// A difference weighs more than a missing hash, and no repetition at all is missing.
pub fn hashes(reps: &[Vec<Option<&str>>]) -> Hashes {
    let mut missing = reps.is_empty();
    let streams = reps.iter().map(Vec::len).max().unwrap_or(0);
    for stream in 0..streams {
        let of_stream = reps.iter().map(|rep| rep.get(stream).copied().flatten());
        let mut known: Option<&str> = None;
        for hash in of_stream {
            match (hash, known) {
                (None, _) => missing = true,
                (Some(hash), Some(known)) if hash != known => return Hashes::Unequal,
                (Some(hash), _) => known = Some(hash),
            }
        }
    }
    if missing || streams == 0 { Hashes::Missing } else { Hashes::Equal }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Measured::{Failed, Missing, Speed, TooShort};
    use rstest::rstest;

    fn four(base: [f64; 2], this: [f64; 2]) -> Four {
        Four { base: base.map(Speed), this: this.map(Speed) }
    }

    #[rstest]
    #[case::equal([100.0, 100.0], [100.0, 100.0], Verdict::WithinNoise)]
    #[case::clearly_slower([100.0, 101.0], [90.0, 91.0], Verdict::Slower)]
    #[case::clearly_faster([90.0, 91.0], [100.0, 101.0], Verdict::Faster)]
    #[case::three_percent([100.0, 100.4], [97.0, 97.3], Verdict::Slower)]
    #[case::one_run_of_this_above([100.0, 104.0], [90.0, 101.0], Verdict::WithinNoise)]
    #[case::one_run_of_this_below([100.0, 104.0], [110.0, 103.0], Verdict::WithinNoise)]
    #[case::a_tie_is_not_under([100.0, 104.0], [90.0, 100.0], Verdict::WithinNoise)]
    #[case::a_tie_is_not_above([100.0, 104.0], [104.0, 120.0], Verdict::WithinNoise)]
    #[case::under_both_by_less_than_a_percent([100.0, 100.0], [99.5, 99.2], Verdict::WithinNoise)]
    #[case::under_both_by_a_percent([100.0, 100.0], [99.0, 99.0], Verdict::WithinNoise)]
    #[case::under_both_by_more([100.0, 100.0], [98.9, 98.9], Verdict::Slower)]
    #[case::above_both_by_a_percent([100.0, 100.0], [101.0, 101.0], Verdict::WithinNoise)]
    #[case::above_both_by_more([100.0, 100.0], [101.1, 101.1], Verdict::Faster)]
    fn verdicts(#[case] base: [f64; 2], #[case] this: [f64; 2], #[case] expected: Verdict) {
        assert_eq!(four(base, this).verdict(), expected);
        let mirrored = match expected {
            Verdict::Faster => Verdict::Slower,
            Verdict::Slower => Verdict::Faster,
            other => other,
        };
        // The gap is a share of base, so that the mirror image holds only away from one percent.
        if (four(base, this).mean_ratio().unwrap() - 1.0).abs() > 0.012 {
            assert_eq!(four(this, base).verdict(), mirrored);
        }
    }

    #[rstest]
    #[case([Speed(1.0), Missing], [Speed(1.0), Speed(1.0)], Verdict::NotRun)]
    #[case([Speed(1.0), Speed(1.0)], [Missing, Missing], Verdict::NotRun)]
    #[case([Speed(1.0), TooShort], [Speed(1.0), Speed(1.0)], Verdict::Unmeasured)]
    #[case([Speed(1.0), TooShort], [Missing, Speed(1.0)], Verdict::NotRun)]
    #[case([Failed, TooShort], [Missing, Speed(1.0)], Verdict::Failed)]
    fn a_run_without_a_speed_leaves_no_verdict(
        #[case] base: [Measured; 2],
        #[case] this: [Measured; 2],
        #[case] expected: Verdict,
    ) {
        let four = Four { base, this };
        assert_eq!((four.verdict(), four.mean_ratio()), (expected, None));
    }

    #[test]
    fn ratios_pair_neighbours_and_means() {
        let four = Four { base: [Speed(100.0), Speed(50.0)], this: [Speed(50.0), Speed(100.0)] };
        assert_eq!((four.ratios(), four.mean_ratio()), ([Some(0.5), Some(2.0)], Some(1.0)));
        let short = Four { base: [Speed(100.0), TooShort], ..four };
        assert_eq!((short.ratios(), short.mean_ratio()), ([Some(0.5), None], None));
    }

    #[rstest]
    #[case::none("", Hashes::Missing)]
    #[case::one("a", Hashes::Equal)]
    #[case::streams_may_differ("a b, a b", Hashes::Equal)]
    #[case::one_flipped("a b, a c", Hashes::Unequal)]
    #[case::one_absent("a -, a b", Hashes::Missing)]
    #[case::one_stream_less("a, a b", Hashes::Missing)]
    #[case::a_difference_weighs_more("- b, a c", Hashes::Unequal)]
    #[case::a_difference_behind_a_gap("a, -, b", Hashes::Unequal)]
    fn hashes_of_all_runs(#[case] reps: &'static str, #[case] expected: Hashes) {
        let rep = |rep: &'static str| rep.split_whitespace().map(|h| (h != "-").then_some(h)).collect();
        let reps: Vec<Vec<Option<&str>>> = reps.split(',').filter(|r| !r.is_empty()).map(rep).collect();
        assert_eq!(hashes(&reps), expected);
    }
}
