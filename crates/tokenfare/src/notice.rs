//! Lines for the user on standard error.

/// Writes a line to standard error. Where nobody reads it, it is lost: a missing reader ends no server.
macro_rules! notice {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}

pub(crate) use notice;
