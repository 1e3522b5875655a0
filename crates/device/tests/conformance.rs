//! The reference device passes its own suite.

use tokenfare_device::conformance::Tolerance;
use tokenfare_device::{Reference, conformance_suite};

conformance_suite!(Reference::new, Tolerance::F32);
