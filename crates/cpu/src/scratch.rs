//! Working memory of one thread.

use crate::memory::HugeBytes;
use crate::moe::Plan;

/// A growable arena that belongs to one thread of the pool; contents do not survive from one use to the next.
#[derive(Debug, Default)]
pub struct Scratch {
    bytes: Option<HugeBytes>,
    /// Working memory of the mixture of experts.
    pub(crate) plan: Plan,
}

impl Scratch {
    /// An empty arena.
    pub const fn new() -> Self {
        Self { bytes: None, plan: Plan::new() }
    }

    /// `len` bytes aligned to 64, with whatever they held before.
    ///
    /// # Panics
    /// When the system refuses the memory; the pool turns a panic of a kernel into an error of the device.
    pub fn bytes(&mut self, len: usize) -> &mut [u8] {
        if self.bytes.as_ref().is_none_or(|b| b.len() < len) {
            self.bytes = None;
            match HugeBytes::zeroed(len.next_power_of_two().max(4096), "thread scratch") {
                Ok(bytes) => self.bytes = Some(bytes),
                // The pool reports it, so the panic's own lines on standard error would only repeat it.
                Err(error) => std::panic::resume_unwind(Box::new(error.to_string())),
            }
        }
        let bytes = self.bytes.as_mut().expect("allocated above");
        &mut bytes.as_mut_slice()[..len]
    }

    /// `len` f32 aligned to 64, with whatever they held before.
    ///
    /// # Panics
    /// As [`Scratch::bytes`].
    pub fn floats(&mut self, len: usize) -> &mut [f32] {
        let bytes = self.bytes(len * size_of::<f32>());
        // SAFETY: aligned to 64, exactly `len` f32 long, and every bit pattern is an f32.
        unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_and_stays_aligned() {
        let mut scratch = Scratch::new();
        for len in [1, 1000, 10, 3_000_000] {
            let floats = scratch.floats(len);
            assert_eq!((floats.len(), floats.as_ptr() as usize % 64), (len, 0));
            floats.fill(1.0);
        }
    }
}
