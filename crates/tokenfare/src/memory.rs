//! The process's allocator: the system's, and where it refuses, the process ends with a message.

use std::alloc::{GlobalAlloc, Layout, System};

use tokenfare_device::is_refusable;

use crate::ending;

/// The system's allocator. A refusal is handed to code that handles it
/// ([`refusable`](tokenfare_device::refusable)); elsewhere it ends the process.
pub struct Allocator;

/// Lets a refusal through to a caller that handles it.
fn checked(block: *mut u8, bytes: usize) -> *mut u8 {
    if block.is_null() && !is_refusable() {
        ending::with(format_args!("out of memory: the system refused {bytes} bytes"));
    }
    block
}

// SAFETY: every call goes to the system's allocator unchanged, and its answer is returned or never.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those of `System`.
        checked(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        checked(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as above.
        checked(unsafe { System.realloc(block, layout, bytes) }, bytes)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) };
    }
}
