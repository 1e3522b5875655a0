//! One vector of sixteen f32 lanes, implemented by every instruction set.
//!
//! A kernel is written once over [`F32x16`]. Each lane operation is one IEEE operation and each reduction one fixed
//! tree, so a kernel gives the same bits on every instruction set (but for the payload of a NaN; signalling NaNs,
//! which no arithmetic makes, are not told from quiet ones).
//! `per_isa!` compiles a generic kernel once for each instruction set.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod codes;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;
#[cfg(test)]
mod tests;

#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512;
#[cfg(target_arch = "aarch64")]
pub use neon::Neon;
pub use scalar::Scalar;

/// Sixteen f32 lanes.
///
/// # Safety
/// Every method needs the implementing type's instruction set; pointers must be valid for sixteen elements.
#[allow(clippy::missing_safety_doc, reason = "stated once for the trait")]
pub trait F32x16: Copy + 'static {
    /// Vectors that the register file holds.
    const REGISTERS: usize = 8;
    /// All lanes `v`.
    unsafe fn splat(v: f32) -> Self;
    /// Unaligned load.
    unsafe fn load(p: *const f32) -> Self;
    /// Unaligned store.
    unsafe fn store(self, p: *mut f32);
    /// `self + b`.
    unsafe fn add(self, b: Self) -> Self;
    /// `self - b`.
    unsafe fn sub(self, b: Self) -> Self;
    /// `self * b`.
    unsafe fn mul(self, b: Self) -> Self;
    /// `self / b`.
    unsafe fn div(self, b: Self) -> Self;
    /// `self * b + c`, one rounding.
    unsafe fn fma(self, b: Self, c: Self) -> Self;
    /// `self` where `self > b`, else `b`: with a NaN in either, `b`.
    unsafe fn max(self, b: Self) -> Self;
    /// `self` where `self < b`, else `b`: with a NaN in either, `b`.
    unsafe fn min(self, b: Self) -> Self;
    /// `2^k` for lanes that hold an integer `k` in -126..=127.
    unsafe fn exp2_int(self) -> Self;
    /// Nearest integer, ties to even.
    unsafe fn round(self) -> Self;
    /// Lane sum by halves: `i + (i+8)`, then `i + (i+4)`, `i + (i+2)`, `i + (i+1)`.
    unsafe fn sum(self) -> f32;
    /// Largest lane by the same halves; NaN lanes count as negative infinity.
    unsafe fn reduce_max(self) -> f32;
    /// Lane `i` is [`F32x16::sum`] of `vectors[i]`.
    #[inline(always)]
    unsafe fn sums(vectors: [Self; 16]) -> Self {
        // SAFETY: the caller has the instruction set; the array holds sixteen elements.
        unsafe { Self::load(vectors.map(|v| v.sum()).as_ptr()) }
    }
    /// Sixteen E2M1 values from eight bytes, the low nibble of each first.
    #[inline(always)]
    unsafe fn e2m1(p: *const u8) -> Self {
        // SAFETY: eight bytes lie at `p`; the array holds sixteen elements.
        unsafe {
            let (mut low, mut high) = ([0.0; 8], [0.0; 8]);
            for i in 0..8 {
                low[i] = codes::e2m1(*p.add(i));
                high[i] = codes::e2m1(*p.add(i) >> 4);
            }
            let mut values = [0.0; 16];
            for i in 0..8 {
                (values[2 * i], values[2 * i + 1]) = (low[i], high[i]);
            }
            Self::load(values.as_ptr())
        }
    }
    /// Sixteen E4M3 values.
    #[inline(always)]
    unsafe fn e4m3(p: *const u8) -> Self {
        let mut values = [0.0; 16];
        for (i, value) in values.iter_mut().enumerate() {
            // SAFETY: sixteen bytes lie at `p`.
            *value = codes::e4m3(unsafe { *p.add(i) });
        }
        // SAFETY: the caller has the instruction set; the array holds sixteen elements.
        unsafe { Self::load(values.as_ptr()) }
    }
}

/// Compiles an expression over the vector type `V` once for each instruction set, behind one function that takes the
/// run's path first.
///
/// ```text
/// per_isa! {
///     /// Adds `n` values.
///     pub(crate) unsafe fn add(p: *mut f32, n: usize) = add_kernel::<V>(p, n);
/// }
/// add(Path::Avx2, p, n);
/// ```
///
/// The kernel must be `#[inline(always)]`, and so must all that it calls, for the instruction set to reach it.
macro_rules! per_isa {
    ($(#[$meta:meta])* $vis:vis unsafe fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:expr;) => {
        $(#[$meta])*
        ///
        /// # Safety
        /// The machine has the instruction set of `path`; else as for the kernel inside.
        #[allow(clippy::too_many_arguments, reason = "the kernel's own arguments")]
        $vis unsafe fn $name(path: $crate::Path, $($arg: $ty),*) $(-> $ret)? {
            unsafe fn scalar($($arg: $ty),*) $(-> $ret)? {
                type V = $crate::simd::Scalar;
                // SAFETY: the caller keeps the kernel's conditions.
                unsafe { $body }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn avx2($($arg: $ty),*) $(-> $ret)? {
                type V = $crate::simd::Avx2;
                // SAFETY: the caller keeps the kernel's conditions.
                unsafe { $body }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
            unsafe fn avx512($($arg: $ty),*) $(-> $ret)? {
                type V = $crate::simd::Avx512;
                // SAFETY: the caller keeps the kernel's conditions.
                unsafe { $body }
            }
            #[cfg(target_arch = "aarch64")]
            #[target_feature(enable = "neon")]
            unsafe fn neon($($arg: $ty),*) $(-> $ret)? {
                type V = $crate::simd::Neon;
                // SAFETY: the caller keeps the kernel's conditions.
                unsafe { $body }
            }
            // SAFETY: the caller's machine has the path's instruction set.
            unsafe {
                match path {
                    $crate::Path::Scalar => scalar($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    $crate::Path::Avx2 => avx2($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    $crate::Path::Avx512 | $crate::Path::Amx => avx512($($arg),*),
                    #[cfg(target_arch = "aarch64")]
                    $crate::Path::Neon => neon($($arg),*),
                    #[allow(unreachable_patterns, reason = "every path of the other architecture")]
                    _ => unreachable!("a path of another architecture"),
                }
            }
        }
    };
}
pub(crate) use per_isa;
