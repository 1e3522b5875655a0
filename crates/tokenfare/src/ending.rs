//! How the process ends when it cannot go on: one line on standard error and status 1, whatever memory is left.

use std::fmt::{self, Write};
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time for a thread that ends the process already.
const OTHER_THREAD: Duration = Duration::from_secs(1);

/// Whether a thread has begun to end the process.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// One line of text that needs no memory; what does not fit is cut off.
struct Line {
    bytes: [u8; 512],
    len: usize,
}

impl Line {
    /// The program's name, then `words`.
    fn new(words: fmt::Arguments<'_>) -> Self {
        let mut line = Self { bytes: [b'\n'; 512], len: 0 };
        // `write_str` returns no error, and a value that cannot be shown leaves the rest of the line.
        let _ = write!(line, "tokenfare: {words}");
        line.len += 1;
        line
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // The last byte stays a line break.
        let room = self.bytes.len() - 1 - self.len;
        for (place, byte) in self.bytes[self.len..].iter_mut().zip(text.bytes().take(room)) {
            *place = if byte == b'\n' { b' ' } else { byte };
        }
        self.len += text.len().min(room);
        Ok(())
    }
}

/// Returns to the one thread that may write the last line; others wait here for the end of the process.
pub fn begin() {
    if BEGUN.swap(true, Ordering::SeqCst) {
        std::thread::sleep(OTHER_THREAD);
        exit();
    }
}

/// Writes `words` as the last line and ends the process with status 1. Asks for no memory and takes no lock.
pub fn with(words: fmt::Arguments<'_>) -> ! {
    begin();
    let line = Line::new(words);
    let bytes = line.as_bytes();
    // SAFETY: `bytes` is readable for its length; a failed write has nobody who could be told.
    unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) };
    exit()
}

fn exit() -> ! {
    // SAFETY: ends the process at once; destructors could wait for memory or threads that are not there.
    unsafe { libc::_exit(libc::EXIT_FAILURE) }
}

/// While it lives, a panic of any thread ends the process with one line: a start that fails leaves nothing to go on
/// with, and the standard library and the runtime panic when the system refuses them threads or memory.
pub struct PanicsEnd(());

impl PanicsEnd {
    /// Begins it.
    pub fn begin() -> Self {
        std::panic::set_hook(Box::new(end_by_panic));
        Self(())
    }
}

impl Drop for PanicsEnd {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            drop(std::panic::take_hook());
        }
    }
}

fn end_by_panic(info: &PanicHookInfo<'_>) {
    let words = info.payload_as_str().unwrap_or("a panic without words");
    match info.location() {
        Some(at) => with(format_args!("{words} (at {}:{})", at.file(), at.line())),
        None => with(format_args!("{words}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_line_is_one_line_and_is_cut_off_where_it_is_too_long() {
        assert_eq!(Line::new(format_args!("a\nb {}", 1)).as_bytes(), b"tokenfare: a b 1\n");
        let long = Line::new(format_args!("{}", "x".repeat(600)));
        assert_eq!(long.as_bytes(), [b"tokenfare: ", &[b'x'; 500][..], b"\n"].concat());
    }
}
