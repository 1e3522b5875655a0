//! Typed access to the fields of a JSON body: every refusal names the field, what was expected and what came.

use serde_json::{Map, Value};

use crate::ApiError;

type Result<T> = std::result::Result<T, ApiError>;

/// The fields of one JSON object; `null` counts as absent.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a> {
    map: &'a Map<String, Value>,
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// The refusal of a value of another kind.
pub fn mismatch(field: &str, expected: &str, found: &Value) -> ApiError {
    ApiError::field(field, format!("expected {expected}, found {}", kind(found)))
}

/// A refusal of a field of the object `outer`.
pub fn inside(outer: &str, error: ApiError) -> ApiError {
    let param = error.param.map(|field| format!("{outer}.{field}"));
    ApiError { message: format!("{outer}.{}", error.message), param, ..error }
}

impl<'a> Fields<'a> {
    /// The fields of a body.
    pub fn of(body: &'a Value) -> Result<Self> {
        match body {
            Value::Object(map) => Ok(Self { map }),
            other => Err(mismatch("body", "a JSON object", other)),
        }
    }

    /// A field's value unless absent or null.
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        #[cfg(feature = "testkit")]
        crate::testkit::note_read(name);
        self.map.get(name).filter(|v| !v.is_null())
    }

    /// A required field.
    pub fn require(&self, name: &str) -> Result<&'a Value> {
        self.get(name).ok_or_else(|| ApiError::field(name, "missing"))
    }

    /// `true` or `false`.
    pub fn flag(&self, name: &str) -> Result<Option<bool>> {
        self.get(name).map(|v| v.as_bool().ok_or_else(|| mismatch(name, "true or false", v))).transpose()
    }

    /// A string.
    pub fn text(&self, name: &str) -> Result<Option<&'a str>> {
        self.get(name).map(|v| v.as_str().ok_or_else(|| mismatch(name, "a string", v))).transpose()
    }

    /// A finite number within a range, which `expected` describes.
    pub fn number(
        &self,
        name: &str,
        range: std::ops::RangeInclusive<f64>,
        expected: &str,
    ) -> Result<Option<f64>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = value.as_f64().ok_or_else(|| mismatch(name, expected, value))?;
        if number.is_finite() && range.contains(&number) {
            Ok(Some(number))
        } else {
            Err(ApiError::field(name, format!("expected {expected}, found {value}")))
        }
    }

    /// A whole number within a range.
    pub fn integer(&self, name: &str, range: std::ops::RangeInclusive<i64>) -> Result<Option<i64>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        let whole = value.as_f64().is_some_and(|f| f.fract() == 0.0 && f.abs() < 9e15);
        let number = value.as_i64().or_else(|| whole.then(|| value.as_f64().unwrap_or_default() as i64));
        match number {
            Some(n) if range.contains(&n) => Ok(Some(n)),
            _ if value.is_number() => {
                Err(ApiError::field(name, format!("expected {expected}, found {value}")))
            }
            _ => Err(mismatch(name, &expected, value)),
        }
    }

    /// A nested object.
    pub fn object(&self, name: &str) -> Result<Option<Fields<'a>>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(Fields { map })),
            Some(other) => Err(mismatch(name, "an object", other)),
        }
    }

    /// `true` or `false` inside a nested object.
    pub fn flag_in(&self, outer: &str, name: &str) -> Result<Option<bool>> {
        let flag = |fields: Fields<'a>| fields.flag(name).map_err(|error| inside(outer, error));
        self.object(outer)?.map_or(Ok(None), flag)
    }

    /// Names and values.
    pub fn entries(&self) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
        self.map.iter()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"n": true}), "n: expected a whole number from 1 to 8, found a boolean")]
    #[case(json!({"n": "2"}), "n: expected a whole number from 1 to 8, found a string")]
    #[case(json!({"n": 0}), "n: expected a whole number from 1 to 8, found 0")]
    #[case(json!({"n": 1.5}), "n: expected a whole number from 1 to 8, found 1.5")]
    #[case(json!({"n": 1e300}), "n: expected a whole number from 1 to 8, found 1e+300")]
    fn a_bad_integer_is_named(#[case] body: Value, #[case] message: &str) {
        let error = Fields::of(&body).unwrap().integer("n", 1..=8).unwrap_err();
        assert_eq!((error.message.as_str(), error.param.as_deref()), (message, Some("n")));
    }

    #[test]
    fn null_is_absent_and_whole_floats_are_integers() {
        let body = json!({"a": null, "b": 2.0, "c": -3});
        let fields = Fields::of(&body).unwrap();
        assert_eq!(fields.integer("a", 0..=9).unwrap(), None);
        assert_eq!(fields.integer("b", 0..=9).unwrap(), Some(2));
        assert_eq!(fields.integer("c", -9..=9).unwrap(), Some(-3));
    }

    #[test]
    fn a_body_that_is_no_object_is_refused() {
        assert_eq!(
            Fields::of(&json!([1])).unwrap_err().message,
            "body: expected a JSON object, found an array"
        );
    }
}
