//! How often drafts are kept, by position and by confidence: counts over verified windows.

/// Bins of confidence.
pub const CONFIDENCE_BINS: usize = 5;

/// Where one bin ends and the next begins; a confidence on an edge is in the upper bin.
pub const CONFIDENCE_EDGES: [f64; CONFIDENCE_BINS - 1] = [0.2, 0.4, 0.6, 0.8];

/// The bin of a confidence; NaN is in the lowest.
pub fn confidence_bin(confidence: f64) -> usize {
    CONFIDENCE_EDGES.partition_point(|&edge| confidence >= edge)
}

/// What became of some drafts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DraftCount {
    /// Drafts verified.
    pub verified: u64,
    /// Those of them before which every draft of the window was kept.
    pub reached: u64,
    /// Those of them that were kept.
    pub kept: u64,
    /// Sum of the confidences of the verified.
    pub verified_confidence: f64,
    /// Sum of the confidences of the reached.
    pub reached_confidence: f64,
}

impl DraftCount {
    /// Share of the verified that were kept: the acceptance of the whole prefix up to a draft. `None` of nothing.
    pub fn kept_of_verified(&self) -> Option<f64> {
        share(self.kept, self.verified)
    }

    /// Share of the reached that were kept: what a confidence estimates. `None` of nothing.
    pub fn kept_of_reached(&self) -> Option<f64> {
        share(self.kept, self.reached)
    }

    /// Mean confidence of the reached. `None` of nothing.
    pub fn mean_confidence(&self) -> Option<f64> {
        (self.reached > 0).then(|| self.reached_confidence / self.reached as f64)
    }

    fn add(&mut self, other: &Self) {
        self.verified += other.verified;
        self.reached += other.reached;
        self.kept += other.kept;
        self.verified_confidence += other.verified_confidence;
        self.reached_confidence += other.reached_confidence;
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Counts of verified windows, each draft counted at its position and in the bin of its confidence.
///
/// ```
/// use tokenfare_pricing::Acceptance;
///
/// let mut counts = Acceptance::default();
/// counts.record(&[0.9, 0.7, 0.3], 2);
/// counts.record(&[0.5, 0.1, 0.1], 0);
/// assert_eq!(counts.mean_kept(), Some(1.0));
/// assert_eq!(counts.at_least(1), Some(0.5));
/// assert_eq!(counts.position(2).kept_of_reached(), Some(0.0));
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Acceptance {
    rounds: u64,
    cells: Vec<[DraftCount; CONFIDENCE_BINS]>,
}

impl Acceptance {
    /// Counts one window: the confidences of its verified drafts, as probabilities, and how many of them were kept.
    /// Drafts after the end of a reply were not judged and do not belong in the window.
    pub fn record(&mut self, confidences: &[f64], kept: usize) {
        self.rounds += 1;
        if self.cells.len() < confidences.len() {
            self.cells.resize(confidences.len(), Default::default());
        }
        for (j, (cells, &confidence)) in self.cells.iter_mut().zip(confidences).enumerate() {
            let reached = j <= kept;
            cells[confidence_bin(confidence)].add(&DraftCount {
                verified: 1,
                reached: u64::from(reached),
                kept: u64::from(j < kept),
                verified_confidence: confidence,
                reached_confidence: if reached { confidence } else { 0.0 },
            });
        }
    }

    /// Adds the counts of other windows.
    pub fn add(&mut self, other: &Self) {
        self.rounds += other.rounds;
        if self.cells.len() < other.cells.len() {
            self.cells.resize(other.cells.len(), Default::default());
        }
        for (cells, others) in self.cells.iter_mut().zip(&other.cells) {
            for (cell, other) in cells.iter_mut().zip(others) {
                cell.add(other);
            }
        }
    }

    /// Windows counted.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Positions that some window verified.
    pub fn positions(&self) -> usize {
        self.cells.len()
    }

    /// Drafts kept in all.
    pub fn kept(&self) -> u64 {
        self.cells.iter().flatten().map(|cell| cell.kept).sum()
    }

    /// Mean drafts kept a window; a window commits one token more. `None` without windows.
    pub fn mean_kept(&self) -> Option<f64> {
        share(self.kept(), self.rounds)
    }

    /// Share of windows that kept `count` drafts or more. `None` without windows.
    pub fn at_least(&self, count: usize) -> Option<f64> {
        let kept = if count == 0 { self.rounds } else { self.position(count - 1).kept };
        share(kept, self.rounds)
    }

    /// Drafts at one position, from 0.
    pub fn position(&self, position: usize) -> DraftCount {
        sum(self.cells.get(position).into_iter().flatten())
    }

    /// Drafts of one bin of confidence at any position.
    pub fn bin(&self, bin: usize) -> DraftCount {
        sum(self.cells.iter().filter_map(|cells| cells.get(bin)))
    }

    /// Drafts of one bin of confidence at one position, from 0.
    pub fn cell(&self, position: usize, bin: usize) -> DraftCount {
        self.cells.get(position).and_then(|cells| cells.get(bin)).copied().unwrap_or_default()
    }
}

/// Standard error of [`Acceptance::mean_kept`] over all of `parts` together, each part (one reply, say) being drawn
/// independently: `sqrt(n / (n - 1) * sum((kept_i - mean * rounds_i)^2)) / sum(rounds_i)`, the error of a ratio of
/// means. `None` of fewer than two parts, or without windows.
pub fn mean_kept_error<'a>(parts: impl IntoIterator<Item = &'a Acceptance>) -> Option<f64> {
    let parts: Vec<(f64, f64)> =
        parts.into_iter().map(|part| (part.kept() as f64, part.rounds() as f64)).collect();
    let n = parts.len() as f64;
    let rounds: f64 = parts.iter().map(|part| part.1).sum();
    if parts.len() < 2 || rounds == 0.0 {
        return None;
    }
    let mean = parts.iter().map(|part| part.0).sum::<f64>() / rounds;
    let squares: f64 = parts.iter().map(|(kept, rounds)| (kept - mean * rounds).powi(2)).sum();
    Some((n / (n - 1.0) * squares).sqrt() / rounds)
}

fn sum<'a>(cells: impl Iterator<Item = &'a DraftCount>) -> DraftCount {
    cells.fold(DraftCount::default(), |mut sum, cell| {
        sum.add(cell);
        sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(count: DraftCount) -> (u64, u64, u64) {
        (count.verified, count.reached, count.kept)
    }

    #[test]
    fn an_edge_belongs_to_the_upper_bin() {
        let bins = [-1.0, 0.0, 0.199, 0.2, 0.4, 0.599, 0.6, 0.8, 1.0, f64::NAN].map(confidence_bin);
        assert_eq!(bins, [0, 0, 0, 1, 2, 2, 3, 4, 4, 0]);
    }

    #[test]
    fn drafts_are_counted_by_position_and_bin() {
        let mut a = Acceptance::default();
        a.record(&[0.9, 0.9, 0.5, 0.1], 2);
        a.record(&[0.3, 0.9, 0.5], 0);
        a.record(&[0.9], 1);
        a.record(&[], 0);
        assert_eq!((a.rounds(), a.positions(), a.kept(), a.mean_kept()), (4, 4, 3, Some(0.75)));
        let at_least = [0, 1, 2, 3, 9].map(|k| a.at_least(k));
        assert_eq!(at_least, [Some(1.0), Some(0.5), Some(0.25), Some(0.0), Some(0.0)]);
        assert_eq!(
            [0, 1, 2, 3, 4].map(|j| counts(a.position(j))),
            [(3, 3, 2), (2, 1, 1), (2, 1, 0), (1, 0, 0), (0, 0, 0)]
        );
        assert_eq!(
            [0, 1, 2, 3, 4].map(|b| counts(a.bin(b))),
            [(1, 0, 0), (1, 1, 0), (2, 1, 0), (0, 0, 0), (4, 3, 3)]
        );
        assert_eq!(
            (counts(a.cell(1, 4)), counts(a.cell(1, 3)), counts(a.cell(9, 9))),
            ((2, 1, 1), (0, 0, 0), (0, 0, 0))
        );
        let sure = a.bin(4);
        assert_eq!((sure.kept_of_verified(), sure.kept_of_reached()), (Some(0.75), Some(1.0)));
        assert!((sure.mean_confidence().unwrap_or_default() - 0.9).abs() < 1e-12);
    }

    #[test]
    fn nothing_has_no_rates() {
        let a = Acceptance::default();
        assert_eq!((a.mean_kept(), a.at_least(1), a.position(0).kept_of_reached()), (None, None, None));
        assert_eq!((a.bin(0).kept_of_verified(), a.bin(0).mean_confidence()), (None, None));
    }

    #[test]
    fn the_error_is_that_of_a_ratio_of_means() {
        let part = |kept: &[usize]| {
            let mut a = Acceptance::default();
            kept.iter().for_each(|&kept| a.record(&[0.5; 5], kept));
            a
        };
        // Equal rounds: the error of a mean of means 1, 2 and 3, whose standard deviation is 1.
        let parts = [part(&[1, 1]), part(&[0, 4]), part(&[5, 1])];
        let error = mean_kept_error(&parts).unwrap_or_default();
        assert!((error - 1.0 / 3f64.sqrt()).abs() < 1e-12, "{error}");
        assert_eq!(mean_kept_error(&[part(&[2]), part(&[2, 2, 2])]), Some(0.0));
        assert_eq!((mean_kept_error(&parts[..1]), mean_kept_error(&[part(&[]), part(&[])])), (None, None));
    }

    proptest! {
        #[test]
        fn parts_add_up_to_the_whole(
            windows in prop::collection::vec((prop::collection::vec(0.0..1.0f64, 0..7), 0usize..7), 0..40),
            split in 0usize..40,
        ) {
            let windows: Vec<(Vec<f64>, usize)> =
                windows.into_iter().map(|(c, kept)| (c.clone(), kept.min(c.len()))).collect();
            let count = |windows: &[(Vec<f64>, usize)]| {
                let mut a = Acceptance::default();
                windows.iter().for_each(|(c, kept)| a.record(c, *kept));
                a
            };
            let whole = count(&windows);
            let (left, right) = windows.split_at(split.min(windows.len()));
            let mut parts = count(left);
            parts.add(&count(right));
            prop_assert_eq!(parts.rounds(), windows.len() as u64);
            prop_assert_eq!(whole.kept() as usize, windows.iter().map(|w| w.1).sum::<usize>());
            for j in 0..7 {
                prop_assert_eq!(counts(parts.position(j)), counts(whole.position(j)));
                prop_assert_eq!(whole.position(j).kept, windows.iter().filter(|w| w.1 > j).count() as u64);
                let reached = windows.iter().filter(|w| w.0.len() > j && w.1 >= j).count();
                prop_assert_eq!(whole.position(j).reached, reached as u64);
            }
        }
    }
}
