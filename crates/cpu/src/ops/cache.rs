//! Cache rows: norm, rotation and storage.

use tokenfare_device::{CacheStore, NONE, Result};

use crate::args::{Check, Packed, Rows};
use crate::ops::norm::Norm;
use crate::ops::rope::{Turn, rotate};
use crate::simd::F32x16;
use crate::step::{Kernel, Part};
use crate::{Buf, Cpu};

/// Norm, rotation and storage of rows.
pub(crate) struct Store {
    pub n: usize,
    pub x: Rows,
    pub norm: Option<Norm>,
    pub angles: Buf<f32>,
    pub rope_dims: usize,
    pub cache: Packed,
    pub index: Buf<u32>,
}

impl Store {
    pub fn new(check: Check, args: CacheStore<'_, Cpu>) -> Result<Self> {
        let width = args.x.width;
        let cache = check.cache("cache", args.cache, width)?;
        check.rotated(args.rope_dims, width)?;
        Ok(Self {
            n: check.n,
            x: check.input("x", args.x, width)?,
            norm: Norm::optional(check, args.norm, width)?,
            angles: check.dense("angles", args.angles, args.rope_dims)?,
            rope_dims: args.rope_dims,
            cache,
            index: check.dense("index", args.index, 1)?,
        })
    }
}

impl Kernel for Store {
    #[inline(always)]
    unsafe fn run<V: F32x16>(&self, _stage: usize, part: &mut Part<'_>) {
        let width = self.cache.width;
        for r in part.share(self.n) {
            // SAFETY: `index` and `angles` hold `n` rows, the cache row is below the cache's rows.
            unsafe {
                let to = self.index.get(r);
                if to == NONE {
                    continue;
                }
                if to as usize >= self.cache.rows {
                    part.fault.index("cache_store", "index", to as usize, self.cache.rows);
                    continue;
                }
                let row = part.scratch.floats(width);
                match &self.norm {
                    Some(norm) => norm.row::<V>(self.x.row(r), row.as_mut_ptr(), width),
                    None => std::ptr::copy_nonoverlapping(self.x.row(r), row.as_mut_ptr(), width),
                }
                let angles = self.angles.ptr().add(r * self.rope_dims);
                rotate(row, std::slice::from_raw_parts(angles, self.rope_dims), Turn::Forward);
                let bytes = std::slice::from_raw_parts_mut(self.cache.row(to as usize), self.cache.stride());
                self.cache.format.encode(row, bytes);
            }
        }
    }
}
