//! Speed of the linear kernels beside the speed at which this machine reads memory.
//!
//! Usage: `linear_speed [threads] [matrices] [rows] [cols]`. Weights are rotated so that they come from memory. Each
//! round measures the read ceiling and every case once, by turns; the table shows medians of packed bytes a second.

use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;

use tokenfare_cpu::linear::{Packed, RowsMutPtr, RowsPtr};
use tokenfare_cpu::{HugeBytes, Path, Scratch};
use tokenfare_device::{LinearData, Matrix, Result};

const ROUNDS: usize = 7;
const BATCHES: [usize; 5] = [1, 2, 4, 8, 16];

/// Addresses that the threads of a round share.
#[derive(Clone, Copy)]
struct Shared(RowsPtr, RowsMutPtr);

impl Shared {
    fn rows(&self) -> (RowsPtr, RowsMutPtr) {
        (self.0, self.1)
    }
}
// SAFETY: inputs are read alone, and each thread writes its own features.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

fn argument(at: usize, default: usize) -> usize {
    std::env::args().nth(at).and_then(|v| v.parse().ok()).unwrap_or(default)
}

fn part(len: usize, thread: usize, threads: usize) -> Range<usize> {
    len * thread / threads..len * (thread + 1) / threads
}

fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        bytes.extend((state >> 7).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Runs `work(thread)` on every thread and gives the seconds from the first start to the last end.
fn timed(threads: usize, work: impl Fn(usize) + Sync) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 1..threads {
            let work = &work;
            scope.spawn(move || work(thread));
        }
        work(0);
    });
    start.elapsed().as_secs_f64()
}

/// Xors all words, eight lines at a time.
#[inline(always)]
fn xor(words: &[[u64; 8]]) -> [[u64; 8]; 8] {
    let mut sum = [[0; 8]; 8];
    for lines in words.as_chunks::<8>().0 {
        for (sum, line) in sum.iter_mut().zip(lines) {
            for (sum, word) in sum.iter_mut().zip(line) {
                *sum ^= word;
            }
        }
    }
    sum
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn xor_avx2(words: &[[u64; 8]]) -> [[u64; 8]; 8] {
    xor(words)
}

fn read(bytes: &HugeBytes, threads: usize) -> f64 {
    // SAFETY: every bit pattern is a valid array of words.
    let (_, words, _) = unsafe { bytes.as_slice().align_to::<[u64; 8]>() };
    let seconds = timed(threads, |thread| {
        let words = &words[part(words.len(), thread, threads)];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the machine has AVX2.
            black_box(unsafe { xor_avx2(words) });
            return;
        }
        black_box(xor(words));
    });
    bytes.len() as f64 / seconds / 1e9
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<()> {
    let (threads, count) = (argument(1, 1), argument(2, 4));
    let (rows, cols) = (argument(3, 20480), argument(4, 5120));
    let x: Vec<f32> = (0..16 * cols).map(|i| (i % 97) as f32 / 97.0 - 0.5).collect();
    let mut y = vec![0f32; 16 * rows];
    let shared =
        Shared(RowsPtr { ptr: x.as_ptr(), stride: cols }, RowsMutPtr { ptr: y.as_mut_ptr(), stride: rows });
    let mut codes = bytes(rows * cols, 1);
    let mut plain = HugeBytes::new(count * rows * cols / 2)?;
    // Memory that was never written is one page of zeros.
    plain.as_mut_slice().fill(1);
    let mut ceiling = Vec::new();
    println!("{rows} x {cols}, {count} matrices, {threads} threads");
    for (name, fp8) in [("FP4", false), ("FP8", true)] {
        let scales = bytes(rows * cols / 32, 2).into_iter().map(|b| 116 + b % 8).collect::<Vec<_>>();
        let values = if fp8 {
            codes.iter_mut().filter(|c| **c & 0x7F == 0x7F).for_each(|c| *c ^= 1);
            Matrix::Fp8 { codes: &codes, scales: &scales[..rows.div_ceil(32) * (cols / 32)] }
        } else {
            Matrix::Fp4 { codes: &codes[..rows * cols / 2], scales: &scales }
        };
        let paths: Vec<Path> = Path::available().into_iter().filter(|path| *path != Path::Scalar).collect();
        let data = LinearData { rows, cols, groups: 1, values };
        let mut cases = Vec::new();
        for &path in &paths {
            let list = (0..count).map(|_| Packed::pack(data, path)).collect::<Result<Vec<_>>>()?;
            cases.push((path, list, [const { Vec::new() }; BATCHES.len()]));
        }
        let mut next = 0;
        for _ in 0..ROUNDS {
            for (_, list, speeds) in &mut cases {
                ceiling.push(read(&plain, threads));
                for (speeds, n) in speeds.iter_mut().zip(BATCHES) {
                    let packed = &list[next % count];
                    next += 1;
                    let seconds = timed(threads, |thread| {
                        let (x, y) = shared.rows();
                        let tiles = part(packed.tiles(), thread, threads);
                        // SAFETY: rows have the matrix's sizes, threads have tiles of their own.
                        unsafe { packed.run(n, x, y, tiles, &mut Scratch::new()) };
                    });
                    speeds.push((packed.tiles() * packed.tile_bytes()) as f64 / seconds / 1e9);
                }
            }
        }
        for (path, _, speeds) in &mut cases {
            let cells = speeds.iter_mut().zip(BATCHES).map(|(s, n)| format!("R={n} {:5.1}", median(s)));
            println!("{name} {:7} {}", path.name(), cells.collect::<Vec<_>>().join("  "));
        }
    }
    println!("read ceiling {:.1}", median(&mut ceiling));
    black_box(&y);
    Ok(())
}
