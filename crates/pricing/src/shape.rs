//! From noisy row times to non-decreasing ones.

/// How row times are smoothed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shape {
    /// As timed, adjacent violators pooled.
    #[default]
    Raw,
    /// Row 1 as timed; rows 2..=8 on a Theil-Sen line; rows 9 and on by their own Theil-Sen slope from row 8.
    Fit,
}

impl Shape {
    /// Applies the shape to the times of rows 1, 2, ... The result is non-decreasing.
    pub fn apply(self, rows: &[f64]) -> Vec<f64> {
        match self {
            Self::Raw => non_decreasing(rows),
            Self::Fit => non_decreasing(&fit(rows)),
        }
    }
}

/// The closest non-decreasing sequence in the least-squares sense: adjacent violators pooled with equal weights.
pub fn non_decreasing(values: &[f64]) -> Vec<f64> {
    let mut pools: Vec<(f64, usize)> = Vec::with_capacity(values.len());
    for &value in values {
        let mut pool = (value, 1);
        while let Some(&(mean, count)) = pools.last().filter(|last| last.0 > pool.0) {
            let total = count + pool.1;
            pool = ((mean * count as f64 + pool.0 * pool.1 as f64) / total as f64, total);
            pools.pop();
        }
        pools.push(pool);
    }
    pools.iter().flat_map(|&(mean, count)| std::iter::repeat_n(mean, count)).collect()
}

const LINE_END: usize = 8;

fn fit(rows: &[f64]) -> Vec<f64> {
    let mut out = rows.to_vec();
    let end = rows.len().min(LINE_END);
    if end > 2 {
        let line = &rows[1..end];
        let slope = theil_sen_slope(line);
        let intercept = median(line.iter().enumerate().map(|(i, y)| y - slope * i as f64).collect());
        for (i, y) in out[1..end].iter_mut().enumerate() {
            *y = intercept + slope * i as f64;
        }
    }
    if rows.len() > LINE_END {
        let from = out[LINE_END - 1];
        let deep = &rows[LINE_END..];
        let slope = if deep.len() > 1 { theil_sen_slope(deep) } else { deep[0] - from }.max(0.0);
        for (i, y) in out[LINE_END..].iter_mut().enumerate() {
            *y = from + slope * (i + 1) as f64;
        }
    }
    out
}

fn theil_sen_slope(values: &[f64]) -> f64 {
    let pairs = (0..values.len()).flat_map(|i| (i + 1..values.len()).map(move |j| (i, j)));
    median(pairs.map(|(i, j)| (values[j] - values[i]) / (j - i) as f64).collect())
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    (values[(n - 1) / 2] + values[n / 2]) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn violators_are_pooled_with_equal_weights() {
        assert_eq!(non_decreasing(&[1.0, 3.0, 2.0, 4.0]), [1.0, 2.5, 2.5, 4.0]);
        assert_eq!(non_decreasing(&[3.0, 2.0, 1.0]), [2.0, 2.0, 2.0]);
        assert_eq!(non_decreasing(&[]), [0.0; 0]);
    }

    #[test]
    fn a_fit_keeps_row_one_and_ignores_an_outlier() {
        let mut rows: Vec<f64> = (1..=12).map(|r| 10.0 + f64::from(r)).collect();
        rows[0] = 5.0;
        rows[4] = 40.0;
        for (i, row) in rows.iter_mut().enumerate().skip(8) {
            *row = 100.0 + 3.0 * i as f64;
        }
        let expected = [5.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 18.0, 21.0, 24.0, 27.0, 30.0];
        assert_eq!(Shape::Fit.apply(&rows), expected);
    }

    #[test]
    fn a_fit_of_short_tables_is_defined() {
        assert_eq!(Shape::Fit.apply(&[4.0, 7.0]), [4.0, 7.0]);
        assert_eq!(Shape::Fit.apply(&[4.0, 7.0, 9.0]), [4.0, 7.0, 9.0]);
        let nine = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 8.5];
        assert_eq!(Shape::Fit.apply(&nine), nine);
        let falling_end = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 7.0];
        assert_eq!(Shape::Fit.apply(&falling_end)[8..], [8.0, 8.0]);
    }

    proptest! {
        #[test]
        fn shapes_are_monotone(rows in prop::collection::vec(0.1f64..100.0, 2..=64)) {
            prop_assert!(Shape::Raw.apply(&rows).is_sorted());
            prop_assert!(Shape::Fit.apply(&rows).is_sorted());
        }

        #[test]
        fn raw_is_idempotent_and_keeps_the_sum(rows in prop::collection::vec(0.1f64..100.0, 2..=64)) {
            let once = Shape::Raw.apply(&rows);
            prop_assert_eq!(&Shape::Raw.apply(&once), &once);
            let sum = |v: &[f64]| v.iter().sum::<f64>();
            prop_assert!((sum(&once) - sum(&rows)).abs() < 1e-9 * sum(&rows));
        }

        #[test]
        fn fit_is_idempotent_where_the_line_starts_above_row_one(mut rows in prop::collection::vec(1f64..100.0, 2..=64)) {
            rows.sort_by(f64::total_cmp);
            rows[0] = 0.0;
            let once = Shape::Fit.apply(&rows);
            prop_assume!(once[1] > 0.0);
            for (a, b) in Shape::Fit.apply(&once).iter().zip(&once) {
                prop_assert!((a - b).abs() < 1e-9);
            }
        }
    }
}
