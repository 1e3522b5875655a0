//! Plain reading of memory, the yardstick of every operation that reads weights.

use std::hint::black_box;

use tokenfare_device::Buffer;

use crate::Buf;
use crate::simd::F32x16;
use crate::step::{Kernel, Part};

/// Vectors that are in flight at once.
const CHAINS: usize = 8;

/// Values that the chains take together.
const CHUNK: usize = 16 * CHAINS;

/// Reads all whole chunks of `memory` with the first `threads` threads.
pub(crate) struct Stream {
    pub memory: Buf<f32>,
    pub threads: usize,
}

impl Kernel for Stream {
    #[inline(always)]
    unsafe fn run<V: F32x16>(&self, _stage: usize, part: &mut Part<'_>) {
        if part.thread >= self.threads {
            return;
        }
        let chunks = self.memory.len() / CHUNK;
        let share = chunks * part.thread / self.threads..chunks * (part.thread + 1) / self.threads;
        // SAFETY: whole chunks lie inside the buffer, which nothing writes.
        unsafe {
            let mut most = [V::splat(0.0); CHAINS];
            for chunk in share {
                let from = self.memory.ptr().add(chunk * CHUNK);
                for (i, most) in most.iter_mut().enumerate() {
                    *most = V::load(from.add(16 * i)).max(*most);
                }
            }
            black_box(most);
        }
    }
}
