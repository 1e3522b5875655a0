//! Values from the host.

use tokenfare_device::Element;

use crate::Buf;
use crate::simd::F32x16;
use crate::step::{Kernel, Part};

/// A copy of `src` to `dst[at..]`, whose range was checked.
pub(crate) struct Write<T, S> {
    pub dst: Buf<T>,
    pub at: usize,
    pub src: S,
}

impl<T: Element, S: AsRef<[T]>> Write<T, S> {
    /// Copies the values.
    ///
    /// # Safety
    /// No other thread uses the range.
    pub unsafe fn copy(&self) {
        let src = self.src.as_ref();
        // SAFETY: the range lies inside the buffer.
        unsafe { std::ptr::copy_nonoverlapping(src.as_ptr(), self.dst.ptr().add(self.at), src.len()) };
    }
}

impl<T: Element> Kernel for Write<T, Vec<T>> {
    #[inline(always)]
    unsafe fn run<V: F32x16>(&self, _stage: usize, part: &mut Part<'_>) {
        if part.thread == 0 {
            // SAFETY: one thread copies, between two barriers.
            unsafe { self.copy() };
        }
    }
}
