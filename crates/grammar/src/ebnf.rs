//! EBNF with `::=`, as other servers take it, to the library's Lark.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::iter::Peekable;
use std::str::Chars;

use crate::lark::quote;

/// Why a text is no EBNF grammar.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EbnfError {
    /// Something else than the form has at a place.
    #[error("line {line}: expected {expected}, found {found:?}")]
    Expected {
        /// Line, from 1.
        line: usize,
        /// What the form has there.
        expected: &'static str,
        /// What came.
        found: String,
    },
    /// A rule that is used but not there.
    #[error("the rule {0} is not defined")]
    Undefined(String),
    /// A rule of which there are two.
    #[error("the rule {0} is defined twice")]
    Twice(String),
}

/// Whether a grammar is in this form rather than in Lark's.
pub(crate) fn is_ebnf(text: &str) -> bool {
    text.contains("::=")
}

/// A word of the form.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    Name(String),
    Defines,
    Text(String),
    /// A regular expression of one character.
    Class(String),
    /// `|`, brackets, or a repetition.
    Sign(String),
}

struct Words<'a> {
    chars: Peekable<Chars<'a>>,
    line: usize,
}

impl Words<'_> {
    fn expected<T>(&mut self, expected: &'static str) -> Result<T, EbnfError> {
        let found = self.chars.clone().take(16).collect();
        Err(EbnfError::Expected { line: self.line, expected, found })
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> String {
        let mut text = String::new();
        while let Some(c) = self.chars.next_if(|&c| keep(c)) {
            text.push(c);
        }
        text
    }

    /// The character that an escape stands for, after its backslash.
    fn escape(&mut self) -> Result<char, EbnfError> {
        let digits = match self.chars.next() {
            Some('n') => return Ok('\n'),
            Some('r') => return Ok('\r'),
            Some('t') => return Ok('\t'),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            Some(c) if c.is_ascii_punctuation() => return Ok(c),
            _ => return self.expected("an escape"),
        };
        let code: String = self.chars.by_ref().take(digits).collect();
        let letter = u32::from_str_radix(&code, 16).ok().and_then(char::from_u32);
        letter.map_or_else(|| self.expected("the code of a character"), Ok)
    }

    fn text(&mut self) -> Result<Word, EbnfError> {
        let mut text = String::new();
        loop {
            match self.chars.next() {
                Some('"') => return Ok(Word::Text(text)),
                Some('\\') => text.push(self.escape()?),
                Some(c) if c != '\n' => text.push(c),
                _ => return self.expected("the end of a string"),
            }
        }
    }

    fn class(&mut self) -> Result<Word, EbnfError> {
        let mut class = String::from("[");
        if self.chars.next_if_eq(&'^').is_some() {
            class.push('^');
        }
        loop {
            let letter = match self.chars.next() {
                Some(']') => break,
                Some('-') => {
                    class.push('-');
                    continue;
                }
                Some('\\') => self.escape()?,
                Some(c) if c != '\n' => c,
                _ => return self.expected("the end of a character class"),
            };
            // Writing to a string cannot fail.
            let _ = write!(class, "\\x{{{:x}}}", u32::from(letter));
        }
        class.push(']');
        Ok(Word::Class(class))
    }

    fn next(&mut self) -> Result<Option<(usize, Word)>, EbnfError> {
        loop {
            match self.chars.peek() {
                Some('\n') => self.line += 1,
                Some('#') => {
                    self.take_while(|c| c != '\n');
                    continue;
                }
                Some(c) if c.is_whitespace() => {}
                Some(_) => break,
                None => return Ok(None),
            }
            self.chars.next();
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let name = self.take_while(is_name);
        if !name.is_empty() {
            return Ok(Some((self.line, Word::Name(name))));
        }
        let word = match self.chars.next() {
            Some(':') => {
                if self.take_while(|c| c == ':' || c == '=') != ":=" {
                    return self.expected("::=");
                }
                Word::Defines
            }
            Some('"') => self.text()?,
            Some('[') => self.class()?,
            Some('.') => Word::Class("(?s:.)".to_owned()),
            Some('{') => {
                let range = self.take_while(|c| c.is_ascii_digit() || c == ',' || c == ' ');
                if self.chars.next() != Some('}') {
                    return self.expected("the end of a repetition");
                }
                Word::Sign(format!("{{{range}}}"))
            }
            Some(c @ ('|' | '(' | ')' | '*' | '+' | '?')) => Word::Sign(c.to_string()),
            _ => return self.expected("a rule"),
        };
        Ok(Some((self.line, word)))
    }
}

/// The grammar in Lark's form; its rule `root` is where a text starts.
///
/// # Errors
/// The first place that is not of the form; a rule that is missing or there twice.
pub(crate) fn to_lark(text: &str) -> Result<String, EbnfError> {
    let mut words = Words { chars: text.chars().peekable(), line: 1 };
    let mut list = Vec::new();
    while let Some(word) = words.next()? {
        list.push(word);
    }
    let defines = |i: usize| list.get(i + 1).is_some_and(|(_, word)| *word == Word::Defines);
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    for (i, (_, word)) in list.iter().enumerate() {
        if let Word::Name(name) = word
            && defines(i)
        {
            let rule = if name == "root" { "start".to_owned() } else { format!("r{}", names.len()) };
            if names.insert(name, rule).is_some() {
                return Err(EbnfError::Twice(name.clone()));
            }
        }
    }
    if !names.contains_key("root") {
        return Err(EbnfError::Undefined("root".to_owned()));
    }
    let mut lark = String::new();
    for (i, (line, word)) in list.iter().enumerate() {
        let part = match word {
            Word::Name(name) => {
                let rule = names.get(name.as_str()).ok_or_else(|| EbnfError::Undefined(name.clone()))?;
                if defines(i) { format!("\n{rule}") } else { rule.clone() }
            }
            Word::Defines if i > 0 && matches!(list[i - 1].1, Word::Name(_)) => ":".to_owned(),
            Word::Defines => {
                let found = "::=".to_owned();
                return Err(EbnfError::Expected { line: *line, expected: "a rule's name", found });
            }
            Word::Text(text) => quote(text),
            Word::Class(class) => format!("/{class}/"),
            Word::Sign(sign) => sign.clone(),
        };
        // A repetition belongs to what stands before it.
        let repeats = matches!(word, Word::Sign(sign) if !matches!(sign.as_str(), "|" | "(" | ")"));
        if !repeats {
            lark.push(' ');
        }
        lark.push_str(&part);
    }
    Ok(lark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[test]
    fn rules_are_written_in_lark() {
        let text =
            "# a list\nroot ::= \"- \" Item{1,3} # ends\n  | \"\\n\\u00e9\"?\nItem::=[^a-c\\]]+ ( . root )*";
        let lark =
            "\nstart : \"- \" r1{1,3} | \"\\né\"? \nr1 : /[^\\x{61}-\\x{63}\\x{5d}]/+ ( /(?s:.)/ start )*";
        assert_eq!(to_lark(text).unwrap().replace(" \n", "\n"), lark.replace(" \n", "\n"));
    }

    #[rstest]
    #[case("a ::= \"x\"", "the rule root is not defined")]
    #[case("root ::= b", "the rule b is not defined")]
    #[case("root ::= \"a\"\nroot ::= \"b\"", "the rule root is defined twice")]
    #[case("root ::= \"a", "line 1: expected the end of a string, found \"\"")]
    #[case("root ::= \"a\"\n::= ::=", "line 2: expected a rule's name, found \"::=\"")]
    #[case("root ::= \"\\q\"", "line 1: expected an escape, found \"\\\"\"")]
    #[case("root ::= [a", "line 1: expected the end of a character class, found \"\"")]
    #[case("root ::= \"a\" !", "line 1: expected a rule, found \"\"")]
    fn another_form_is_refused(#[case] text: &str, #[case] message: &str) {
        assert_eq!(to_lark(text).unwrap_err().to_string(), message);
    }
}
