//! The page on the environment, made from the registry.

use crate::{Form, Setting, registry};
use std::fmt::Write;

const HEAD: &str = "\
# Environment

Every setting that the server reads from the environment. This page is generated from the registry in
`crates/settings`; `cargo xtask docs` writes it anew. `tokenfare settings` shows the values in force.

Values are trimmed; an empty value is the same as none; words and flags are accepted in any case. A value that is
not accepted stops the start with exit status 1 and one line, before anything is loaded. A `TF_DSV41_` name that is
not listed here gives one warning with the nearest name. Beside these, `XDG_CACHE_HOME` and `HOME` place the cache folder.

";

/// The Markdown text of the page.
pub fn environment_page() -> String {
    let mut page = String::from(HEAD);
    page.push_str("| setting | forms | default | scope |\n|---|---|---|---|\n");
    for s in registry() {
        let (name, link) = (s.name, s.name.to_ascii_lowercase());
        line(
            &mut page,
            format_args!("| [`{name}`](#{link}) | {} | {} | {} |", forms(s), default(s), s.scope),
        );
    }
    for s in registry() {
        line(&mut page, format_args!("\n## {}\n\n{}", s.name, s.meaning));
        line(&mut page, format_args!("\n- Forms: {}", forms(s)));
        line(&mut page, format_args!("- Default: {}", default(s)));
        line(&mut page, format_args!("- Scope: {}", s.scope));
        for (platform, clause) in s.clauses {
            line(&mut page, format_args!("- On {platform}: {clause}"));
        }
    }
    page
}

fn line(page: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(page, "{text}").expect("writing to a string cannot fail");
}

fn forms(s: &Setting) -> String {
    match s.form {
        Form::Word(words) => words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", "),
        form => form.expected(),
    }
}

fn default(s: &Setting) -> String {
    let exceptions = s.default.except.iter().map(|(p, value)| format!("{p} {}", value.describe()));
    let usual = s.default.usual.describe();
    if s.default.except.is_empty() {
        return usual;
    }
    exceptions.chain([format!("else {usual}")]).collect::<Vec<_>>().join("; ")
}
