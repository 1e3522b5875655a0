//! Finds comments in source text, and tells them from strings.

/// How a language writes comments and strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Rust.
    Rust,
    /// CUDA and WGSL.
    C,
    /// JavaScript and TypeScript.
    Script,
    /// Python.
    Python,
}

impl Language {
    /// The language of a file by its name.
    pub fn of(path: &str) -> Option<Self> {
        match path.rsplit_once('.')?.1 {
            "rs" => Some(Self::Rust),
            "wgsl" | "cu" => Some(Self::C),
            "ts" | "js" => Some(Self::Script),
            "py" => Some(Self::Python),
            _ => None,
        }
    }
}

/// What kind of comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// To the end of the line.
    Line,
    /// Documentation of an item.
    Doc,
    /// Between marks.
    Block,
}

/// One comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// Line of its first character, from 1.
    pub line: usize,
    /// Whether nothing but space stands before it on its line.
    pub alone: bool,
    /// What kind.
    pub style: Style,
    /// The text with its marks; a block may hold several lines.
    pub text: String,
}

/// Comments of a source text, and the text with comments and the insides of strings blanked.
pub fn scan(language: Language, source: &str) -> (Vec<Comment>, String) {
    let mut scanner =
        Scanner { language, rest: source, line: 1, alone: true, comments: Vec::new(), code: String::new() };
    while !scanner.rest.is_empty() {
        scanner.step();
    }
    (scanner.comments, scanner.code)
}

struct Scanner<'a> {
    language: Language,
    rest: &'a str,
    line: usize,
    alone: bool,
    comments: Vec<Comment>,
    code: String,
}

impl Scanner<'_> {
    fn step(&mut self) {
        let mark = if self.language == Language::Python { "#" } else { "//" };
        if self.rest.starts_with(mark) {
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.comment(end, line_style(self.language, &self.rest[..end]));
        } else if self.language != Language::Python && self.rest.starts_with("/*") {
            let end = self.block_end();
            let doc = self.rest.starts_with("/**") || self.rest.starts_with("/*!");
            self.comment(end, if doc { Style::Doc } else { Style::Block });
        } else if let Some(end) = self.string_end() {
            self.skip(end);
        } else {
            let word = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(self.rest.len());
            let length = word.max(self.rest.chars().next().map_or(1, char::len_utf8));
            let taken = &self.rest[..length];
            self.code.push_str(taken);
            self.alone = (self.alone || taken == "\n") && taken.trim().is_empty();
            self.line += usize::from(taken == "\n");
            self.rest = &self.rest[length..];
        }
    }

    fn comment(&mut self, end: usize, style: Style) {
        let text = self.rest[..end].trim_end().to_string();
        self.comments.push(Comment { line: self.line, alone: self.alone, style, text });
        self.skip(end);
    }

    /// Passes over `end` bytes of comment or string and keeps only their line breaks as code.
    fn skip(&mut self, end: usize) {
        let breaks = self.rest[..end].matches('\n').count();
        self.code.push(' ');
        self.code.extend(std::iter::repeat_n('\n', breaks));
        self.line += breaks;
        self.alone = false;
        self.rest = &self.rest[end..];
    }

    fn block_end(&self) -> usize {
        let bytes = self.rest.as_bytes();
        let (mut depth, mut at) = (1, 2);
        while at < bytes.len() && depth > 0 {
            match &bytes[at..] {
                [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
                [b'/', b'*', ..] if self.language == Language::Rust => (depth, at) = (depth + 1, at + 2),
                _ => at += 1,
            }
        }
        at.min(bytes.len())
    }

    /// Length of the string or character that starts here.
    fn string_end(&self) -> Option<usize> {
        let closes = |opening: &str, quote: &str| {
            let tail = self.rest.strip_prefix(opening)?;
            Some(opening.len() + escaped_end(tail, quote))
        };
        match self.language {
            Language::Rust => {
                raw_end(self.rest).or_else(|| closes("\"", "\"")).or_else(|| char_end(self.rest))
            }
            Language::C => closes("\"", "\"").or_else(|| char_end(self.rest)),
            Language::Script => closes("\"", "\"").or_else(|| closes("'", "'")).or_else(|| closes("`", "`")),
            Language::Python => closes("\"\"\"", "\"\"\"")
                .or_else(|| closes("'''", "'''"))
                .or_else(|| closes("\"", "\""))
                .or_else(|| closes("'", "'")),
        }
    }
}

fn line_style(language: Language, text: &str) -> Style {
    let doc = (text.starts_with("///") && !text.starts_with("////")) || text.starts_with("//!");
    if language != Language::Python && doc { Style::Doc } else { Style::Line }
}

/// Length up to and with `quote`, past backslash escapes.
fn escaped_end(tail: &str, quote: &str) -> usize {
    let mut at = 0;
    while at < tail.len() {
        if tail[at..].starts_with(quote) {
            return at + quote.len();
        }
        let next = |from: usize| tail[from..].chars().next().map_or(0, char::len_utf8);
        at += next(at);
        if tail[..at].ends_with('\\') && at < tail.len() {
            at += next(at);
        }
    }
    tail.len()
}

/// Length of a raw string, which begins at its `r`.
fn raw_end(rest: &str) -> Option<usize> {
    let opening = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'))?;
    let tail = opening.trim_start_matches('#');
    let hashes = opening.len() - tail.len();
    let body = tail.strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let end = body.find(&close).map_or(body.len(), |at| at + close.len());
    Some(rest.len() - body.len() + end)
}

/// Length of a character literal; a lifetime is none.
fn char_end(rest: &str) -> Option<usize> {
    let tail = rest.strip_prefix('\'')?;
    if tail.starts_with('\\') {
        return Some(1 + escaped_end(tail, "'"));
    }
    let first = tail.chars().next()?;
    tail[first.len_utf8()..].starts_with('\'').then(|| first.len_utf8() + 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(Language::Rust, r#"let a = "//no"; // yes"#, &["// yes"])]
    #[case(Language::Rust, r##"let a = r#"//no " //no"#; // yes"##, &["// yes"])]
    #[case(Language::Rust, r#"let a = "\"//no"; let q = '"'; // yes"#, &["// yes"])]
    #[case(Language::Rust, r"let q = '\''; let l: &'static str; // yes", &["// yes"])]
    #[case(Language::Rust, "/* a /* b */ c */ /// d", &["/* a /* b */ c */", "/// d"])]
    #[case(Language::Rust, "for r in x { /* open", &["/* open"])]
    #[case(Language::C, "int a = 1; // yes\nchar b = '\"'; /* two\nlines */", &["// yes", "/* two\nlines */"])]
    #[case(Language::Script, "a = `//no ${'//no'}` + '//no'; // yes", &["// yes"])]
    #[case(Language::Python, "a = '#no' + \"\"\"#no\n#no\"\"\" # yes", &["# yes"])]
    #[case(Language::Rust, "let größe = 'ß'; // yes", &["// yes"])]
    fn comments_are_told_from_strings(
        #[case] language: Language,
        #[case] source: &str,
        #[case] expected: &[&str],
    ) {
        let (comments, code) = scan(language, source);
        assert_eq!(comments.iter().map(|c| c.text.as_str()).collect::<Vec<_>>(), expected);
        assert!(!code.contains("no") && !code.contains("yes"), "{code}");
        assert_eq!(code.matches('\n').count(), source.matches('\n').count());
    }

    #[test]
    fn lines_and_company_are_known() {
        let (comments, _) = scan(Language::Rust, "a(); // one\n\n  // two\n//! three\n//// four\n");
        let seen: Vec<_> = comments.iter().map(|c| (c.line, c.alone, c.style)).collect();
        let expected =
            [(1, false, Style::Line), (3, true, Style::Line), (4, true, Style::Doc), (5, true, Style::Line)];
        assert_eq!(seen, expected);
    }
}
