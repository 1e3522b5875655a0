//! Takes out of texts what names a person, a machine or its folders.

use regex::Regex;
use serde_json::Value;

/// Shortest name that is looked for: shorter ones are parts of other words too often.
const SHORTEST: usize = 3;

/// What is replaced.
#[derive(Debug)]
pub struct Scrub {
    rules: Vec<(Regex, &'static str)>,
}

impl Scrub {
    /// For this machine and user.
    pub fn here() -> Self {
        let variable = |name| std::env::var(name).ok();
        Self::new(variable("HOME"), sysinfo::System::host_name().ok(), variable("USER"))
    }

    fn new(home: Option<String>, host: Option<String>, user: Option<String>) -> Self {
        let mut rules = Vec::new();
        let mut rule = |pattern: &str, with| {
            let pattern = Regex::new(pattern).expect("the patterns of this file are well formed");
            rules.push((pattern, with));
        };
        rule(r#"https?://[^\s"'`,;)\]}\\]+"#, "<url>");
        if let Some(home) = home.filter(|home| home.len() > 1) {
            rule(&format!(r"{}\b", regex::escape(home.trim_end_matches('/'))), "~");
        }
        // A path keeps its last part; routes of the API are no paths.
        rule(
            r#"(?P<before>^|[\s"'`=:(\[{])/(?:(?:[\w.+@~-]+)/)*(?P<last>[\w.+@~-]+)/?"#,
            "${before}<path>/${last}",
        );
        rule(
            r"<path>/(?P<route>health|metrics|completions|models|pricing|tokenize|detokenize)\b",
            "/${route}",
        );
        let names = [(host, "<host>"), (user.filter(|user| user != "root"), "<user>")];
        for (name, with) in names {
            if let Some(name) = name.filter(|name| name.len() >= SHORTEST && name != "localhost") {
                rule(&format!(r"\b{}\b", regex::escape(&name)), with);
            }
        }
        Self { rules }
    }

    /// `text` without them.
    pub fn text(&self, text: &str) -> String {
        let replaced = |text: String, (pattern, with): &(Regex, &str)| match pattern.replace_all(&text, *with)
        {
            std::borrow::Cow::Borrowed(_) => text,
            std::borrow::Cow::Owned(new) => new,
        };
        text.lines()
            .map(|line| self.rules.iter().fold(line.to_owned(), replaced))
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Every text in a document without them.
    pub fn json(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(list) => list.iter_mut().for_each(|item| self.json(item)),
            Value::Object(map) => map.values_mut().for_each(|item| self.json(item)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("serving mini at http://127.0.0.1:8080 (x)", "serving mini at <url> (x)")]
    #[case("/home/user/a/b", "~/a/b")]
    #[case("/srv/data/bin/tokenfare serve models/mini", "<path>/tokenfare serve models/mini")]
    #[case("stored /var/cache/x.json)", "stored <path>/x.json)")]
    #[case("--model=/opt/m/ x", "--model=<path>/m x")]
    #[case(
        "verify 1 / 16 rows, 1/2/4/6 rows, tok/s, ms/round",
        "verify 1 / 16 rows, 1/2/4/6 rows, tok/s, ms/round"
    )]
    #[case("POST /v1/completions, GET /health", "POST /completions, GET /health")]
    #[case("on bigbox by alice, alices", "on <host> by <user>, alices")]
    #[case("two\nlines at https://x.y/z", "two\nlines at <url>")]
    fn names_and_places_are_taken_out(#[case] text: &str, #[case] expected: &str) {
        let scrub = Scrub::new(Some("/home/user".into()), Some("bigbox".into()), Some("alice".into()));
        assert_eq!(scrub.text(text), expected);
        let mut json = serde_json::json!({"a": [{"b": text}], "n": 1});
        scrub.json(&mut json);
        assert_eq!(json, serde_json::json!({"a": [{"b": expected}], "n": 1}));
    }
}
