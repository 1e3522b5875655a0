//! Pieces of Lark text.

/// `text` as a string of a Lark grammar.
pub fn quote(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json.replace('\u{7f}', "\\u007f")
}
