//! Loads from a file.

use std::path::Path;

use super::Load;
use crate::BenchError;

/// Reads loads from JSON lines `{"name", "kind": "completion" | "chat", "text"}`; empty lines are left out.
///
/// # Errors
/// A file that cannot be read; a line that is no load; two loads of one name; no load at all.
pub fn read(path: &Path) -> Result<Vec<Load>, BenchError> {
    let text = std::fs::read_to_string(path).map_err(|e| BenchError::file(path, e))?;
    parse(&text).map_err(|problem| BenchError::file(path, problem))
}

fn parse(text: &str) -> Result<Vec<Load>, String> {
    let mut loads: Vec<Load> = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let load: Load = serde_json::from_str(line).map_err(|e| format!("line {}: {e}", number + 1))?;
        if loads.iter().any(|known| known.name == load.name) {
            return Err(format!("line {}: a second load named {:?}", number + 1, load.name));
        }
        loads.push(load);
    }
    if loads.is_empty() { Err("expected at least one load".into()) } else { Ok(loads) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Kind;
    use rstest::rstest;

    #[test]
    fn loads_are_read_line_by_line() {
        let text = "{\"name\":\"a\",\"kind\":\"chat\",\"text\":\"x\"}\n\n{\"name\":\"b\",\"kind\":\"completion\",\"text\":\"y\"}\n";
        let load = |name: &str, kind, text: &str| Load { name: name.to_owned(), kind, text: text.to_owned() };
        assert_eq!(parse(text), Ok(vec![load("a", Kind::Chat, "x"), load("b", Kind::Completion, "y")]));
    }

    #[rstest]
    #[case("", "expected at least one load")]
    #[case(
        "{\"name\":\"a\",\"kind\":\"chat\",\"text\":\"x\"}\n{\"name\":\"a\",\"kind\":\"chat\",\"text\":\"y\"}",
        "line 2: a second load named \"a\""
    )]
    #[case(
        "{\"name\":\"a\",\"kind\":\"talk\",\"text\":\"x\"}",
        "line 1: unknown variant `talk`, expected `completion` or `chat` at line 1 column 25"
    )]
    #[case("{\"name\":\"a\",\"kind\":\"chat\"}", "line 1: missing field `text` at line 1 column 26")]
    fn what_is_no_load_is_told(#[case] text: &str, #[case] message: &str) {
        assert_eq!(parse(text), Err(message.to_owned()));
    }
}
