//! Speed of operations beside the speed at which the device reads memory.
//!
//! Every measurement is one half of a pair whose other half reads plain memory, so that what else the machine does
//! falls on both; a table shows medians over the pairs.

mod cases;

use std::time::{Duration, Instant};

use crate::{Device, Result};
use cases::Case;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// A linear layer with FP4 weights.
    LinearFp4,
    /// A linear layer with FP8 weights.
    LinearFp8,
    /// A linear layer with BF16 weights.
    LinearBf16,
    /// Routed and shared FP4 experts; every row chooses other experts.
    Moe,
    /// Attention over a full window and a full selection.
    Attention,
    /// Scores of index keys and the choice of the best.
    IndexSelect,
}

impl Op {
    /// All operations, in the order of a table.
    pub const ALL: [Self; 6] =
        [Self::LinearFp4, Self::LinearFp8, Self::LinearBf16, Self::Moe, Self::Attention, Self::IndexSelect];

    /// The name in tables and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LinearFp4 => "linear-fp4",
            Self::LinearFp8 => "linear-fp8",
            Self::LinearBf16 => "linear-bf16",
            Self::Moe => "moe",
            Self::Attention => "attention",
            Self::IndexSelect => "index-select",
        }
    }
}

/// Sizes of the operations.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Inputs of the linear layers and of the experts.
    pub hidden: usize,
    /// Outputs of the linear layers.
    pub outputs: usize,
    /// Values between an expert's matrices.
    pub inner: usize,
    /// Routed experts.
    pub experts: usize,
    /// Experts a row.
    pub top_k: usize,
    /// Query heads.
    pub heads: usize,
    /// Values a key.
    pub head_dim: usize,
    /// Window rows.
    pub window: usize,
    /// Heads of the index.
    pub index_heads: usize,
    /// Values an index key.
    pub index_dim: usize,
    /// Index keys.
    pub keys: usize,
    /// Keys that the index selects.
    pub selected: usize,
}

impl Sizes {
    /// The widths of the released model.
    pub const RELEASE: Self = Self {
        hidden: 5120,
        outputs: 20480,
        inner: 2304,
        experts: 32,
        top_k: 6,
        heads: 64,
        head_dim: 512,
        window: 128,
        index_heads: 32,
        index_dim: 128,
        keys: 16384,
        selected: 512,
    };
}

/// How to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// Row counts.
    pub rows: Vec<usize>,
    /// Pairs of a measurement and a read ceiling for each row count.
    pub pairs: usize,
    /// Least time of each half of a pair.
    pub least: Duration,
    /// Bytes of weights that linear layers rotate over, at least one matrix.
    pub weights: u64,
    /// Sizes of the operations.
    pub sizes: Sizes,
}

/// Bytes read and operations done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// Bytes of weights or keys that a launch reads.
    pub bytes: u64,
    /// Multiplications and additions.
    pub flops: u64,
}

/// Medians over the pairs of one operation at one row count.
#[derive(Debug, Clone, PartialEq)]
pub struct Speed {
    /// Rows of a launch.
    pub rows: usize,
    /// Seconds of a launch.
    pub seconds: f64,
    /// Weight or key bytes a second.
    pub bytes_per_s: f64,
    /// Multiplications and additions a second.
    pub flops_per_s: f64,
    /// Bytes a second of plain reading.
    pub ceiling: f64,
    /// Median over the pairs of `bytes_per_s / ceiling`.
    pub share: f64,
}

/// One operation at all row counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The operation.
    pub op: Op,
    /// Its sizes in words.
    pub shape: String,
    /// One entry a row count.
    pub speeds: Vec<Speed>,
}

/// The middle value, the higher of two; 0 of none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Launches of one operation, right after a look at the read ceiling.
#[derive(Debug, Clone, Copy)]
struct Pair {
    seconds: f64,
    work: Work,
    launches: f64,
    /// Bytes a second.
    ceiling: f64,
}

/// Measures `op` at every row count. `ceiling` reads plain memory once and gives bytes a second. The device must take
/// the largest row count.
///
/// # Errors
/// The device's, and a refusal of memory.
pub fn measure<D: Device>(
    device: &mut D,
    op: Op,
    options: &Options,
    mut ceiling: impl FnMut(&mut D) -> Result<f64>,
) -> Result<Report> {
    let mut case = Case::new(device, op, options)?;
    let mut pairs = vec![Vec::with_capacity(options.pairs); options.rows.len()];
    for &rows in &options.rows {
        case.launch(device, rows)?;
    }
    for _ in 0..options.pairs {
        for (pairs, &rows) in pairs.iter_mut().zip(&options.rows) {
            let ceiling = ceiling(device)?;
            let (began, mut work, mut launches) = (Instant::now(), Work::default(), 0);
            while launches == 0 || began.elapsed() < options.least {
                let one = case.launch(device, rows)?;
                work.bytes += one.bytes;
                work.flops += one.flops;
                launches += 1;
            }
            let seconds = began.elapsed().as_secs_f64();
            pairs.push(Pair { seconds, work, launches: f64::from(launches), ceiling });
        }
    }
    let speeds = options.rows.iter().zip(pairs).map(|(&rows, pairs)| {
        let over = |figure: fn(&Pair) -> f64| median(pairs.iter().map(figure).collect());
        Speed {
            rows,
            seconds: over(|p| p.seconds / p.launches),
            bytes_per_s: over(|p| p.work.bytes as f64 / p.seconds),
            flops_per_s: over(|p| p.work.flops as f64 / p.seconds),
            ceiling: over(|p| p.ceiling),
            share: over(|p| p.work.bytes as f64 / p.seconds / p.ceiling),
        }
    });
    Ok(Report { op, shape: case.shape(), speeds: speeds.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CacheFormat, Reference};

    const SMALL: Sizes = Sizes {
        hidden: 64,
        outputs: 96,
        inner: 32,
        experts: 4,
        top_k: 2,
        heads: 2,
        head_dim: 32,
        window: 8,
        index_heads: 2,
        index_dim: 32,
        keys: 40,
        selected: 16,
    };

    #[test]
    fn every_operation_is_measured_and_its_work_is_counted() {
        let options =
            Options { rows: vec![1, 3], pairs: 2, least: Duration::ZERO, weights: 10_000, sizes: SMALL };
        for op in Op::ALL {
            let mut device = Reference::new(4);
            let mut ceilings = 0;
            let report = measure(&mut device, op, &options, |_| {
                ceilings += 1;
                Ok(1e9)
            })
            .unwrap();
            assert_eq!((report.op, report.speeds.len(), ceilings), (op, 2, 4));
            // 1 row: weight bytes with scales, and twice the products.
            let (bytes, flops) = match op {
                Op::LinearFp4 => (96 * 64 / 2 + 96 * 2, 2 * 96 * 64),
                Op::LinearFp8 => (96 * 64 + 3 * 2, 2 * 96 * 64),
                Op::LinearBf16 => (2 * 96 * 64, 2 * 96 * 64),
                Op::Moe => (3 * 3 * (32 * 64 / 2 + 64), 2 * 3 * 3 * 32 * 64),
                Op::Attention => (
                    8 * CacheFormat::Fp8.row_bytes(32) + 16 * CacheFormat::Fp4Group16.row_bytes(32),
                    4 * 2 * 24 * 32,
                ),
                Op::IndexSelect => (40 * CacheFormat::Fp4Group32.row_bytes(32), 2 * 2 * 40 * 32),
            };
            let mut case = Case::new(&mut device, op, &options).unwrap();
            let work = case.launch(&mut device, 1).unwrap();
            assert_eq!(work, Work { bytes: bytes as u64, flops }, "{}", op.name());
            assert!(report.speeds.iter().all(|s| s.ceiling == 1e9 && s.bytes_per_s > 0.0 && s.share > 0.0));
        }
    }

    #[test]
    fn medians_take_the_higher_of_two_middles() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![3.0, 1.0, 2.0, 4.0]), 3.0);
        assert_eq!(median(Vec::new()), 0.0);
    }
}
