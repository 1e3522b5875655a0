//! Memory of the device: zeroed, cache-line aligned, on huge pages where it is large.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use tokenfare_device::{DeviceError, Result, refusable};

use crate::numa;

/// Alignment of every allocation, one cache line.
pub(crate) const ALIGN: usize = 64;

/// Size of a huge page, and the length from which an allocation is put on huge pages.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// Owned zeroed bytes, aligned to 64; from 2 MiB on, aligned to 2 MiB and on huge pages where the system has them.
///
/// Pages are zeroed by the system when first touched, so a large allocation that is never used costs nothing.
#[derive(Debug)]
pub struct HugeBytes {
    ptr: NonNull<u8>,
    len: usize,
    layout: Layout,
}

// SAFETY: the memory is owned, and shared access through `as_ptr` is unsafe at the point of use.
unsafe impl Send for HugeBytes {}
// SAFETY: as above.
unsafe impl Sync for HugeBytes {}

impl HugeBytes {
    /// Allocates `len` zeroed bytes for packed weights, on several nodes each share near the thread that will read it.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] when the system refuses.
    pub fn new(len: usize) -> Result<Self> {
        let bytes = Self::zeroed(len, "packed weights")?;
        if bytes.layout.align() == HUGE_PAGE {
            // SAFETY: a fresh block of whole huge pages.
            unsafe { numa::place(bytes.as_mut_ptr(), bytes.layout.size(), HUGE_PAGE) };
        }
        Ok(bytes)
    }

    /// Allocates `len` zeroed bytes; `what` names their use in the error.
    pub(crate) fn zeroed(len: usize, what: &'static str) -> Result<Self> {
        let refused = || DeviceError::OutOfMemory { device: "cpu".into(), bytes: len as u64, what };
        let align = if len >= HUGE_PAGE { HUGE_PAGE } else { ALIGN };
        let size = len.max(1).checked_next_multiple_of(align).ok_or_else(refused)?;
        let layout = Layout::from_size_align(size, align).map_err(|_| refused())?;
        let ptr = allocate(layout).ok_or_else(refused)?;
        Ok(Self { ptr, len, layout })
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// First byte; valid for `len` bytes as long as `self` lives.
    pub fn as_ptr(&self) -> *const u8 {
        self.ptr.as_ptr()
    }

    /// First byte, for writes that the device orders itself.
    pub(crate) fn as_mut_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// All bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `len` bytes were allocated and zeroed; packed weights are written through `&mut self` alone.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }

    /// All bytes, writable.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: `len` bytes were allocated and zeroed, and `&mut self` is the only access.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl Drop for HugeBytes {
    fn drop(&mut self) {
        release(self.ptr, self.layout);
    }
}

#[cfg(target_os = "linux")]
fn allocate(layout: Layout) -> Option<NonNull<u8>> {
    if layout.align() < HUGE_PAGE {
        // SAFETY: the size is at least one byte.
        return NonNull::new(refusable(|| unsafe { alloc_zeroed(layout) }));
    }
    let (size, mapped) = (layout.size(), layout.size().checked_add(HUGE_PAGE)?);
    // SAFETY: a fresh anonymous mapping touches no existing memory.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            mapped,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return None;
    }
    let head = base.cast::<u8>().align_offset(HUGE_PAGE);
    // SAFETY: `head < HUGE_PAGE`, so the aligned block and both trimmed ends lie inside the mapping just made.
    unsafe {
        let start = base.cast::<u8>().add(head);
        if head > 0 {
            libc::munmap(base, head);
        }
        if HUGE_PAGE > head {
            libc::munmap(start.add(size).cast(), HUGE_PAGE - head);
        }
        libc::madvise(start.cast(), size, libc::MADV_HUGEPAGE);
        NonNull::new(start)
    }
}

#[cfg(not(target_os = "linux"))]
fn allocate(layout: Layout) -> Option<NonNull<u8>> {
    // SAFETY: the size is at least one byte.
    NonNull::new(refusable(|| unsafe { alloc_zeroed(layout) }))
}

fn release(ptr: NonNull<u8>, layout: Layout) {
    #[cfg(target_os = "linux")]
    if layout.align() == HUGE_PAGE {
        // SAFETY: exactly the block that `allocate` kept of its mapping.
        unsafe { libc::munmap(ptr.as_ptr().cast(), layout.size()) };
        return;
    }
    // SAFETY: the block came from `alloc_zeroed` with this layout.
    unsafe { dealloc(ptr.as_ptr(), layout) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_zeroed_and_aligned() {
        for (len, align) in [
            (0, 64),
            (1, 64),
            (100, 64),
            (HUGE_PAGE - 1, 64),
            (HUGE_PAGE, HUGE_PAGE),
            (HUGE_PAGE + 5, HUGE_PAGE),
        ] {
            let mut bytes = HugeBytes::new(len).unwrap();
            assert_eq!((bytes.len(), bytes.as_ptr() as usize % align), (len, 0));
            assert!(bytes.as_slice().iter().all(|&b| b == 0));
            bytes.as_mut_slice().fill(7);
            assert!(bytes.as_slice().iter().all(|&b| b == 7));
        }
    }

    #[test]
    fn refused_allocations_are_errors() {
        for len in [usize::MAX, isize::MAX as usize, 1 << 60] {
            let want =
                DeviceError::OutOfMemory { device: "cpu".into(), bytes: len as u64, what: "packed weights" };
            assert_eq!(HugeBytes::new(len).unwrap_err(), want);
        }
    }
}
