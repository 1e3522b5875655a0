//! Arguments of operations after their sizes were checked.

use std::fmt::Display;

use tokenfare_device::{Buffer, Cache, CacheFormat, DeviceError, Element, Result, View};

use crate::{Buf, Cpu};

/// Checked rows of f32.
#[derive(Clone)]
pub(crate) struct Rows {
    buf: Buf<f32>,
    at: usize,
    /// Values from one row to the next.
    pub stride: usize,
    /// Values a row.
    pub width: usize,
}

impl Rows {
    /// First value of row `r`.
    ///
    /// # Safety
    /// `r` is below the number of rows that the operation was checked for.
    #[inline(always)]
    pub unsafe fn row(&self, r: usize) -> *mut f32 {
        // SAFETY: the constructor checked that the rows lie inside the buffer.
        unsafe { self.buf.ptr().add(self.at + r * self.stride) }
    }
}

/// A checked cache.
#[derive(Clone)]
pub(crate) struct Packed {
    bytes: Buf<u8>,
    /// How a row is stored.
    pub format: CacheFormat,
    /// Values a row.
    pub width: usize,
    /// Number of rows.
    pub rows: usize,
    stride: usize,
}

impl Packed {
    /// First byte of row `i`.
    ///
    /// # Safety
    /// `i < self.rows`.
    #[inline(always)]
    pub unsafe fn row(&self, i: usize) -> *mut u8 {
        // SAFETY: `rows` rows of `stride` bytes lie inside the buffer.
        unsafe { self.bytes.ptr().add(i * self.stride) }
    }

    /// Bytes of a row.
    pub fn stride(&self) -> usize {
        self.stride
    }
}

/// Checks the arguments of one operation, which it names in errors.
#[derive(Clone, Copy)]
pub(crate) struct Check {
    pub op: &'static str,
    pub n: usize,
}

impl Check {
    /// Refuses more rows than the device was made for.
    pub fn new(op: &'static str, n: usize, max_rows: usize) -> Result<Self> {
        let check = Self { op, n };
        check.that("n", n <= max_rows, format_args!("at most {max_rows}"), n)?;
        Ok(check)
    }

    /// An error unless `holds`.
    pub fn that(
        &self,
        what: &'static str,
        holds: bool,
        expected: impl Display,
        found: impl Display,
    ) -> Result<()> {
        if holds {
            return Ok(());
        }
        Err(DeviceError::Shape {
            op: self.op,
            what,
            expected: expected.to_string(),
            found: found.to_string(),
        })
    }

    /// `n` rows of `width` values that are read.
    pub fn input(&self, what: &'static str, view: View<'_, Cpu>, width: usize) -> Result<Rows> {
        self.that(
            what,
            view.width == width && width > 0,
            format_args!("rows of {width} values"),
            view.width,
        )?;
        let end = self.n.checked_sub(1).map_or(Some(0), |last| {
            last.checked_mul(view.stride)?.checked_add(view.at)?.checked_add(view.width)
        });
        let len = view.buf.len();
        self.that(
            what,
            end.is_some_and(|end| end <= len),
            format_args!("{} rows of {width} from {} in steps of {}", self.n, view.at, view.stride),
            format_args!("{len} values"),
        )?;
        Ok(Rows { buf: view.buf.clone(), at: view.at, stride: view.stride, width })
    }

    /// `n` rows of `width` values that are written, apart from each other.
    pub fn output(&self, what: &'static str, view: View<'_, Cpu>, width: usize) -> Result<Rows> {
        let rows = self.input(what, view, width)?;
        self.that(
            what,
            self.n < 2 || rows.stride >= width,
            format_args!("a stride of {width} or more"),
            rows.stride,
        )?;
        Ok(rows)
    }

    /// A dense buffer of `per_row` elements for each row.
    pub fn dense<T: Element>(&self, what: &'static str, buf: &Buf<T>, per_row: usize) -> Result<Buf<T>> {
        let needed = self.n.saturating_mul(per_row);
        self.that(what, buf.len() >= needed, format_args!("at least {needed} elements"), buf.len())?;
        Ok(buf.clone())
    }

    /// A weight of exactly `len` elements.
    pub fn weight<T: Element>(&self, what: &'static str, buf: &Buf<T>, len: usize) -> Result<Buf<T>> {
        self.that(what, buf.len() == len, len, buf.len())?;
        Ok(buf.clone())
    }

    /// A cache of rows of `width` values.
    pub fn cache(&self, what: &'static str, cache: &Cache<Cpu>, width: usize) -> Result<Packed> {
        let holds = cache.width == width && width > 0 && width.is_multiple_of(32);
        self.that(what, holds, format_args!("rows of {width} values, a multiple of 32"), cache.width)?;
        let stride = cache.format.row_bytes(width);
        let rows = cache.bytes.len() / stride;
        Ok(Packed { bytes: cache.bytes.clone(), format: cache.format, width, rows, stride })
    }

    /// That rotated values are pairs at the end of a head of `dim`.
    pub fn rotated(&self, rope_dims: usize, dim: usize) -> Result<()> {
        let holds = rope_dims <= dim && rope_dims.is_multiple_of(2);
        self.that("rope_dims", holds, format_args!("an even number up to {dim}"), rope_dims)
    }

    /// Width of one of `parts` equal parts of `width` values.
    pub fn split(&self, what: &'static str, width: usize, parts: usize) -> Result<usize> {
        let holds = parts > 0 && width >= parts && width.is_multiple_of(parts);
        self.that(what, holds, format_args!("a multiple of {parts}"), width)?;
        Ok(width / parts)
    }
}
