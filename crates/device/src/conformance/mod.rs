//! The suite each device must pass.
//!
//! For every operation: the results of [`crate::Reference`] within a tolerance; row independence bit for bit (any
//! number of rows, any order, other slots, NaN rows beside it, strided memory); a recorded operation gives what a
//! direct one gives. Stored cache rows match the scalar quantizers bit for bit, and choices (keys, blocks, experts)
//! are right wherever their margin is above the tolerance.
//!
//! A device's tests call [`conformance_suite!`](crate::conformance_suite) once, which makes one test of each function
//! here. Each function panics with the case, the row and the values where a device differs.

mod attention;
mod cache;
mod case;
mod engram;
mod linear;
mod memory;
mod moe;
mod norms;
mod random;
mod rig;
mod rope;
mod select;

pub use attention::attention;
pub use cache::{cache_store, cache_store_is_exact, pair_pool, pair_pool_within_launch};
pub use engram::engram_gate;
pub use linear::{gather, linear, select_rows};
pub use memory::{memory, recorded_chain, refuses_wrong_arguments, refuses_wrong_weights};
pub use moe::{moe, route};
pub use norms::{add, hc_collapse, hc_expand, hc_mean, hc_mix, rms_norm};
pub use rope::{rope, rope_round_trip_is_exact};
pub use select::{index_select, index_select_candidates};

/// Largest error of a device against [`crate::Reference`], as a part of the norm of a row.
#[derive(Debug, Clone, Copy)]
pub struct Tolerance {
    /// Linear layers and experts with FP4, FP8 or bf16 weights.
    pub linear: f32,
    /// Everything else.
    pub float: f32,
}

impl Tolerance {
    /// For devices that keep the inputs of linear layers in f32.
    pub const F32: Self = Self { linear: 1e-5, float: 1e-5 };
    /// For devices that round the inputs of linear layers to bf16.
    pub const BF16: Self = Self { linear: 1e-2, float: 1e-5 };
}

/// Makes one `#[test]` of each function of [`conformance`](crate::conformance).
///
/// `$make` gives a device for a largest number of rows, `$tolerance` is a
/// [`Tolerance`](crate::conformance::Tolerance):
///
/// ```
/// # #[cfg(test)]
/// tokenfare_device::conformance_suite!(
///     tokenfare_device::Reference::new,
///     tokenfare_device::conformance::Tolerance::F32
/// );
/// ```
#[macro_export]
macro_rules! conformance_suite {
    ($make:expr, $tolerance:expr) => {
        $crate::conformance_suite!(@ $make, $tolerance;
            memory, recorded_chain, refuses_wrong_arguments, refuses_wrong_weights,
            gather, linear, select_rows,
            rms_norm, add, hc_mix, hc_collapse, hc_expand, hc_mean,
            rope, rope_round_trip_is_exact,
            cache_store, cache_store_is_exact, pair_pool, pair_pool_within_launch,
            index_select, index_select_candidates,
            attention, route, moe, engram_gate
        );
    };
    (@ $make:expr, $tolerance:expr; $($check:ident),*) => {
        $(
            #[test]
            fn $check() {
                $crate::conformance::$check(&$make, $tolerance);
            }
        )*
    };
}
