use rstest::rstest;
use tokenfare_device::{DeviceError, LinearData, Matrix};

use super::{MoeArgs, PackedExperts, STAGES, run_stage, scratch_len};
use crate::linear::{Packed, RowsMutPtr, RowsPtr};
use crate::random::Random;
use crate::{Path, Scratch};

const EXPERTS: usize = 7;
const TOP_K: usize = 3;

/// How the shared expert's matrices are stored; the routed experts' are FP4.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    width: usize,
    inner: usize,
    shared_inner: usize,
}

/// One stored matrix with its values.
struct Stored {
    rows: usize,
    cols: usize,
    codes: Vec<u8>,
    scales: Vec<u8>,
    fp4: bool,
}

impl Stored {
    fn new(rows: usize, cols: usize, fp4: bool, rng: &mut Random) -> Self {
        let (codes, scales) = match fp4 {
            true => (rows * cols / 2, rows * cols / 32),
            false => (rows * cols, rows.div_ceil(32) * cols.div_ceil(32)),
        };
        // Codes up to 0x47 keep FP8 values of the size of FP4's.
        let code = |v: u64| if fp4 { v as u8 } else { (v % 0x48) as u8 | (v >> 8) as u8 & 0x80 };
        let codes = (0..codes).map(|_| code(rng.next())).collect();
        let scales = (0..scales).map(|_| 121 + rng.below(3) as u8).collect();
        Self { rows, cols, codes, scales, fp4 }
    }

    fn pack(&self, path: Path) -> Packed {
        let (codes, scales) = (self.codes.as_slice(), self.scales.as_slice());
        let values = match self.fp4 {
            true => Matrix::Fp4 { codes, scales },
            false => Matrix::Fp8 { codes, scales },
        };
        Packed::pack(LinearData { rows: self.rows, cols: self.cols, groups: 1, values }, path).unwrap()
    }

    /// `W x` in f64, from weights read back through the plain path.
    fn times(&self, weights: &[f32], x: &[f64]) -> Vec<f64> {
        let row = |row: &[f32]| row.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum();
        weights.chunks_exact(self.cols).map(row).collect()
    }

    /// The weights, row-major.
    fn weights(&self) -> Vec<f32> {
        let packed = self.pack(Path::Scalar);
        let (rows, cols) = (self.rows, self.cols);
        let x: Vec<f32> = (0..cols * cols).map(|i| if i % cols == i / cols { 1.0 } else { 0.0 }).collect();
        let mut columns = vec![0f32; cols * rows];
        let to = RowsMutPtr { ptr: columns.as_mut_ptr(), stride: rows };
        let from = RowsPtr { ptr: x.as_ptr(), stride: cols };
        // SAFETY: the rows have the sizes of the matrix.
        unsafe { packed.run(cols, from, to, 0..packed.tiles(), &mut Scratch::new()) };
        (0..rows * cols).map(|i| columns[i % cols * rows + i / cols]).collect()
    }
}

struct Layer {
    sizes: Sizes,
    routed: Vec<[Stored; 3]>,
    shared: [Stored; 3],
}

fn expert(width: usize, inner: usize, fp4: bool, rng: &mut Random) -> [Stored; 3] {
    [(inner, width), (inner, width), (width, inner)].map(|(rows, cols)| Stored::new(rows, cols, fp4, rng))
}

impl Layer {
    fn new(sizes: Sizes, rng: &mut Random) -> Self {
        let routed = (0..EXPERTS).map(|_| expert(sizes.width, sizes.inner, true, rng)).collect();
        Self { sizes, routed, shared: expert(sizes.width, sizes.shared_inner, false, rng) }
    }

    fn pack(&self, path: Path) -> (PackedExperts, [Packed; 3]) {
        let pack = |expert: &[Stored; 3]| expert.each_ref().map(|m| m.pack(path));
        (PackedExperts::new(self.routed.iter().map(pack).collect()).unwrap(), pack(&self.shared))
    }
}

/// Inputs and routes of some rows.
#[derive(Clone)]
struct Rows {
    x: Vec<f32>,
    experts: Vec<u32>,
    weights: Vec<f32>,
}

impl Rows {
    fn new(n: usize, width: usize, rng: &mut Random) -> Self {
        let x = (0..n * width).map(|_| half::bf16::from_f32(rng.unit()).to_f32()).collect();
        let mut experts = Vec::new();
        for _ in 0..n {
            let mut row: Vec<u32> = Vec::new();
            while row.len() < TOP_K {
                let e = rng.below(EXPERTS) as u32;
                if !row.contains(&e) {
                    row.push(e);
                }
            }
            row.sort_unstable();
            experts.extend(row);
        }
        let weights = (0..n * TOP_K).map(|_| rng.unit().abs()).collect();
        Self { x, experts, weights }
    }

    fn len(&self) -> usize {
        self.experts.len() / TOP_K
    }

    fn some(&self, range: std::ops::Range<usize>) -> Self {
        let width = self.x.len() / self.len();
        Self {
            x: self.x[range.start * width..range.end * width].to_vec(),
            experts: self.experts[range.start * TOP_K..range.end * TOP_K].to_vec(),
            weights: self.weights[range.start * TOP_K..range.end * TOP_K].to_vec(),
        }
    }
}

const GUARD: f32 = 54321.0;

/// Runs all stages with the threads one after another, and checks that nothing outside the rows was written.
fn run(
    packed: &(PackedExperts, [Packed; 3]),
    rows: &Rows,
    limit: f32,
    path: Path,
    threads: usize,
) -> Vec<f32> {
    let (routed, shared) = packed;
    let (n, width) = (rows.len(), routed.width());
    let stride = width + 7;
    let mut out = vec![GUARD; n * stride];
    let len = scratch_len(n, TOP_K, width, routed.inner().max(shared[0].rows()));
    let mut between = vec![f32::NAN; len + 16];
    between[len..].fill(GUARD);
    let args = MoeArgs {
        n,
        x: RowsPtr { ptr: rows.x.as_ptr(), stride: width },
        experts: rows.experts.as_ptr(),
        weights: rows.weights.as_ptr(),
        top_k: TOP_K,
        routed,
        shared: shared.each_ref(),
        limit,
        path,
        scratch: between.as_mut_ptr(),
        out: RowsMutPtr { ptr: out.as_mut_ptr(), stride },
    };
    let mut scratch = Scratch::new();
    for stage in 0..STAGES {
        for thread in 0..threads {
            // SAFETY: buffers have the named sizes, and stages follow one another.
            unsafe { run_stage(&args, stage, thread, threads, &mut scratch) };
        }
    }
    assert!(between[len..].iter().all(|v| *v == GUARD), "written past the scratch");
    let mut y = Vec::new();
    for row in out.chunks_exact(stride) {
        assert!(row[width..].iter().all(|v| *v == GUARD), "written past a row");
        y.extend(&row[..width]);
    }
    y
}

fn bits(y: &[f32]) -> Vec<u32> {
    y.iter().map(|v| v.to_bits()).collect()
}

const SIZES: [Sizes; 3] = [
    Sizes { width: 64, inner: 32, shared_inner: 32 },
    Sizes { width: 96, inner: 64, shared_inner: 160 },
    Sizes { width: 32, inner: 96, shared_inner: 32 },
];

/// The mixture in f64.
fn exact(layer: &Layer, rows: &Rows, limit: f64) -> Vec<f64> {
    let read = |expert: &[Stored; 3]| expert.each_ref().map(Stored::weights);
    let routed: Vec<_> = layer.routed.iter().map(read).collect();
    let shared = read(&layer.shared);
    let forward = |expert: &[Stored; 3], weights: &[Vec<f32>; 3], x: &[f64], factor: f64| {
        let g = expert[0].times(&weights[0], x);
        let u = expert[1].times(&weights[1], x);
        let t: Vec<f64> = g
            .iter()
            .zip(&u)
            .map(|(g, u)| (g.min(limit), u.clamp(-limit, limit)))
            .map(|(g, u)| factor * g / (1.0 + (-g).exp()) * u)
            .collect();
        expert[2].times(&weights[2], &t)
    };
    let mut out = Vec::new();
    for (r, x) in rows.x.chunks_exact(layer.sizes.width).enumerate() {
        let x: Vec<f64> = x.iter().map(|v| f64::from(*v)).collect();
        let mut sum = forward(&layer.shared, &shared, &x, 1.0);
        for slot in r * TOP_K..(r + 1) * TOP_K {
            let e = rows.experts[slot] as usize;
            let y = forward(&layer.routed[e], &routed[e], &x, f64::from(rows.weights[slot]));
            sum.iter_mut().zip(y).for_each(|(s, y)| *s += y);
        }
        out.extend(sum);
    }
    out
}

#[rstest]
fn every_path_is_near_the_exact_mixture(#[values(0, 1, 2)] size: usize, #[values(0.0, 0.5)] limit: f32) {
    let mut rng = Random(11);
    let layer = Layer::new(SIZES[size], &mut rng);
    let rows = Rows::new(13, SIZES[size].width, &mut rng);
    let want = exact(&layer, &rows, if limit > 0.0 { f64::from(limit) } else { f64::INFINITY });
    for path in Path::available() {
        let got = run(&layer.pack(path), &rows, limit, path, 3);
        let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|v| v * v).sum::<f64>().sqrt();
        let off = norm(&mut got.iter().zip(&want).map(|(g, w)| f64::from(*g) - w));
        let off = off / norm(&mut want.iter().copied());
        assert!(off < if path == Path::Amx { 4e-3 } else { 1e-6 }, "{path:?} {:?}: {off:e}", SIZES[size]);
    }
}

#[rstest]
fn f32_paths_and_any_threads_give_the_same_bits(#[values(0, 1, 2)] size: usize) {
    let mut rng = Random(12);
    let layer = Layer::new(SIZES[size], &mut rng);
    let rows = Rows::new(40, SIZES[size].width, &mut rng);
    let plain = bits(&run(&layer.pack(Path::Scalar), &rows, 10.0, Path::Scalar, 1));
    for path in Path::available() {
        let packed = layer.pack(path);
        let want = bits(&run(&packed, &rows, 10.0, path, 1));
        assert!(path == Path::Amx || want == plain, "{path:?}");
        for threads in [2, 3, 5, 16] {
            assert!(bits(&run(&packed, &rows, 10.0, path, threads)) == want, "{path:?}, {threads} threads");
        }
    }
}

#[test]
fn a_row_depends_on_itself_alone() {
    let mut rng = Random(13);
    let width = SIZES[0].width;
    let layer = Layer::new(SIZES[0], &mut rng);
    let rows = Rows::new(96, width, &mut rng);
    for path in Path::available() {
        let packed = layer.pack(path);
        let alone: Vec<Vec<u32>> =
            (0..96).map(|r| bits(&run(&packed, &rows.some(r..r + 1), 10.0, path, 1))).collect();
        for n in (1..=32).chain([96]) {
            for shift in [0, 5, 40].map(|s: usize| s.min(96 - n)) {
                let mut some = rows.some(shift..shift + n);
                let got = bits(&run(&packed, &some, 10.0, path, 2));
                assert!(got == alone[shift..shift + n].concat(), "{path:?} n={n} shift={shift}");
                let kept = 7 % n;
                for (r, row) in some.x.chunks_exact_mut(width).enumerate() {
                    if r != kept {
                        row.fill(f32::NAN);
                    }
                }
                let got = run(&packed, &some, 10.0, path, 2);
                for (r, row) in got.chunks_exact(width).enumerate() {
                    if r == kept {
                        assert!(bits(row) == alone[shift + r], "{path:?} n={n} among NaN");
                    } else {
                        assert!(row.iter().all(|v| v.is_nan()), "{path:?} n={n} row {r} lost its NaN");
                    }
                }
            }
        }
    }
}

#[test]
fn unknown_experts_are_named_and_add_nothing() {
    let mut rng = Random(14);
    let layer = Layer::new(SIZES[0], &mut rng);
    let mut rows = Rows::new(4, SIZES[0].width, &mut rng);
    let packed = layer.pack(Path::Scalar);
    let mut without = rows.clone();
    without.weights[2 * TOP_K + 2] = 0.0;
    let want = run(&packed, &without, 0.0, Path::Scalar, 2);
    rows.experts[2 * TOP_K + 2] = EXPERTS as u32;
    let got = run(&packed, &rows, 0.0, Path::Scalar, 2);
    assert_eq!(got, want);
    let (routed, shared) = &packed;
    let args = MoeArgs {
        n: 4,
        x: RowsPtr { ptr: rows.x.as_ptr(), stride: SIZES[0].width },
        experts: rows.experts.as_ptr(),
        weights: rows.weights.as_ptr(),
        top_k: TOP_K,
        routed,
        shared: shared.each_ref(),
        limit: 0.0,
        path: Path::Scalar,
        scratch: std::ptr::null_mut(),
        out: RowsMutPtr { ptr: std::ptr::null_mut(), stride: 0 },
    };
    // SAFETY: the list holds four rows.
    assert_eq!(unsafe { args.unknown_expert() }, Some(EXPERTS as u32));
}

#[test]
fn experts_of_other_sizes_are_refused() {
    let mut rng = Random(15);
    let pack = |expert: &[Stored; 3]| expert.each_ref().map(|m| m.pack(Path::Scalar));
    let (a, b) = (expert(64, 32, true, &mut rng), expert(64, 64, true, &mut rng));
    let error = |what, expected: &str, found: &str| {
        let (expected, found) = (expected.into(), found.into());
        DeviceError::Shape { op: "experts", what, expected, found }
    };
    let refused = PackedExperts::new(vec![pack(&a), pack(&b)]).unwrap_err();
    assert_eq!(refused, error("experts", "32 x 64 in 1 groups", "64 x 64 in 1 groups"));
    assert_eq!(PackedExperts::new(vec![]).unwrap_err(), error("experts", "1 or more", "0"));
}
