//! JSON as Python's `json.dumps(value, ensure_ascii=False)` writes it: the spelling the model was trained on.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

/// Writes `value` with `", "` and `": "` between items, and floats as Python's `repr`.
pub(super) fn python_json(value: &Value) -> String {
    let mut out = Vec::new();
    value
        .serialize(&mut Serializer::with_formatter(&mut out, Python))
        .expect("a JSON value writes into memory without error");
    String::from_utf8(out).expect("JSON is UTF-8")
}

struct Python;

impl Formatter for Python {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(python_float(value).as_bytes())
    }
}

/// The shortest digits that read back as `value`; an exponent of at least two digits outside 1e-4..1e16.
fn python_float(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.unsigned_abs());
    }
    let plain = format!("{value}");
    if plain.contains('.') { plain } else { plain + ".0" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_python_does() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (-2.5, "-2.5"),
            (123456789.125, "123456789.125"),
            (1e15, "1000000000000000.0"),
            (9007199254740993.0, "9007199254740992.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.25e-7, "1.25e-07"),
            (5e-324, "5e-324"),
        ];
        for (value, text) in cases {
            assert_eq!(python_float(value), text);
        }
    }

    #[test]
    fn spacing_order_and_escapes_are_python_s() {
        let text = r#"{"b":[1,{"a":null}],"天":"气\n\u0001\u007f\"\\/","e":{},"l":[],"t":true,"f":1e20}"#;
        let value: Value = serde_json::from_str(text).unwrap();
        let expected = concat!(
            "{\"b\": [1, {\"a\": null}], \"天\": \"气\\n\\u0001\u{7f}\\\"\\\\/\", ",
            "\"e\": {}, \"l\": [], \"t\": true, \"f\": 1e+20}"
        );
        assert_eq!(python_json(&value), expected);
    }
}
