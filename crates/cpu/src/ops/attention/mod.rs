//! Attention over the window and the selected compressed rows: one key-value head, values = keys.
//!
//! Every sum runs over a row's keys in one order, so the three ways to share the work give the same bits: [`whole`]
//! where a thread's decoded keys stay in its cache, [`blocks`] where they would not, [`spread`] where besides there are
//! three threads or more for each row.

mod args;
mod blocks;
mod keys;
mod spread;
mod values;
mod whole;

pub(crate) use args::Attention;

use args::Form;

use crate::simd::F32x16;
use crate::step::{Kernel, Part};

impl Kernel for Attention {
    fn stages(&self) -> usize {
        match &self.form {
            Form::Whole | Form::Blocks => 1,
            Form::Spread(_) => spread::STAGES,
        }
    }

    #[inline(always)]
    unsafe fn run<V: F32x16>(&self, stage: usize, part: &mut Part<'_>) {
        if self.n == 0 {
            return;
        }
        // SAFETY: as the caller states.
        unsafe {
            match &self.form {
                Form::Whole => self.whole::<V>(part),
                Form::Blocks => self.blocks::<V>(part),
                Form::Spread(scores) => self.spread::<V>(stage, part, scores.ptr()),
            }
        }
    }
}
