//! What a window is worth: expected tokens less the price of its time.

use crate::CostTable;
use std::ops::RangeInclusive;

/// Values closer than this are equal; the shallower depth is taken.
pub const TIE: f64 = 1e-12;

/// A depth and its value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Priced {
    /// Drafts to verify.
    pub depth: usize,
    /// `E(depth) - lambda * window_ms(depth + 1)`, in tokens.
    pub value: f64,
}

/// Tokens that a round is expected to commit when it verifies the first `depth` drafts:
/// `E(k) = 1 + q0 + q0*q1 + ...` with `k` products.
pub fn expected_tokens(q: &[f64], depth: usize) -> f64 {
    let survival = q.iter().take(depth).scan(1.0, |product, q| {
        *product *= q;
        Some(*product)
    });
    1.0 + survival.sum::<f64>()
}

/// The depth among `depths` with the greatest value at `lambda` tokens a millisecond, ties to the smallest.
/// `depths` must not be empty; drafts past the end of `q` are taken as never kept.
pub fn best_depth(q: &[f64], depths: RangeInclusive<usize>, table: &CostTable, lambda: f64) -> Priced {
    let price = |depth| {
        let value = expected_tokens(q, depth) - lambda * table.window_ms(depth + 1);
        Priced { depth, value }
    };
    let first = price(*depths.start());
    depths
        .skip(1)
        .map(price)
        .fold(first, |best, next| if next.value > best.value + TIE { next } else { best })
}

/// By how many tokens one plan is worth more than another, each at its own best depth and at the same lambda.
pub fn surplus(plan: Priced, over: Priced) -> f64 {
    plan.value - over.value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_tokens_sum_the_survival_products() {
        assert_eq!(expected_tokens(&[0.5, 0.5, 0.25], 0), 1.0);
        assert_eq!(expected_tokens(&[0.5, 0.5, 0.25], 2), 1.75);
        assert_eq!(expected_tokens(&[0.5, 0.5, 0.25], 9), 1.8125);
    }

    #[test]
    fn ties_go_to_the_smaller_depth() {
        let table = CostTable::new(&[10.0, 15.0, 17.5, 30.0], 1.0, 0.0).unwrap();
        let best = best_depth(&[0.5, 0.5, 0.5], 0..=3, &table, 0.1);
        assert_eq!(best, Priced { depth: 0, value: 0.0 });
        assert_eq!(best_depth(&[0.5, 0.5, 0.5], 1..=3, &table, 0.1).depth, 1);
        assert_eq!(best_depth(&[0.51, 0.5, 0.5], 0..=3, &table, 0.1).depth, 2);
    }

    #[test]
    fn a_surplus_compares_plans_at_their_own_best() {
        let table = CostTable::new(&[10.0, 11.0, 12.0, 13.0], 1.0, 0.0).unwrap();
        let copied = best_depth(&[0.9; 3], 1..=3, &table, 0.1);
        let drafted = best_depth(&[0.5], 0..=1, &table, 0.1);
        assert_eq!((copied.depth, drafted.depth), (3, 1));
        assert!((surplus(copied, drafted) - (0.9 + 0.81 + 0.729 - 0.3 - 0.4)).abs() < 1e-12);
    }
}
