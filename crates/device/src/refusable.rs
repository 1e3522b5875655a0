//! Requests for memory whose refusal the caller handles.
//!
//! A process may have an allocator that ends it when the system refuses memory, since most code cannot go on
//! then. Code that can go on says so here, and its request is answered.

use std::cell::Cell;

thread_local! {
    static REFUSABLE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `request`, which does nothing but ask for memory and hand back a refusal.
pub fn refusable<T>(request: impl FnOnce() -> T) -> T {
    REFUSABLE.set(true);
    let answer = request();
    REFUSABLE.set(false);
    answer
}

/// Whether this thread is inside [`refusable`].
pub fn is_refusable() -> bool {
    REFUSABLE.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_request_itself_may_be_refused() {
        assert!(!is_refusable());
        assert!(refusable(|| Vec::<u8>::new().try_reserve_exact(usize::MAX).is_err() && is_refusable()));
        assert!(!is_refusable());
    }
}
