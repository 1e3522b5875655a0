//! Rows: vectors with tails, sums over a row, copies.

use tokenfare_device::{Buffer, NONE, Result, View};

use crate::args::{Check, Rows};
use crate::memory::HugeBytes;
use crate::simd::F32x16;
use crate::step::{COLUMNS, Kernel, Part};
use crate::{Buf, Cpu};
use std::ops::Range;
use std::sync::Arc;

/// Loads the first `n` values, at most sixteen; lanes beyond are zero.
///
/// # Safety
/// `min(n, 16)` values are readable; needs `V`'s instruction set.
#[inline(always)]
pub(crate) unsafe fn load<V: F32x16>(p: *const f32, n: usize) -> V {
    // SAFETY: at most `n` values are read from `p`, and sixteen from the array.
    unsafe {
        if n >= 16 {
            return V::load(p);
        }
        let mut lanes = [0.0; 16];
        std::ptr::copy_nonoverlapping(p, lanes.as_mut_ptr(), n);
        V::load(lanes.as_ptr())
    }
}

/// Stores the first `n` lanes, at most sixteen.
///
/// # Safety
/// `min(n, 16)` values are writable; needs `V`'s instruction set.
#[inline(always)]
pub(crate) unsafe fn store<V: F32x16>(v: V, p: *mut f32, n: usize) {
    // SAFETY: at most `n` values are written to `p`, and sixteen to the array.
    unsafe {
        if n >= 16 {
            return v.store(p);
        }
        let mut lanes = [0.0; 16];
        v.store(lanes.as_mut_ptr());
        std::ptr::copy_nonoverlapping(lanes.as_ptr(), p, n);
    }
}

/// `sum a_i b_i c_i` over `n` values, in four interleaved chains of sixteen lanes.
///
/// # Safety
/// `n` values are readable at each pointer; needs `V`'s instruction set.
#[inline(always)]
pub(crate) unsafe fn sum_products<V: F32x16>(
    a: *const f32,
    b: *const f32,
    c: Option<*const f32>,
    n: usize,
) -> f32 {
    // SAFETY: every load stays below `n`.
    unsafe {
        let mut chains = [V::splat(0.0); 4];
        let mut i = 0;
        while i < n {
            let mut x = load::<V>(a.add(i), n - i);
            if let Some(c) = c {
                x = x.mul(load(c.add(i), n - i));
            }
            let chain = &mut chains[i / 16 % 4];
            *chain = x.fma(load(b.add(i), n - i), *chain);
            i += 16;
        }
        chains[0].add(chains[1]).add(chains[2].add(chains[3])).sum()
    }
}

/// A range of columns of one row.
pub(crate) struct Piece {
    pub row: usize,
    pub columns: Range<usize>,
}

/// This thread's pieces of `n` rows of `width`: whole ranges of [`COLUMNS`], for operations without sums over a row.
#[inline(always)]
pub(crate) fn pieces(part: &Part<'_>, n: usize, width: usize) -> impl Iterator<Item = Piece> {
    let per_row = width.div_ceil(COLUMNS);
    part.share(n * per_row).map(move |unit| {
        let start = unit % per_row * COLUMNS;
        Piece { row: unit / per_row, columns: start..width.min(start + COLUMNS) }
    })
}

/// `y += x`.
pub(crate) struct Add {
    pub n: usize,
    pub x: Rows,
    pub y: Rows,
}

impl Add {
    pub fn new(check: Check, x: View<'_, Cpu>, y: View<'_, Cpu>) -> Result<Self> {
        Ok(Self { n: check.n, x: check.input("x", x, y.width)?, y: check.output("y", y, y.width)? })
    }
}

impl Kernel for Add {
    #[inline(always)]
    unsafe fn run<V: F32x16>(&self, _stage: usize, part: &mut Part<'_>) {
        for Piece { row, columns } in pieces(part, self.n, self.x.width) {
            // SAFETY: checked rows; pieces of threads do not overlap.
            unsafe {
                let (x, y) = (self.x.row(row), self.y.row(row));
                let mut i = columns.start;
                while i < columns.end {
                    let left = columns.end - i;
                    store(load::<V>(y.add(i), left).add(load(x.add(i), left)), y.add(i), left);
                    i += 16;
                }
            }
        }
    }
}

/// `y[r] = x[index[r]]`.
pub(crate) struct SelectRows {
    pub n: usize,
    pub x: Rows,
    /// Rows that the buffer of `x` holds.
    pub held: usize,
    pub index: Buf<u32>,
    pub y: Rows,
}

impl SelectRows {
    pub fn new(check: Check, x: View<'_, Cpu>, index: &Buf<u32>, y: View<'_, Cpu>) -> Result<Self> {
        let any = Check { n: 0, ..check };
        Ok(Self {
            n: check.n,
            held: held(&x),
            x: any.input("x", x, y.width)?,
            index: check.dense("index", index, 1)?,
            y: check.output("y", y, y.width)?,
        })
    }
}

/// Rows of a view that lie inside its buffer.
fn held(view: &View<'_, Cpu>) -> usize {
    match view.buf.len().checked_sub(view.at).and_then(|room| room.checked_sub(view.width)) {
        Some(room) => room.checked_div(view.stride).map_or(usize::MAX, |steps| steps + 1),
        None => 0,
    }
}

impl Kernel for SelectRows {
    #[inline(always)]
    unsafe fn run<V: F32x16>(&self, _stage: usize, part: &mut Part<'_>) {
        let (width, held) = (self.y.width, self.held);
        for r in part.share(self.n) {
            // SAFETY: `index` holds `n` elements, and rows below `held` lie inside the buffer of `x`.
            unsafe {
                let from = self.index.get(r);
                if from != NONE && (from as usize) < held {
                    std::ptr::copy(self.x.row(from as usize), self.y.row(r), width);
                    continue;
                }
                if from != NONE {
                    part.fault.index("select_rows", "index", from as usize, held);
                }
                std::ptr::write_bytes(self.y.row(r), 0, width);
            }
        }
    }
}

/// A packed bf16 table.
#[derive(Debug, Clone)]
pub struct Table(Arc<TableRows>);

#[derive(Debug)]
struct TableRows {
    rows: usize,
    width: usize,
    bf16: HugeBytes,
}

impl Table {
    /// Copies `2 * rows * width` little-endian bytes.
    pub(crate) fn new(rows: usize, width: usize, bytes: &[u8]) -> Result<Self> {
        let needed = rows.checked_mul(width).and_then(|values| values.checked_mul(2));
        let check = Check { op: "table", n: rows };
        check.that(
            "bf16 bytes",
            needed == Some(bytes.len()),
            format_args!("2 x {rows} x {width}"),
            bytes.len(),
        )?;
        let mut bf16 = HugeBytes::zeroed(bytes.len(), "a table")?;
        for (to, from) in bf16.as_mut_slice().as_chunks_mut::<2>().0.iter_mut().zip(bytes.as_chunks::<2>().0)
        {
            *to = u16::from_le_bytes(*from).to_ne_bytes();
        }
        Ok(Self(Arc::new(TableRows { rows, width, bf16 })))
    }
}

/// Rows of a table by id, several copies beside each other.
pub(crate) struct Gather {
    pub n: usize,
    pub table: Table,
    pub ids: Buf<u32>,
    pub copies: usize,
    pub out: Rows,
}

impl Gather {
    pub fn new(
        check: Check,
        table: &Table,
        ids: &Buf<u32>,
        copies: usize,
        out: View<'_, Cpu>,
    ) -> Result<Self> {
        let width = copies.saturating_mul(table.0.width);
        Ok(Self {
            n: check.n,
            table: table.clone(),
            ids: check.dense("ids", ids, 1)?,
            copies,
            out: check.output("out", out, width)?,
        })
    }
}

impl Kernel for Gather {
    #[inline(always)]
    unsafe fn run<V: F32x16>(&self, _stage: usize, part: &mut Part<'_>) {
        let TableRows { rows, width, bf16 } = &*self.table.0;
        for r in part.share(self.n) {
            // SAFETY: `ids` holds `n` elements, the id is below the table's rows, `out` holds `copies * width` a row.
            unsafe {
                let (id, out) = (self.ids.get(r) as usize, self.out.row(r));
                if id >= *rows {
                    part.fault.index("gather", "ids", id, *rows);
                    std::ptr::write_bytes(out, 0, self.out.width);
                    continue;
                }
                let row = bf16.as_ptr().cast::<u16>().add(id * width);
                for i in 0..*width {
                    *out.add(i) = f32::from_bits(u32::from(*row.add(i)) << 16);
                }
                for copy in 1..self.copies {
                    std::ptr::copy_nonoverlapping(out, out.add(copy * width), *width);
                }
            }
        }
    }
}
