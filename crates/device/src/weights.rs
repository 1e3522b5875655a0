//! Weights as a checkpoint stores them, on their way to a device's own layout.

/// The stored values of a matrix, row-major `[rows, cols]`, in the bytes of the release checkpoint.
#[derive(Debug, Clone, Copy)]
pub enum Matrix<'a> {
    /// E2M1 packed two a byte (`codes[row][k/2]`, value 2k in the low nibble), one E8M0 byte per 32 columns:
    /// `scales[row][k/32]`.
    Fp4 {
        /// `rows * cols / 2` bytes.
        codes: &'a [u8],
        /// `rows * cols / 32` bytes.
        scales: &'a [u8],
    },
    /// E4M3, one E8M0 byte per 32x32 block: `scales[row/32][k/32]`.
    Fp8 {
        /// `rows * cols` bytes.
        codes: &'a [u8],
        /// `ceil(rows/32) * ceil(cols/32)` bytes.
        scales: &'a [u8],
    },
    /// bf16, little endian, `2 * rows * cols` bytes.
    Bf16(&'a [u8]),
    /// f32, little endian, `4 * rows * cols` bytes.
    F32(&'a [u8]),
}

/// A linear weight `y = x W^T` before packing.
///
/// With `groups > 1` the weight is block diagonal: group `g` maps columns `g*cols..` of `x` to outputs
/// `g*rows/groups..` through rows `g*rows/groups..` of the matrix (the grouped output projection `wo_a`).
#[derive(Debug, Clone, Copy)]
pub struct LinearData<'a> {
    /// Output features, all groups together.
    pub rows: usize,
    /// Input features of one group; a multiple of 32 for FP4 and FP8.
    pub cols: usize,
    /// Number of groups, which divides `rows`.
    pub groups: usize,
    /// The values.
    pub values: Matrix<'a>,
}
