//! Additions in registers, the yardstick of what else runs on the cores: they need no memory, and slow down where
//! another thread shares a core's vector units.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::simd::F32x16;
use crate::step::{Kernel, Part};

/// Turns of the loop, some 60 microseconds.
const TURNS: usize = 1 << 15;

/// Adds in registers on all threads.
#[derive(Default)]
pub(crate) struct Pace {
    /// Bits of the seconds of one addition on the slowest thread; positive numbers are ordered as their bits.
    pub slowest: Arc<AtomicU64>,
}

/// Seconds of one addition of a vector of sixteen values, `C` of them in flight.
#[inline(always)]
unsafe fn seconds<V: F32x16, const C: usize>() -> f64 {
    // SAFETY: the caller has `V`'s instruction set.
    unsafe {
        let (one, mut sums) = (V::splat(black_box(1.0)), [V::splat(0.0); C]);
        let began = Instant::now();
        for _ in 0..TURNS {
            for sum in &mut sums {
                *sum = sum.add(one);
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        black_box(sums);
        seconds / (TURNS * C) as f64
    }
}

impl Kernel for Pace {
    /// The first wakes the threads, so that each is there for the second.
    fn stages(&self) -> usize {
        2
    }

    #[inline(always)]
    unsafe fn run<V: F32x16>(&self, stage: usize, _part: &mut Part<'_>) {
        // SAFETY: as the caller states.
        let seconds = unsafe { if V::REGISTERS > 16 { seconds::<V, 12>() } else { seconds::<V, 4>() } };
        if stage == 1 {
            self.slowest.fetch_max(seconds.to_bits(), Ordering::Relaxed);
        }
    }
}
