//! How far a long read or write has come.

/// Told by long operations how far they are. Called from several threads at once.
pub trait Progress: Sync {
    /// `done` of `total` bytes are through. Calls from different threads may arrive out of order.
    fn advance(&self, done: u64, total: u64);
}

/// Tells nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn advance(&self, _done: u64, _total: u64) {}
}

impl<F: Fn(u64, u64) + Sync> Progress for F {
    fn advance(&self, done: u64, total: u64) {
        self(done, total);
    }
}
