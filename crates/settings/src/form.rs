//! Accepted forms of a value.

/// The accepted forms of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One of these words, in any case.
    Word(&'static [&'static str]),
    /// A whole number in decimal digits.
    Number {
        /// The least.
        from: u64,
        /// The most.
        to: u64,
    },
    /// On or off.
    Flag,
    /// A file or folder.
    Path,
    /// Any text.
    Text,
    /// Visible ASCII characters that are never shown.
    Secret,
    /// Words separated by commas, in any case.
    List(&'static [&'static str]),
}

const ON: [&str; 3] = ["1", "on", "true"];
const OFF: [&str; 3] = ["0", "off", "false"];

impl Form {
    /// `text` (trimmed, not empty) as it is kept: words and flags in lower case, flags as `on` or `off`, numbers
    /// without leading zeros. `None` when the form does not accept it.
    pub fn canonical(self, text: &str) -> Option<String> {
        let lower = text.to_ascii_lowercase();
        match self {
            Self::Word(words) => words.contains(&lower.as_str()).then_some(lower),
            Self::Number { from, to } => {
                let digits = text.bytes().all(|b| b.is_ascii_digit());
                let number = text.parse::<u64>().ok().filter(|n| digits && (from..=to).contains(n))?;
                Some(number.to_string())
            }
            Self::Flag if ON.contains(&lower.as_str()) => Some("on".into()),
            Self::Flag if OFF.contains(&lower.as_str()) => Some("off".into()),
            Self::Flag => None,
            Self::Path => (!text.contains('\0')).then(|| text.into()),
            Self::Text => Some(text.into()),
            Self::Secret => text.bytes().all(|b| b.is_ascii_graphic()).then(|| text.into()),
            Self::List(words) => {
                let items: Vec<&str> =
                    lower.split(',').map(str::trim).filter(|item| !item.is_empty()).collect();
                items.iter().all(|item| words.contains(item)).then(|| items.join(","))
            }
        }
    }

    /// The accepted forms in words, without the default.
    pub fn expected(self) -> String {
        match self {
            Self::Word(words) => {
                let letters = words.iter().any(|w| w.bytes().any(|b| b.is_ascii_alphabetic()));
                alternatives(words) + if letters { ", in any case" } else { "" }
            }
            Self::Number { from, to } => format!("a whole number from {from} to {to}"),
            Self::Flag => "1, on, true, 0, off or false, in any case".into(),
            Self::Path => "a path".into(),
            Self::Text => "text".into(),
            Self::Secret => "visible ASCII characters, never shown".into(),
            Self::List(words) => format!("a comma list of {}, in any case", alternatives(words)),
        }
    }
}

fn alternatives(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).into(),
        [head @ .., last] => format!("{} or {last}", head.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    const WORDS: Form = Form::Word(&["raw", "fit"]);
    const NUMBER: Form = Form::Number { from: 1, to: 50 };

    #[rstest]
    #[case(WORDS, "RaW", Some("raw"))]
    #[case(WORDS, "row", None)]
    #[case(NUMBER, "007", Some("7"))]
    #[case(NUMBER, "50", Some("50"))]
    #[case(NUMBER, "51", None)]
    #[case(NUMBER, "0", None)]
    #[case(NUMBER, "+3", None)]
    #[case(NUMBER, "3.0", None)]
    #[case(NUMBER, "-3", None)]
    #[case(NUMBER, "99999999999999999999999", None)]
    #[case(Form::Flag, "TRUE", Some("on"))]
    #[case(Form::Flag, "Off", Some("off"))]
    #[case(Form::Flag, "yes", None)]
    #[case(Form::Path, "/a b/c", Some("/a b/c"))]
    #[case(Form::Path, "a\0b", None)]
    #[case(Form::Text, "Any Text", Some("Any Text"))]
    #[case(Form::Secret, "s3cret-Key", Some("s3cret-Key"))]
    #[case(Form::Secret, "two words", None)]
    #[case(Form::List(&["deepseek"]), "DeepSeek, ,deepseek", Some("deepseek,deepseek"))]
    #[case(Form::List(&["deepseek"]), "deepseek,llama", None)]
    fn forms(#[case] form: Form, #[case] text: &str, #[case] expected: Option<&str>) {
        assert_eq!(form.canonical(text).as_deref(), expected);
    }

    proptest! {
        #[test]
        fn kept_values_are_accepted_as_they_are(text in "\\PC{1,12}") {
            for form in [WORDS, NUMBER, Form::Flag, Form::Path, Form::Text, Form::Secret, Form::List(&["a", "b"])] {
                if let Some(kept) = form.canonical(&text) {
                    prop_assert_eq!(form.canonical(&kept), Some(kept));
                }
            }
        }
    }
}
