//! The loading bar on the terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar of bytes with rate and time left; hidden when standard error is not a terminal.
pub fn bytes(what: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10));
    let style = "{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(what.to_owned());
    bar
}

/// Moves `bar` to `done` of `total` bytes.
pub fn advance(bar: &ProgressBar, done: u64, total: u64) {
    if bar.length() != Some(total) {
        bar.set_length(total);
    }
    bar.set_position(done);
}
