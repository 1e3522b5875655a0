use rstest::rstest;
use tokenfare_device::format::E2M1;
use tokenfare_device::{DeviceError, LinearData, Matrix};

use super::{Kernel, Packed, RowsMutPtr, RowsPtr};
use crate::random::Random;
use crate::{Path, Scratch};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Fp4,
    Fp8,
    Bf16,
    F32,
}

/// A matrix in the bytes of a checkpoint.
struct Case {
    kind: Kind,
    rows: usize,
    cols: usize,
    groups: usize,
    codes: Vec<u8>,
    scales: Vec<u8>,
}

impl Case {
    /// Random values, scale bytes drawn from `scales`.
    fn new(kind: Kind, rows: usize, cols: usize, groups: usize, scales: &[u8], rng: &mut Random) -> Self {
        let count = rows * cols;
        let codes = match kind {
            Kind::Fp4 => (0..count / 2).map(|_| rng.next() as u8).collect(),
            Kind::Fp8 => (0..count)
                .map(|i| match rng.next() as u8 {
                    nan if nan & 0x7F == 0x7F => nan ^ 1,
                    // Every other block holds neither zeros nor subnormal numbers.
                    small if small & 0x78 == 0 && (i % cols / 32).is_multiple_of(2) => small | 8,
                    code => code,
                })
                .collect(),
            Kind::Bf16 => (0..count).flat_map(|_| rng.unit().to_le_bytes()[2..].to_vec()).collect(),
            Kind::F32 => (0..count).flat_map(|_| rng.unit().to_le_bytes()).collect(),
        };
        let count = match kind {
            Kind::Fp4 => count / 32,
            Kind::Fp8 => rows.div_ceil(32) * cols.div_ceil(32),
            Kind::Bf16 | Kind::F32 => 0,
        };
        let scales = (0..count).map(|_| scales[rng.below(scales.len())]).collect();
        Self { kind, rows, cols, groups, codes, scales }
    }

    fn data(&self) -> LinearData<'_> {
        let (codes, scales) = (self.codes.as_slice(), self.scales.as_slice());
        let values = match self.kind {
            Kind::Fp4 => Matrix::Fp4 { codes, scales },
            Kind::Fp8 => Matrix::Fp8 { codes, scales },
            Kind::Bf16 => Matrix::Bf16(codes),
            Kind::F32 => Matrix::F32(codes),
        };
        LinearData { rows: self.rows, cols: self.cols, groups: self.groups, values }
    }

    fn pack(&self, path: Path) -> Packed {
        Packed::pack(self.data(), path).unwrap()
    }

    /// The exact value of a weight.
    fn weight(&self, row: usize, col: usize) -> f64 {
        let at = row * self.cols + col;
        let scale = |byte: u8| 2f64.powi(i32::from(byte) - 127);
        match self.kind {
            Kind::Fp4 => {
                let code = self.codes[at / 2] >> (4 * (at % 2)) & 15;
                f64::from(E2M1[usize::from(code)]) * scale(self.scales[at / 32])
            }
            Kind::Fp8 => {
                let code = self.codes[at];
                let (exponent, mantissa) = (i32::from(code >> 3 & 15), f64::from(code & 7));
                let size = if exponent == 0 {
                    mantissa * 2f64.powi(-9)
                } else {
                    (8.0 + mantissa) * 2f64.powi(exponent - 10)
                };
                let sign = if code & 0x80 != 0 { -1.0 } else { 1.0 };
                sign * size * scale(self.scales[row / 32 * self.cols.div_ceil(32) + col / 32])
            }
            Kind::Bf16 => {
                let bits = u16::from_le_bytes([self.codes[2 * at], self.codes[2 * at + 1]]);
                f64::from(f32::from_bits(u32::from(bits) << 16))
            }
            Kind::F32 => f64::from(f32::from_le_bytes(self.codes[4 * at..4 * at + 4].try_into().unwrap())),
        }
    }

    /// `y = x W^T` in f64.
    fn exact(&self, x: &[f32]) -> Vec<f64> {
        let width = self.groups * self.cols;
        let mut y = Vec::new();
        for x in x.chunks_exact(width) {
            for row in 0..self.rows {
                let group = row / (self.rows / self.groups);
                let x = &x[group * self.cols..];
                y.push((0..self.cols).map(|k| self.weight(row, k) * f64::from(x[k])).sum());
            }
        }
        y
    }
}

const GUARD: f32 = 12345.0;

/// Runs tile ranges of `cut` tiles, rows a little apart, and checks that nothing else was written.
fn run(packed: &Packed, x: &[f32], cut: usize) -> Vec<f32> {
    let (width, rows) = (packed.groups() * packed.cols(), packed.rows());
    let n = x.len() / width;
    let (x_stride, y_stride) = (width + 3, rows + 5);
    let mut apart = vec![f32::NAN; n * x_stride];
    for (to, from) in apart.chunks_exact_mut(x_stride).zip(x.chunks_exact(width)) {
        to[..width].copy_from_slice(from);
    }
    let mut y = vec![GUARD; n * y_stride];
    let mut scratch = Scratch::new();
    let (x, to) = (
        RowsPtr { ptr: apart.as_ptr(), stride: x_stride },
        RowsMutPtr { ptr: y.as_mut_ptr(), stride: y_stride },
    );
    let mut first = 0;
    while first < packed.tiles() {
        let tiles = first..packed.tiles().min(first + cut);
        first = tiles.end;
        // SAFETY: the rows have the sizes of the matrix, and only paths of this machine are packed for.
        unsafe { packed.run(n, x, to, tiles, &mut scratch) };
    }
    let mut out = Vec::new();
    for row in y.chunks_exact(y_stride) {
        assert_eq!(row[rows..], [GUARD; 5], "written past the last feature");
        out.extend(&row[..rows]);
    }
    out
}

fn inputs(n: usize, case: &Case, factor: f32, rng: &mut Random) -> Vec<f32> {
    (0..n * case.groups * case.cols).map(|_| rng.unit() * factor).collect()
}

fn to_bf16(x: &[f32]) -> Vec<f32> {
    x.iter().map(|v| half::bf16::from_f32(*v).to_f32()).collect()
}

fn bits(y: &[f32]) -> Vec<u32> {
    y.iter().map(|v| v.to_bits()).collect()
}

/// Norm of the error over the norm of the exact result.
fn error(got: &[f32], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    let sum = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let off = sum(&mut got.iter().zip(want).map(|(g, w)| f64::from(*g) - w));
    off / sum(&mut want.iter().copied())
}

/// Rows, columns and groups: odd row counts, ragged groups, tails of columns where the format allows them.
fn shapes(kind: Kind) -> Vec<(usize, usize, usize)> {
    let mut shapes =
        vec![(1, 64, 1), (8, 32, 1), (24, 96, 1), (40, 544, 1), (96, 160, 2), (48, 64, 4), (130, 96, 1)];
    if matches!(kind, Kind::Bf16 | Kind::F32) {
        shapes.extend([(17, 1, 1), (20, 33, 2), (5, 300, 1)]);
    }
    shapes
}

const USUAL: [u8; 8] = [116, 117, 118, 119, 120, 121, 122, 123];

#[rstest]
fn every_path_is_near_the_exact_product(#[values(Kind::Fp4, Kind::Fp8, Kind::Bf16, Kind::F32)] kind: Kind) {
    let mut rng = Random(1);
    for (rows, cols, groups) in shapes(kind) {
        let case = Case::new(kind, rows, cols, groups, &USUAL, &mut rng);
        let width = groups * cols;
        let x = inputs(25, &case, 3.0, &mut rng);
        for path in Path::available() {
            let packed = case.pack(path);
            assert_eq!(packed.on_amx(), path == Path::Amx && kind != Kind::F32);
            let limit = if packed.on_amx() { 4e-3 } else { 1e-6 };
            for (x, limit) in [(x.clone(), limit), (to_bf16(&x), 1e-6)] {
                let launches = [&x[..width], &x[width..6 * width], &x[6 * width..]];
                let y: Vec<f32> = launches.iter().flat_map(|x| run(&packed, x, 99)).collect();
                let off = error(&y, &case.exact(&x));
                assert!(off < limit, "{path:?} {rows}x{cols}/{groups}: {off:e}");
            }
        }
    }
}

#[rstest]
fn f32_paths_give_the_same_bits(#[values(Kind::Fp4, Kind::Fp8, Kind::Bf16, Kind::F32)] kind: Kind) {
    let mut rng = Random(2);
    for (rows, cols, groups) in shapes(kind) {
        let case = Case::new(kind, rows, cols, groups, &[0, 1, 90, 127, 130, 200], &mut rng);
        let x = inputs(70, &case, 1.0, &mut rng);
        let want = bits(&run(&case.pack(Path::Scalar), &x, 99));
        for path in Path::available().into_iter().filter(|path| *path != Path::Amx) {
            assert!(bits(&run(&case.pack(path), &x, 99)) == want, "{path:?} {rows}x{cols}/{groups}");
        }
    }
}

#[rstest]
fn a_row_depends_on_itself_alone(
    #[values(Kind::Fp4, Kind::Fp8, Kind::Bf16, Kind::F32)] kind: Kind,
    #[values(&USUAL, &[0, 120, 254])] scales: &[u8],
) {
    let mut rng = Random(3);
    let case = Case::new(kind, 88, 96, 2, scales, &mut rng);
    let width = case.groups * case.cols;
    let x = inputs(96, &case, 1.0, &mut rng);
    for path in Path::available() {
        let packed = case.pack(path);
        let alone: Vec<u32> = x.chunks_exact(width).flat_map(|row| bits(&run(&packed, row, 99))).collect();
        for n in (1..=32).chain([96]) {
            for shift in [0, 1, 3, 17] {
                let mut moved = x.clone();
                moved.rotate_left(shift * width);
                let mut want = alone.clone();
                want.rotate_left(shift * case.rows);
                moved.truncate(n * width);
                want.truncate(n * case.rows);
                assert!(bits(&run(&packed, &moved, 99)) == want, "{path:?} n={n} shift={shift}");
                let kept = shift % n;
                for (r, row) in moved.chunks_exact_mut(width).enumerate() {
                    if r != kept {
                        row.fill(f32::NAN);
                    }
                }
                let got = run(&packed, &moved, 99);
                for (r, row) in got.chunks_exact(case.rows).enumerate() {
                    if r == kept {
                        assert!(bits(row) == want[r * case.rows..][..case.rows], "{path:?} n={n} among NaN");
                    } else {
                        assert!(row.iter().all(|v| v.is_nan()), "{path:?} n={n} row {r} lost its NaN");
                    }
                }
            }
        }
    }
}

#[rstest]
fn any_cut_of_the_tiles_gives_the_same_bits(
    #[values(Kind::Fp4, Kind::Fp8, Kind::Bf16, Kind::F32)] kind: Kind,
) {
    let mut rng = Random(4);
    let case = Case::new(kind, 200, 128, 2, &USUAL, &mut rng);
    for n in [1, 7, 16, 30, 70] {
        let x = inputs(n, &case, 1.0, &mut rng);
        for path in Path::available() {
            let packed = case.pack(path);
            let want = bits(&run(&packed, &x, 99));
            for cut in [1, 2, 3, 5, 6] {
                assert!(bits(&run(&packed, &x, cut)) == want, "{path:?} n={n} cut={cut}");
            }
        }
    }
}

#[rstest]
#[case(&[0], 64)]
#[case(&[1], 64)]
#[case(&[120], 0)]
#[case(&[254], -20)]
#[case(&[0, 1, 120], 20)]
#[case(&[0, 1, 120, 254], -20)]
fn extreme_scales_are_exact(
    #[case] scales: &[u8],
    #[case] exponent: i32,
    #[values(Kind::Fp4, Kind::Fp8)] kind: Kind,
) {
    let mut rng = Random(5);
    let case = Case::new(kind, 64, 128, 1, scales, &mut rng);
    let x = to_bf16(&inputs(9, &case, 2f32.powi(exponent), &mut rng));
    for path in Path::available() {
        let packed = case.pack(path);
        let wide = scales.iter().any(|s| *s != 120);
        assert_eq!(packed.kernel == Kernel::AmxScaled, path == Path::Amx && wide);
        let off = error(&run(&packed, &x, 99), &case.exact(&x));
        assert!(off < 1e-6, "{path:?}: {off:e}");
    }
}

/// Row `k` of the inputs is 1 at `k`, so output `[k][f]` is the weight `[f][k]` itself.
fn read_back(packed: &Packed) -> Vec<f32> {
    let cols = packed.cols();
    let x: Vec<f32> = (0..cols * cols).map(|i| if i % cols == i / cols { 1.0 } else { 0.0 }).collect();
    run(packed, &x, 99)
}

#[rstest]
fn every_code_is_decoded_exactly(
    #[values(Kind::Fp4, Kind::Fp8)] kind: Kind,
    #[values(0, 1, 63, 64, 120, 127, 190, 191, 240)] scale: u8,
) {
    let codes: Vec<u8> = match kind {
        Kind::Fp4 => (0..=255).cycle().take(16 * 16).collect(),
        _ => (0..=255).cycle().take(16 * 32).map(|c: u8| if c & 0x7F == 0x7F { 0 } else { c }).collect(),
    };
    let scales = vec![scale; if kind == Kind::Fp4 { 16 } else { 1 }];
    let case = Case { kind, rows: 16, cols: 32, groups: 1, codes, scales };
    for path in Path::available() {
        let got = read_back(&case.pack(path));
        for (k, row) in got.chunks_exact(16).enumerate() {
            for (f, value) in row.iter().enumerate() {
                let want = case.weight(f, k) as f32;
                assert!(*value == want, "{path:?}: weight [{f}][{k}] is {value}, expected {want}");
            }
        }
    }
}

#[test]
fn any_code_among_normal_fp8_numbers_is_decoded_exactly() {
    let mut rng = Random(9);
    for code in (0..=255_u8).filter(|code| code & 0x7F != 0x7F) {
        let mut case = Case::new(Kind::Fp8, 16, 32, 1, &USUAL, &mut rng);
        case.codes[rng.below(16 * 32)] = code;
        for path in Path::available() {
            let packed = case.pack(path);
            let normal = packed.bytes.as_slice()[packed.scales_at + 1];
            assert_eq!(normal, u8::from(code & 0x78 != 0), "{path:?}: the mark of a block with 0x{code:02X}");
            for (k, row) in read_back(&packed).chunks_exact(16).enumerate() {
                for (f, value) in row.iter().enumerate() {
                    let want = case.weight(f, k) as f32;
                    assert_eq!(*value, want, "{path:?}: weight [{f}][{k}] beside 0x{code:02X}");
                }
            }
        }
    }
}

#[test]
fn bf16_subnormals_are_kept() {
    let values: Vec<u8> = (0..16u16 * 32).flat_map(|i| (i % 128).to_le_bytes()).collect();
    let case = Case { kind: Kind::Bf16, rows: 16, cols: 32, groups: 1, codes: values, scales: vec![] };
    for path in Path::available() {
        let packed = case.pack(path);
        assert!(!packed.on_amx());
        for (k, row) in read_back(&packed).chunks_exact(16).enumerate() {
            for (f, value) in row.iter().enumerate() {
                assert_eq!(f64::from(*value), case.weight(f, k), "{path:?}");
            }
        }
    }
}

#[test]
fn a_scale_of_zeros_does_not_decide_the_kernel() {
    let mut rng = Random(6);
    let mut case = Case::new(Kind::Fp4, 16, 64, 1, &USUAL, &mut rng);
    case.codes[..16].fill(0x80);
    case.scales[0] = 1;
    assert!(Path::available().into_iter().all(|path| case.pack(path).kernel != Kernel::AmxScaled));
    case.codes[0] = 1;
    assert_eq!(case.pack(Path::Amx).kernel, Kernel::AmxScaled);
}

#[test]
fn nan_weights_are_refused_by_position() {
    let mut rng = Random(7);
    let refused = |case: &Case| match Packed::pack(case.data(), Path::Scalar) {
        Err(DeviceError::Weight(message)) => message,
        other => panic!("expected a refused weight, got {other:?}"),
    };
    for code in [0x7F, 0xFF] {
        let mut case = Case::new(Kind::Fp8, 40, 64, 1, &USUAL, &mut rng);
        case.codes[33 * 64 + 47] = code;
        assert_eq!(refused(&case), format!("the FP8 code of row 33, column 47 is 0x{code:02X} (NaN)"));
    }
    let mut case = Case::new(Kind::Fp8, 40, 64, 1, &USUAL, &mut rng);
    case.scales[3] = 255;
    assert_eq!(refused(&case), "the E8M0 scale of row 32, column 32 is 255 (NaN)");
    let mut case = Case::new(Kind::Fp4, 40, 64, 1, &USUAL, &mut rng);
    case.scales[2 * 20 + 1] = 255;
    assert_eq!(refused(&case), "the E8M0 scale of row 20, column 32 is 255 (NaN)");
}

#[test]
fn wrong_sizes_are_refused() {
    let mut rng = Random(8);
    let case = Case::new(Kind::Fp4, 16, 64, 1, &USUAL, &mut rng);
    let what = |data: LinearData<'_>| match Packed::pack(data, Path::Scalar) {
        Err(DeviceError::Shape { op, what, expected, found }) => format!("{op}: {what} {expected}, {found}"),
        other => panic!("expected a refused shape, got {other:?}"),
    };
    let data = case.data();
    assert_eq!(what(LinearData { rows: 15, ..data }), "linear_weight: FP4 codes 480 bytes, 512 bytes");
    assert_eq!(what(LinearData { cols: 48, ..data }), "linear_weight: columns a multiple of 32, 48");
    assert_eq!(what(LinearData { groups: 3, ..data }), "linear_weight: groups a divisor of 16 rows, 3");
    let values = Matrix::Fp4 { codes: &case.codes, scales: &case.scales[1..] };
    assert_eq!(what(LinearData { values, ..data }), "linear_weight: FP4 scales 32 bytes, 31 bytes");
}
