//! Speed of operations beside the speed at which the device reads memory.
//!
//! Every measurement is one half of a pair whose other half reads plain memory, so that what else the machine does
//! falls on both; a table shows medians over the pairs of quiet moments.

mod cases;
mod quiet;

use std::time::{Duration, Instant};

use crate::{Device, Result};
use cases::Case;
pub use quiet::Quiet;

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
    /// Most rounds to find as many pairs of quiet moments in; `None`: every pair counts.
    pub rounds: Option<usize>,
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

/// Medians over pairs of one operation at one row count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Pairs.
    pub pairs: usize,
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

/// One operation at one row count.
#[derive(Debug, Clone, PartialEq)]
pub struct Speed {
    /// Rows of a launch.
    pub rows: usize,
    /// Over all pairs.
    pub all: Figures,
    /// Over the pairs of quiet moments; `None` without any, or where every pair counts.
    pub quiet: Option<Figures>,
}

impl Speed {
    /// Those of quiet moments, else of all.
    pub fn figures(&self) -> &Figures {
        self.quiet.as_ref().unwrap_or(&self.all)
    }
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

/// How fast the machine is at the moment, apart from the operation that is measured.
pub trait Yardstick<D> {
    /// Bytes a second of plain reading.
    ///
    /// # Errors
    /// The device's.
    fn read(&mut self, device: &mut D) -> Result<f64>;

    /// Seconds of a step that needs no memory.
    ///
    /// # Errors
    /// The device's.
    fn pace(&mut self, device: &mut D) -> Result<f64>;
}

/// Launches of one operation, right after a look at the read ceiling.
#[derive(Debug, Clone, Copy)]
struct Pair {
    seconds: f64,
    work: Work,
    launches: f64,
    /// Bytes a second.
    ceiling: f64,
    /// The slower of the paces before and behind it.
    pace: f64,
}

impl Pair {
    fn measure<D: Device>(
        device: &mut D,
        case: &mut Case<D>,
        rows: usize,
        least: Duration,
        quiet: &mut Quiet,
        yardstick: &mut impl Yardstick<D>,
    ) -> Result<Self> {
        let before = yardstick.pace(device)?;
        let ceiling = yardstick.read(device)?;
        let (began, mut work, mut launches) = (Instant::now(), Work::default(), 0);
        while launches == 0 || began.elapsed() < least {
            let one = case.launch(device, rows)?;
            work.bytes += one.bytes;
            work.flops += one.flops;
            launches += 1;
        }
        let seconds = began.elapsed().as_secs_f64();
        let after = yardstick.pace(device)?;
        quiet.note(before.min(after));
        Ok(Self { seconds, work, launches: f64::from(launches), ceiling, pace: before.max(after) })
    }
}

impl Figures {
    fn of(pairs: &[Pair]) -> Self {
        let over = |figure: fn(&Pair) -> f64| median(pairs.iter().map(figure).collect());
        Self {
            pairs: pairs.len(),
            seconds: over(|p| p.seconds / p.launches),
            bytes_per_s: over(|p| p.work.bytes as f64 / p.seconds),
            flops_per_s: over(|p| p.work.flops as f64 / p.seconds),
            ceiling: over(|p| p.ceiling),
            share: over(|p| p.work.bytes as f64 / p.seconds / p.ceiling),
        }
    }
}

/// Measures `op` at every row count, in more rounds while pairs of quiet moments are lacking. `quiet` keeps the fastest
/// pace from one measurement to the next. The device must take the largest row count.
///
/// # Errors
/// The device's, and a refusal of memory.
pub fn measure<D: Device>(
    device: &mut D,
    op: Op,
    options: &Options,
    quiet: &mut Quiet,
    yardstick: &mut impl Yardstick<D>,
) -> Result<Report> {
    let mut case = Case::new(device, op, options)?;
    let mut pairs = vec![Vec::with_capacity(options.pairs); options.rows.len()];
    for &rows in &options.rows {
        case.launch(device, rows)?;
    }
    let quiet_ones = |quiet: &Quiet, pairs: &[Pair]| -> Vec<Pair> {
        pairs.iter().filter(|pair| quiet.is(pair.pace)).copied().collect()
    };
    for round in 0..options.rounds.unwrap_or(options.pairs).max(options.pairs) {
        for (pairs, &rows) in pairs.iter_mut().zip(&options.rows) {
            if round < options.pairs || quiet_ones(quiet, pairs).len() < options.pairs {
                pairs.push(Pair::measure(device, &mut case, rows, options.least, quiet, yardstick)?);
            }
        }
    }
    let speeds = options.rows.iter().zip(pairs).map(|(&rows, pairs)| {
        let some = Some(quiet_ones(quiet, &pairs)).filter(|q| options.rounds.is_some() && !q.is_empty());
        Speed { rows, all: Figures::of(&pairs), quiet: some.map(|pairs| Figures::of(&pairs)) }
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

    /// Paces as given, readings that tell their order.
    struct Paces {
        paces: Vec<f64>,
        reads: usize,
    }

    impl Yardstick<Reference> for Paces {
        fn read(&mut self, _: &mut Reference) -> Result<f64> {
            self.reads += 1;
            Ok(1e9 + (self.reads - 1) as f64)
        }

        fn pace(&mut self, _: &mut Reference) -> Result<f64> {
            Ok(self.paces.remove(0))
        }
    }

    #[test]
    fn every_operation_is_measured_and_its_work_is_counted() {
        let options = Options {
            rows: vec![1, 3],
            pairs: 2,
            rounds: None,
            least: Duration::ZERO,
            weights: 10_000,
            sizes: SMALL,
        };
        for op in Op::ALL {
            let mut device = Reference::new(4);
            let mut fixed = Paces { paces: vec![1.0; 8], reads: 0 };
            let report = measure(&mut device, op, &options, &mut Quiet::default(), &mut fixed).unwrap();
            assert_eq!((report.op, report.speeds.len(), fixed.reads), (op, 2, 4));
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
            let whole = |s: &Speed| s.quiet.is_none() && s.all.pairs == 2 && s.all.ceiling > 1e9;
            assert!(report.speeds.iter().all(|s| whole(s) && s.all.bytes_per_s > 0.0 && s.all.share > 0.0));
        }
    }

    #[test]
    fn disturbed_pairs_are_repeated_and_do_not_count() {
        let options = Options {
            rows: vec![1],
            pairs: 2,
            rounds: Some(5),
            least: Duration::ZERO,
            weights: 10_000,
            sizes: SMALL,
        };
        let run = |paces: [f64; 10]| {
            let mut yardstick = Paces { paces: paces.into(), reads: 0 };
            let quiet = &mut Quiet::default();
            let report = measure(&mut Reference::new(4), Op::LinearBf16, &options, quiet, &mut yardstick);
            let speed = report.unwrap().speeds.remove(0);
            (speed.all.pairs, speed.quiet.map(|q| (q.pairs, q.ceiling)))
        };
        // Two paces a pair, before and behind it; readings tell their order.
        assert_eq!(run([1.0, 1.5, 1.0, 1.0, 1.3, 1.0, 1.05, 1.0, 1.0, 1.0]), (4, Some((2, 1e9 + 3.0))));
        // A faster one shows that the first was disturbed.
        assert_eq!(run([1.5, 1.5, 1.5, 1.2, 1.0, 1.0, 1.0, 1.05, 1.0, 1.0]), (4, Some((2, 1e9 + 3.0))));
        assert_eq!(run([1.0, 2.0, 2.0, 1.5, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]), (5, None));
    }

    #[test]
    fn medians_take_the_higher_of_two_middles() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![3.0, 1.0, 2.0, 4.0]), 3.0);
        assert_eq!(median(Vec::new()), 0.0);
    }
}
