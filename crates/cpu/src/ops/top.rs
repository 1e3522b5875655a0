//! The largest of many scores.

/// A score and its position as one integer that sorts by descending score, then by ascending position; NaN counts as
/// negative infinity, -0 as 0.
#[inline(always)]
pub(crate) fn rank(score: f32, position: usize) -> u64 {
    let score = if score.is_nan() { f32::NEG_INFINITY } else { score + 0.0 };
    let bits = score.to_bits();
    let ascending = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    u64::from(!ascending) << 32 | position as u64
}

/// The position inside a rank.
#[inline(always)]
pub(crate) fn position(rank: u64) -> u32 {
    rank as u32
}

/// Reduces `ranks` to the `k` best, in ascending position, and gives their number.
pub(crate) fn best(ranks: &mut [u64], k: usize) -> usize {
    let kept = k.min(ranks.len());
    if kept > 0 && kept < ranks.len() {
        ranks.select_nth_unstable(kept - 1);
    }
    ranks[..kept].sort_unstable_by_key(|&rank| position(rank));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn top(scores: &[f32], k: usize) -> Vec<u32> {
        let mut ranks: Vec<u64> = scores.iter().enumerate().map(|(i, &s)| rank(s, i)).collect();
        let kept = best(&mut ranks, k);
        ranks[..kept].iter().map(|&r| position(r)).collect()
    }

    #[test]
    fn takes_the_largest_and_breaks_ties_to_the_lower_position() {
        assert_eq!(top(&[1.0, 3.0, 2.0, 3.0, -1.0], 2), [1, 3]);
        assert_eq!(top(&[0.0, -0.0, 0.0, -0.0], 3), [0, 1, 2]);
        assert_eq!(top(&[f32::NAN, -5.0, f32::NEG_INFINITY, f32::INFINITY], 3), [0, 1, 3]);
        assert_eq!(top(&[2.0, 1.0], 5), [0, 1]);
        assert_eq!(top(&[2.0, 1.0], 0), [0; 0]);
    }
}
