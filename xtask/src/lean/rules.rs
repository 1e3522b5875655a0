//! The rules that comments and code are held to, with their word lists.

use super::comments::{Comment, Language, Style, scan};
use regex::Regex;
use std::fmt;
use std::sync::LazyLock;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A file of too many lines.
    LongFile,
    /// A comment that is no documentation and goes on over several lines.
    LongComment,
    /// A comment that tells what was once.
    History,
    /// A comment that states a measurement.
    Measurement,
    /// Work left open.
    Stub,
    /// A path of somebody's machine.
    MachinePath,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LongFile => "long file",
            Self::LongComment => "long comment",
            Self::History => "history in a comment",
            Self::Measurement => "measurement in a comment",
            Self::Stub => "stub",
            Self::MachinePath => "path of a machine",
        })
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Line, from 1.
    pub line: usize,
    /// What is wrong.
    pub kind: Kind,
    /// The line's text, trimmed.
    pub text: String,
}

/// Words that tell what was once: a comment says how things are.
const HISTORY: &str = r"(?i)\b(previously|formerly|no longer|legacy|for now|(it|this|that|we|these|those) used to|used to be|used to have|(was|were|been|got) (changed|renamed|rewritten|refactored|removed)|(old|new) (code|version|implementation|behaviou?r))\b";

/// Numbers with units of time or speed, and comparisons of speed: they belong in receipts, which can be repeated.
const MEASUREMENT: &str = r"(?i)(\b\d[\d.,]*\s*(ms|µs|us|[gmt]i?b/s|[gt]flops|tok/s|tokens/s)\b|\b[gmt]i?b/s\b|\btok/s\b|\b\d[\d.,]*\s*(x|times|%|percent)\s+(faster|slower|quicker)\b)";

/// Marks of work left open.
const STUB: &str = concat!(r"\b(TO", r"DO|FIX", r"ME|X", r"XX)\b");

/// Macros of work left open.
const STUB_CODE: &str = r"\b(todo|unimplemented)!\s*[(\[{]";

/// Folders that only one machine has; `/home/user` and `/home/you` are examples.
const MACHINE_PATH: &str =
    r#"(^|[\s"'`(=:])/(work|root|Users|farm|mnt/[a-z])/|(^|[\s"'`(=:])/home/[a-z0-9_-]+|\b[A-Z]:\\Users\\"#;
const EXAMPLE_HOMES: [&str; 2] = ["/home/user", "/home/you"];

struct Rules {
    comments: [(Kind, Regex); 3],
    stub_code: Regex,
    machine_path: Regex,
}

static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let regex = |pattern: &str| Regex::new(pattern).expect("the patterns of this file are well formed");
    Rules {
        comments: [
            (Kind::History, regex(HISTORY)),
            (Kind::Measurement, regex(MEASUREMENT)),
            (Kind::Stub, regex(STUB)),
        ],
        stub_code: regex(STUB_CODE),
        machine_path: regex(MACHINE_PATH),
    }
});

/// Every finding in a source text, by line.
pub fn check(language: Language, source: &str) -> Vec<Finding> {
    let (comments, code) = scan(language, source);
    let mut found = long_comments(&comments);
    let finding = |line, kind, text: &str| Finding { line, kind, text: text.trim().into() };
    for comment in &comments {
        for (i, text) in comment.text.lines().enumerate() {
            let broken = RULES.comments.iter().filter(|(_, pattern)| pattern.is_match(text));
            found.extend(broken.map(|(kind, _)| finding(comment.line + i, *kind, text)));
        }
    }
    for ((i, text), code) in source.lines().enumerate().zip(code.lines()) {
        if RULES.stub_code.is_match(code) {
            found.push(finding(i + 1, Kind::Stub, text));
        }
        if names_a_machine(text) {
            found.push(finding(i + 1, Kind::MachinePath, text));
        }
    }
    found.sort_by_key(|f| (f.line, f.kind));
    found
}

fn names_a_machine(text: &str) -> bool {
    RULES.machine_path.find_iter(text).any(|m| !EXAMPLE_HOMES.iter().any(|home| m.as_str().ends_with(home)))
}

fn long_comments(comments: &[Comment]) -> Vec<Finding> {
    let own_line = |c: &Comment| c.alone && c.style == Style::Line && !c.text.starts_with("#!");
    let mut found = Vec::new();
    let mut end = 0;
    for comment in comments {
        let first = comment.text.lines().next().unwrap_or_default();
        let goes_on = own_line(comment) && comment.line == end + 1 && end > 0;
        let block = comment.style == Style::Block && comment.text.contains('\n');
        if goes_on || block {
            found.push(Finding { line: comment.line, kind: Kind::LongComment, text: first.into() });
        }
        end = if own_line(comment) { comment.line } else { 0 };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn kinds(source: &str) -> Vec<(usize, Kind)> {
        check(Language::Rust, source).iter().map(|f| (f.line, f.kind)).collect()
    }

    #[rstest]
    #[case("// one\nf();\n// two\n", &[])]
    #[case("// one\n// two\nf();\n", &[2])]
    #[case("// SAFETY: a\n// b\n// c\n", &[2, 3])]
    #[case("f(); // one\ng(); // two\n", &[])]
    #[case("/// one\n/// two\n//! three\n", &[])]
    #[case("/// doc\n// why\n/// doc\n", &[])]
    #[case("/* one */\nf();\n", &[])]
    #[case("/* one\n   two */\n", &[1])]
    #[case("/** doc\n    more */\n", &[])]
    fn comments_are_one_line(#[case] source: &str, #[case] lines: &[usize]) {
        let expected: Vec<(usize, Kind)> = lines.iter().map(|&line| (line, Kind::LongComment)).collect();
        assert_eq!(kinds(source), expected);
    }

    #[rstest]
    #[case("was renamed from rows", Kind::History)]
    #[case("Previously a loop", Kind::History)]
    #[case("this used to allocate", Kind::History)]
    #[case("a legacy form", Kind::History)]
    #[case("saves 3 ms", Kind::Measurement)]
    #[case("reaches 200GB/s", Kind::Measurement)]
    #[case("in tok/s", Kind::Measurement)]
    #[case("1.5x faster than the loop", Kind::Measurement)]
    #[case("12 % slower", Kind::Measurement)]
    fn words_that_do_not_last(#[case] text: &str, #[case] kind: Kind) {
        assert_eq!(kinds(&format!("/// {text}\nfn f() {{}} // {text}\n")), [(1, kind), (2, kind)]);
        assert_eq!(kinds(&format!("f(\"{text}\");\n")), []);
    }

    #[rstest]
    #[case("a key is used to find its place")]
    #[case("milliseconds of a window of r rows")]
    #[case("the 16 rows of one launch")]
    #[case("the terms of 3 items")]
    fn words_that_stay(#[case] text: &str) {
        assert_eq!(kinds(&format!("// {text}\n")), []);
    }

    #[test]
    fn stubs_are_found_in_comments_and_code_alone() {
        let mark = ["TO", "DO"].concat();
        assert_eq!(kinds(&format!("// {mark}: later\n")), [(1, Kind::Stub)]);
        assert_eq!(kinds("fn f() {\n    todo!()\n}\n"), [(2, Kind::Stub)]);
        assert_eq!(kinds(&format!("f(\"{mark} todo!()\");\n")), []);
    }

    #[test]
    fn paths_of_a_machine_are_found_anywhere() {
        let home = ["/home", "/alice/x"].concat();
        let work = ["/work", "/x"].concat();
        assert_eq!(kinds(&format!("let a = \"{home}\";\n// see {work}\n")).len(), 2);
        assert_eq!(kinds("let a = \"/home/user/x\"; // docs/work/x and /usr/lib\n"), []);
    }
}
