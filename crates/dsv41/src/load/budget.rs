//! A bound on the bytes in flight.

use std::sync::{Condvar, Mutex, PoisonError};

/// Bytes that threads may hold together.
pub(super) struct Budget {
    most: u64,
    free: Mutex<u64>,
    returned: Condvar,
}

/// A share of the budget, given back when it is dropped.
pub(super) struct Share<'a> {
    budget: &'a Budget,
    bytes: u64,
}

impl Budget {
    pub(super) fn new(most: u64) -> Self {
        Self { most, free: Mutex::new(most), returned: Condvar::new() }
    }

    /// Waits for `bytes`, or for the whole budget if it is smaller than that.
    pub(super) fn take(&self, bytes: u64) -> Share<'_> {
        let bytes = bytes.min(self.most);
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free =
            self.returned.wait_while(free, |free| *free < bytes).unwrap_or_else(PoisonError::into_inner);
        *free -= bytes;
        Share { budget: self, bytes }
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        *self.budget.free.lock().unwrap_or_else(PoisonError::into_inner) += self.bytes;
        self.budget.returned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn shares_never_exceed_the_budget_and_a_larger_one_runs_alone() {
        let budget = Budget::new(100);
        let (held, most) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (budget, held, most) = (&budget, &held, &most);
                scope.spawn(move || {
                    for step in 0..200 {
                        let bytes = [30, 60, 1000, 10][(thread + step) % 4];
                        let _share = budget.take(bytes);
                        let bytes = bytes.min(100);
                        most.fetch_max(held.fetch_add(bytes, Ordering::SeqCst) + bytes, Ordering::SeqCst);
                        held.fetch_sub(bytes, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(most.into_inner(), 100);
        assert_eq!(*budget.free.lock().unwrap(), 100);
    }
}
