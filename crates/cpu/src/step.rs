//! One entry of the list that the pool walks.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use tokenfare_device::DeviceError;

use crate::scratch::Scratch;
#[cfg(target_arch = "aarch64")]
use crate::simd::Neon;
#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
use crate::simd::{F32x16, Scalar};
use crate::{Buf, Path};

/// Columns of a row that one thread takes at a time in operations without sums over the row; a multiple of 16.
pub(crate) const COLUMNS: usize = 512;

/// How threads share a launch whose rows have values to prepare first, such as the scores of keys.
pub(crate) enum Work {
    /// Fewer rows than threads: all threads prepare each row's values here, then share the rest.
    Shared(Buf<f32>),
    /// Each thread prepares what its own rows need.
    PerThread,
}

impl Work {
    /// Stages that this takes.
    pub fn stages(&self) -> usize {
        match self {
            Self::Shared(_) => 2,
            Self::PerThread => 1,
        }
    }
}

/// A part of one stage of an operation: what one thread does where all are there.
pub(crate) struct Part<'a> {
    /// The part's number.
    pub thread: usize,
    /// Parts of the stage.
    pub threads: usize,
    /// Working memory of the thread that runs it.
    pub scratch: &'a mut Scratch,
    /// Where kernels report values that point outside a buffer.
    pub fault: &'a Fault,
}

impl Part<'_> {
    /// This thread's contiguous share of `units` units.
    #[inline(always)]
    pub fn share(&self, units: usize) -> Range<usize> {
        units * self.thread / self.threads..units * (self.thread + 1) / self.threads
    }
}

/// The first error that kernels met in the values of their buffers.
#[derive(Debug, Default)]
pub(crate) struct Fault(Mutex<Option<DeviceError>>);

impl Fault {
    /// Reports an index that must be below `bound`.
    #[cold]
    pub fn index(&self, op: &'static str, what: &'static str, found: usize, bound: usize) {
        let error =
            DeviceError::Shape { op, what, expected: format!("below {bound}"), found: found.to_string() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// Takes the error, if there was one.
    pub fn take(&self) -> Option<DeviceError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// An operation as every thread runs it: stages with a barrier after each, written once for all vectors.
pub(crate) trait Kernel: Send + Sync + 'static {
    /// Number of stages.
    fn stages(&self) -> usize {
        1
    }

    /// This thread's part of a stage.
    ///
    /// # Safety
    /// Needs `V`'s instruction set; every thread runs the same stage, and no other work uses the buffers.
    unsafe fn run<V: F32x16>(&self, stage: usize, part: &mut Part<'_>);
}

/// A [`Kernel`] behind a pointer: the instruction set is chosen at run time.
pub(crate) trait Step: Send + Sync {
    /// Number of stages.
    fn stages(&self) -> usize;

    /// This thread's part of a stage.
    ///
    /// # Safety
    /// The machine has `path`; otherwise as [`Kernel::run`].
    unsafe fn run(&self, path: Path, stage: usize, part: &mut Part<'_>);
}

impl<K: Kernel> Step for K {
    fn stages(&self) -> usize {
        Kernel::stages(self)
    }

    unsafe fn run(&self, path: Path, stage: usize, part: &mut Part<'_>) {
        // SAFETY: the caller vouches for the path and the order of stages.
        unsafe { enter(path, self, stage, part) }
    }
}

/// Makes one entry per instruction set, into which the generic kernel is inlined, and the choice between them.
macro_rules! entries {
    ($($(#[$cfg:meta])* $name:ident: $vector:ty, $features:literal, $($path:ident)|+;)*) => {
        $(
            $(#[$cfg])*
            #[target_feature(enable = $features)]
            unsafe fn $name<K: Kernel>(kernel: &K, stage: usize, part: &mut Part<'_>) {
                // SAFETY: this function has the instruction set; the caller vouches for the rest.
                unsafe { kernel.run::<$vector>(stage, part) }
            }
        )*

        unsafe fn enter<K: Kernel>(path: Path, kernel: &K, stage: usize, part: &mut Part<'_>) {
            match path {
                $(
                    $(#[$cfg])*
                    // SAFETY: the device checked that the machine has its path.
                    $(Path::$path)|+ => unsafe { $name(kernel, stage, part) },
                )*
                // SAFETY: plain Rust needs no instruction set.
                _ => unsafe { kernel.run::<Scalar>(stage, part) },
            }
        }
    };
}

entries! {
    #[cfg(target_arch = "x86_64")]
    avx2: Avx2, "avx2,fma,f16c", Avx2;
    #[cfg(target_arch = "x86_64")]
    avx512: Avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c", Avx512 | Amx;
    #[cfg(target_arch = "aarch64")]
    neon: Neon, "neon", Neon;
}
