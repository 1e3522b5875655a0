//! The checks that each operation makes of its arguments.

use std::fmt::Display;

use super::Reference;
use super::memory::{HostBuffer, Rows};
use crate::{Buffer, Cache, DeviceError, Element, Result, View};

/// One call of an operation on `n` rows.
#[derive(Clone, Copy)]
pub(super) struct Launch {
    /// The operation's name in the trait.
    pub(super) op: &'static str,
    /// Rows.
    pub(super) n: usize,
}

impl Launch {
    pub(super) fn error(
        self,
        what: &'static str,
        expected: impl Display,
        found: impl Display,
    ) -> DeviceError {
        DeviceError::Shape { op: self.op, what, expected: expected.to_string(), found: found.to_string() }
    }

    /// That a size is the one needed.
    pub(super) fn same(self, what: &'static str, found: usize, expected: usize) -> Result<()> {
        if found == expected { Ok(()) } else { Err(self.error(what, expected, found)) }
    }

    /// Rows that are read: `width` values each, inside their buffer.
    pub(super) fn input(self, what: &'static str, view: View<'_, Reference>, width: usize) -> Result<Rows> {
        if view.width != width || width == 0 {
            return Err(self.error(
                what,
                format!("rows of {width} values"),
                format!("rows of {}", view.width),
            ));
        }
        if !view.fits(self.n) {
            let found = format!("{} values from {} by {}", view.buf.len(), view.at, view.stride);
            return Err(self.error(what, format!("{} rows of {width} values", self.n), found));
        }
        Ok(Rows::new(view))
    }

    /// Rows that are written: as [`Launch::input`], and apart from each other.
    pub(super) fn output(self, what: &'static str, view: View<'_, Reference>, width: usize) -> Result<Rows> {
        if self.n > 1 && view.stride < width {
            return Err(self.error(what, format!("a stride of at least {width}"), view.stride));
        }
        self.input(what, view, width)
    }

    /// A dense buffer of `per_row` elements for each row.
    pub(super) fn dense<T: Element>(
        self,
        what: &'static str,
        buf: &HostBuffer<T>,
        per_row: usize,
    ) -> Result<HostBuffer<T>> {
        if buf.len() < self.n * per_row {
            return Err(self.error(what, format!("at least {} elements", self.n * per_row), buf.len()));
        }
        Ok(buf.clone())
    }

    /// A weight of exactly `len` elements.
    pub(super) fn weight<T: Element>(
        self,
        what: &'static str,
        buf: &HostBuffer<T>,
        len: usize,
    ) -> Result<HostBuffer<T>> {
        self.same(what, buf.len(), len)?;
        Ok(buf.clone())
    }

    /// A cache of rows of `width` values.
    pub(super) fn cache(
        self,
        what: &'static str,
        cache: &Cache<Reference>,
        width: usize,
    ) -> Result<Cache<Reference>> {
        if cache.width != width || !width.is_multiple_of(32) || width == 0 {
            return Err(self.error(what, format!("rows of {width} values, a multiple of 32"), cache.width));
        }
        Ok(cache.clone())
    }

    /// That rotated values are pairs at the end of a head of `dim`.
    pub(super) fn rope_dims(self, rope_dims: usize, dim: usize) -> Result<()> {
        if rope_dims <= dim && rope_dims.is_multiple_of(2) {
            Ok(())
        } else {
            Err(self.error("rope_dims", format!("an even number up to {dim}"), rope_dims))
        }
    }

    /// Head width of rows of `width` values in `heads` heads.
    pub(super) fn per_head(self, what: &'static str, width: usize, heads: usize) -> Result<usize> {
        if heads > 0 && width >= heads && width.is_multiple_of(heads) {
            Ok(width / heads)
        } else {
            Err(self.error(what, format!("a multiple of {heads} heads"), width))
        }
    }

    /// Bytes of cache row `row`.
    pub(super) fn cache_row<'a>(
        self,
        what: &'static str,
        cache: &Cache<Reference>,
        bytes: &'a [u8],
        row: usize,
    ) -> Result<&'a [u8]> {
        let size = cache.format.row_bytes(cache.width);
        bytes
            .get(row * size..(row + 1) * size)
            .ok_or_else(|| self.error(what, format!("rows below {}", cache.rows()), format!("row {row}")))
    }
}
