//! Handles to device memory.

use std::marker::PhantomData;
use std::sync::Arc;

use tokenfare_device::{Buffer, DeviceError, Element, Result};

use crate::memory::HugeBytes;

/// Memory of the CPU device. Enqueued operations write it through raw pointers, in the order of the list.
#[derive(Debug)]
pub struct Buf<T> {
    memory: Arc<HugeBytes>,
    len: usize,
    element: PhantomData<fn() -> T>,
}

impl<T> Clone for Buf<T> {
    fn clone(&self) -> Self {
        Self { memory: Arc::clone(&self.memory), len: self.len, element: PhantomData }
    }
}

impl<T: Element> Buf<T> {
    /// Allocates `len` zeroed elements.
    pub(crate) fn new(len: usize) -> Result<Self> {
        const WHAT: &str = "a buffer";
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| DeviceError::OutOfMemory {
            device: "cpu".into(),
            bytes: u64::MAX,
            what: WHAT,
        })?;
        Ok(Self { memory: Arc::new(HugeBytes::zeroed(bytes, WHAT)?), len, element: PhantomData })
    }

    /// First element.
    pub(crate) fn ptr(&self) -> *mut T {
        self.memory.as_mut_ptr().cast()
    }

    /// Element `i`.
    ///
    /// # Safety
    /// `i < len`, and no thread writes the element at the same time.
    #[inline(always)]
    pub(crate) unsafe fn get(&self, i: usize) -> T {
        debug_assert!(i < self.len);
        // SAFETY: the caller keeps `i` inside the allocation.
        unsafe { self.ptr().add(i).read() }
    }

    /// Sets element `i`.
    ///
    /// # Safety
    /// `i < len`, and no other thread uses the element at the same time.
    #[inline(always)]
    pub(crate) unsafe fn set(&self, i: usize, value: T) {
        debug_assert!(i < self.len);
        // SAFETY: the caller keeps `i` inside the allocation.
        unsafe { self.ptr().add(i).write(value) }
    }
}

impl<T: Element> Buffer for Buf<T> {
    fn len(&self) -> usize {
        self.len
    }
}
