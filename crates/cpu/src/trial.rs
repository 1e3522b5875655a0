//! Which of the machine's paths is fastest: a trial of a few milliseconds, once a process.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tokenfare_device::{LinearData, Matrix, Result};

use crate::linear::{Packed, RowsMutPtr, RowsPtr};
use crate::{Path, Scratch};

/// Outputs and inputs of the matrix: small enough for a core's second cache, so that kernels are told apart by what they
/// compute.
const ROWS: usize = 256;
const COLS: usize = 1024;

/// Rows of the two launches that are timed: a plain round and a window of drafts.
const LAUNCHES: [usize; 2] = [1, 8];

/// Runs of each launch, of which the fastest counts.
const RUNS: usize = 7;

/// How much of the better path's time another may take to be taken instead. Paths round differently, so a close call must
/// not depend on the moment.
const CLEARLY: f64 = 0.75;

/// The path to run on: the first of `available` that no later one clearly beats. `available` is never empty.
pub(crate) fn fastest(available: &[Path]) -> Path {
    static CHOSEN: OnceLock<Path> = OnceLock::new();
    *CHOSEN.get_or_init(|| {
        // Plain Rust is never the fastest, and a single path needs no trial.
        let vectors: Vec<Path> = available.iter().copied().filter(|path| *path != Path::Scalar).collect();
        if vectors.len() < 2 {
            return available[0];
        }
        choose(vectors.iter().map(|&path| (path, time(path).unwrap_or(Duration::MAX))))
            .unwrap_or(available[0])
    })
}

/// The first path, unless a later one takes clearly less time.
fn choose(timed: impl Iterator<Item = (Path, Duration)>) -> Option<Path> {
    timed
        .reduce(|best, next| if next.1.as_secs_f64() < CLEARLY * best.1.as_secs_f64() { next } else { best })
        .map(|(path, _)| path)
}

/// The time of all launches on a path that the machine has.
fn time(path: Path) -> Result<Duration> {
    let codes: Vec<u8> = (0..ROWS * COLS / 2).map(|i| (i * 37) as u8).collect();
    let scales = vec![120; ROWS * COLS / 32];
    let values = Matrix::Fp4 { codes: &codes, scales: &scales };
    let packed = Packed::pack(LinearData { rows: ROWS, cols: COLS, groups: 1, values }, path)?;
    let most = LAUNCHES[LAUNCHES.len() - 1];
    let x: Vec<f32> = (0..most * COLS).map(|i| (i % 97) as f32 / 97.0).collect();
    let (mut y, mut scratch) = (vec![0.0; most * ROWS], Scratch::new());
    let (from, to) =
        (RowsPtr { ptr: x.as_ptr(), stride: COLS }, RowsMutPtr { ptr: y.as_mut_ptr(), stride: ROWS });
    let mut sum = Duration::ZERO;
    for n in LAUNCHES {
        let mut fastest = Duration::MAX;
        for _ in 0..RUNS {
            let began = Instant::now();
            // SAFETY: rows have the matrix's sizes, this thread alone uses them, and the machine has the path.
            unsafe { packed.run(n, from, to, 0..packed.tiles(), &mut scratch) };
            fastest = fastest.min(began.elapsed());
        }
        sum += fastest;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(times: &[(Path, u64)]) -> Option<Path> {
        choose(times.iter().map(|&(path, us)| (path, Duration::from_micros(us))))
    }

    #[test]
    fn a_later_path_must_be_clearly_faster() {
        use Path::{Amx, Avx2, Avx512};
        assert_eq!(chosen(&[(Amx, 100), (Avx512, 76), (Avx2, 90)]), Some(Amx));
        assert_eq!(chosen(&[(Amx, 100), (Avx512, 74), (Avx2, 60)]), Some(Avx512));
        assert_eq!(chosen(&[(Avx512, 100), (Avx2, 50)]), Some(Avx2));
        assert_eq!(chosen(&[]), None);
    }

    #[test]
    fn every_path_of_the_machine_can_be_timed_and_the_choice_stays() {
        let available = Path::available();
        for &path in &available {
            assert!(time(path).unwrap() > Duration::ZERO);
        }
        let first = fastest(&available);
        assert!(available.contains(&first));
        assert_eq!(fastest(&available), first);
    }
}
