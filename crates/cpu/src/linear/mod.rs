//! Linear layers over packed weights.
//!
//! A matrix is cut into tiles of sixteen output features, and each tile into blocks of 32 inputs. One layout serves
//! every instruction set (`decode`). The f32 kernels (`rows`) have one order of sums: in each block one chain over
//! the even and one over the odd inputs, then `acc = (even + odd) * scale + acc`. AMX tiles (`amx`) round inputs to
//! bf16 and sum in the hardware's order, block after block. Neither order depends on the rows of a launch.

#[cfg(target_arch = "x86_64")]
mod amx;
mod decode;
mod pack;
mod rows;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use crate::{HugeBytes, Path, Scratch};

/// Output features of a tile.
pub const FEATURES: usize = 16;

/// Inputs of a block.
pub(crate) const INPUTS: usize = 32;

/// Rows that one reading of the weights serves.
pub(crate) const fn rows_per_pass(path: Path) -> usize {
    match path {
        #[cfg(target_arch = "x86_64")]
        Path::Amx => amx::ROWS,
        _ => rows::ROW_BLOCK,
    }
}

/// Rows to read: row `r` starts at `ptr + r * stride`, counted in f32.
#[derive(Debug, Clone, Copy)]
pub struct RowsPtr {
    /// First value of row 0.
    pub ptr: *const f32,
    /// Values from one row to the next.
    pub stride: usize,
}

/// Rows to write: row `r` starts at `ptr + r * stride`, counted in f32.
#[derive(Debug, Clone, Copy)]
pub struct RowsMutPtr {
    /// First value of row 0.
    pub ptr: *mut f32,
    /// Values from one row to the next.
    pub stride: usize,
}

/// The rows of one launch; with a list, launch row `r` is row `list[r]` of the memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Launch<'a> {
    /// Number of rows.
    pub n: usize,
    /// Inputs.
    pub x: RowsPtr,
    /// Which rows of `x`.
    pub x_rows: Option<&'a [u32]>,
    /// Outputs.
    pub y: RowsMutPtr,
    /// Which rows of `y`.
    pub y_rows: Option<&'a [u32]>,
}

impl Launch<'_> {
    /// First input of row `r`.
    ///
    /// # Safety
    /// Row `r` is in the launch and its memory.
    #[inline(always)]
    unsafe fn x(&self, r: usize) -> *const f32 {
        let row = self.x_rows.map_or(r, |list| list[r] as usize);
        // SAFETY: the caller gives a row inside the memory.
        unsafe { self.x.ptr.add(row * self.x.stride) }
    }

    /// First output of row `r`.
    ///
    /// # Safety
    /// Row `r` is in the launch and its memory.
    #[inline(always)]
    unsafe fn y(&self, r: usize) -> *mut f32 {
        let row = self.y_rows.map_or(r, |list| list[r] as usize);
        // SAFETY: the caller gives a row inside the memory.
        unsafe { self.y.ptr.add(row * self.y.stride) }
    }
}

/// The stored number format of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Fp4,
    Fp8,
    Bf16,
    F32,
}

/// The kernel of a matrix; depends on the weights and the path alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kernel {
    /// f32 sums on the path's vectors.
    Rows,
    /// AMX tiles, scales folded into the bf16 weights.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "tiles are x86 only"))]
    AmxFolded,
    /// AMX tiles of one block each, scaled in f32: for scales beyond what folding keeps exact.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "tiles are x86 only"))]
    AmxScaled,
}

/// Sixteen output features, or fewer at the end of a group or of an FP8 scale block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tile {
    /// First output feature.
    row: u32,
    /// Features that exist.
    live: u32,
    /// Group that the inputs come from.
    group: u32,
}

/// A packed linear weight; a clone shares the memory.
#[derive(Debug, Clone)]
pub struct Packed {
    rows: usize,
    cols: usize,
    groups: usize,
    path: Path,
    format: Format,
    kernel: Kernel,
    tiles: Arc<[Tile]>,
    /// The blocks of all tiles, then their scale bytes.
    bytes: Arc<HugeBytes>,
    scales_at: usize,
}

impl Packed {
    /// Output features.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Input features of one group.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Number of groups; `x` has `groups * cols` values a row.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Number of tiles, the units that threads share.
    pub fn tiles(&self) -> usize {
        self.tiles.len()
    }

    /// Bytes that a launch reads for each tile.
    pub fn tile_bytes(&self) -> usize {
        self.blocks() * (self.format.block_bytes() + self.format.scale_bytes())
    }

    /// Whether tiles of the AMX unit multiply this matrix.
    pub(crate) fn on_amx(&self) -> bool {
        self.kernel != Kernel::Rows
    }

    /// Blocks of a tile.
    pub(crate) fn blocks(&self) -> usize {
        self.cols.div_ceil(INPUTS)
    }

    /// First byte of a tile's blocks.
    fn codes(&self, tile: usize) -> *const u8 {
        self.bytes.as_slice()[tile * self.blocks() * self.format.block_bytes()..].as_ptr()
    }

    /// First scale byte of a tile.
    fn scales(&self, tile: usize) -> *const u8 {
        self.bytes.as_slice()[self.scales_at + tile * self.blocks() * self.format.scale_bytes()..].as_ptr()
    }

    /// `y[r] = W x[r]` for the features of `tiles`: writes those features of each row and nothing else. The bits of a
    /// row depend on that row alone.
    ///
    /// # Safety
    /// `n` rows of `x` hold `groups * cols` readable values, `n` rows of `y` hold `rows` values that nothing else
    /// reads or writes in these features; `tiles` ends at most at [`Packed::tiles`]; the machine has the path that the
    /// weight was packed for.
    pub unsafe fn run(
        &self,
        n: usize,
        x: RowsPtr,
        y: RowsMutPtr,
        tiles: Range<usize>,
        scratch: &mut Scratch,
    ) {
        // SAFETY: as the caller states.
        unsafe { self.launch(Launch { n, x, x_rows: None, y, y_rows: None }, tiles, scratch) }
    }

    /// [`Packed::run`] over listed rows.
    ///
    /// # Safety
    /// As [`Packed::run`], for the listed rows.
    pub(crate) unsafe fn launch(&self, launch: Launch<'_>, tiles: Range<usize>, scratch: &mut Scratch) {
        debug_assert!(tiles.end <= self.tiles(), "tiles of the matrix");
        if launch.n == 0 || tiles.is_empty() {
            return;
        }
        // SAFETY: as the caller states.
        unsafe {
            match self.kernel {
                Kernel::Rows => rows::run(self, launch, tiles, scratch),
                #[cfg(target_arch = "x86_64")]
                Kernel::AmxFolded | Kernel::AmxScaled => amx::run(self, launch, tiles, scratch),
                #[cfg(not(target_arch = "x86_64"))]
                Kernel::AmxFolded | Kernel::AmxScaled => unreachable!("packed for another architecture"),
            }
        }
    }
}
