//! Lines for the user on standard error.

/// Writes a line to standard error. Where nobody reads it, it is lost: a missing reader ends no server.
macro_rules! notice {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "{}", crate::notice::plain(&format!($($words)*)));
    }};
}

pub(crate) use notice;

/// `text` as it stands on one line of a terminal: names of files may hold line breaks and control codes.
pub fn plain(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn control_characters_are_shown_and_others_left() {
        assert_eq!(super::plain("a\nb\u{1b}[31m \u{9b}文\\\"'"), "a\\nb\\u{1b}[31m \\u{9b}文\\\"'");
    }
}
