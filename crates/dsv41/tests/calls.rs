//! Tool calls out of an answer, as it comes.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Map, Value};
use tokenfare_dsv41::chat::CallStream;
use tokenfare_dsv41::chat::completion::{Completion, parse};
use tokenfare_lanes::{Channel, Piece};

/// What pieces come to: content, and for each call its name, its arguments and whether it is complete.
#[derive(Debug, Default, PartialEq, Eq, Clone)]
struct Seen {
    content: String,
    calls: Vec<(String, String, bool)>,
}

impl Seen {
    fn add(&mut self, pieces: Vec<Piece>) {
        for piece in pieces {
            match piece {
                Piece::Text { channel, text } => {
                    assert_eq!(channel, Channel::Content);
                    assert!(!text.is_empty());
                    self.content += &text;
                }
                Piece::Call(name) => self.calls.push((name, String::new(), false)),
                Piece::Arguments(json) => {
                    assert!(!json.is_empty());
                    self.calls.last_mut().unwrap().1 += &json;
                }
                Piece::CallEnd => self.calls.last_mut().unwrap().2 = true,
            }
        }
    }
}

fn read<'a>(parts: impl IntoIterator<Item = &'a str>) -> Seen {
    let (mut stream, mut seen) = (CallStream::default(), Seen::default());
    let mut take = |stream: &mut CallStream, push: &dyn Fn(&mut CallStream, &mut Vec<Piece>)| {
        let mut pieces = Vec::new();
        push(stream, &mut pieces);
        seen.add(pieces);
    };
    for part in parts {
        take(&mut stream, &|stream, pieces| stream.push(part, pieces));
    }
    take(&mut stream, &|stream, pieces| stream.finish(pieces));
    seen
}

fn seen(content: &str, calls: &[(&str, &str, bool)]) -> Seen {
    let calls = calls.iter().map(|(name, json, end)| (name.to_string(), json.to_string(), *end)).collect();
    Seen { content: content.to_owned(), calls }
}

fn of(completion: &Completion) -> Seen {
    let calls = completion.calls.iter().map(|c| (c.name.to_string(), c.arguments.clone(), true)).collect();
    Seen { content: completion.content.clone(), calls }
}

/// Short forms of the format's words.
fn expand(text: &str) -> String {
    text.replace("[[", "<｜DSML｜ ").replace("[/", "</｜DSML｜ ")
}

const CITY: &str = "[[calls>\n[[invoke name=\"f\">\n[[parameter name=\"city\" string=\"true\">Par\"is\n[/parameter>\n[/invoke>\n[/calls>";

#[rstest]
#[case::no_calls("a\n\nb < c </d>", "a\n\nb < c </d>", &[])]
#[case::look_alikes("\n\n<|DSML| calls>\n<｜dsml｜ calls>", "\n\n<|DSML| calls>\n<｜dsml｜ calls>", &[])]
#[case::a_call(&format!("hi\n\n{CITY}"), "hi", &[("f", r#"{"city": "Par\"is\n"}"#, true)])]
#[case::no_line_breaks(CITY, "", &[("f", r#"{"city": "Par\"is\n"}"#, true)])]
#[case::own_line_breaks(&format!("hi\n\n\n{CITY}\n"), "hi\n", &[("f", r#"{"city": "Par\"is\n"}"#, true)])]
#[case::no_arguments("\n\n[[calls>\n[[invoke name=\"ns::f\">\n[/invoke>\n[/calls>", "", &[("ns::f", "{}", true)])]
#[case::kinds("[[calls>[[invoke name=\"f\">[[parameter name=\"a\" string=\"true\">5[/parameter>[[parameter name=\"b\" string=\"false\">[5,  null][/parameter>[/invoke>[/calls>", "", &[("f", r#"{"a": "5", "b": [5,  null]}"#, true)])]
#[case::brackets_in_a_value("[[calls>[[invoke name=\"f\">[[parameter name=\"a\" string=\"true\"></b> <｜ \\[/parameter>[/invoke>[/calls>", "", &[("f", r#"{"a": "</b> <｜ \\"}"#, true)])]
#[case::two_calls("[[calls>[[invoke name=\"f\">[/invoke>[[invoke name=\"g\">[/invoke>[/calls>", "", &[("f", "{}", true), ("g", "{}", true)])]
#[case::text_after_calls("a[[calls>[[invoke name=\"f\">[/invoke>[/calls> \n b", "ab", &[("f", "{}", true)])]
#[case::calls_again("[[calls>[[invoke name=\"f\">[/invoke>[/calls>\n\n[[calls>[[invoke name=\"g\">[/invoke>[/calls>", "", &[("f", "{}", true), ("g", "{}", true)])]
fn text_is_told_from_calls(#[case] text: &str, #[case] content: &str, #[case] calls: &[(&str, &str, bool)]) {
    assert_eq!(read([expand(text).as_str()]), seen(content, calls));
}

/// What was promised to be a call but breaks: the call gets no end, and no tag shows.
#[rstest]
#[case::cut_in_the_mark("a\n\n<", "a", &[])]
#[case::cut_in_the_opening("a\n\n[[cal", "a", &[])]
#[case::cut_in_the_name("a[[calls>[[invoke name=\"f", "a", &[])]
#[case::cut_in_a_key("[[calls>[[invoke name=\"f\">[[parameter name=\"k", "", &[("f", "", false)])]
#[case::cut_in_a_value("[[calls>[[invoke name=\"f\">[[parameter name=\"k\" string=\"true\">rm -rf /", "", &[("f", r#"{"k": "rm -rf /"#, false)])]
#[case::cut_after_a_value("[[calls>[[invoke name=\"f\">[[parameter name=\"k\" string=\"true\">v[/parameter>", "", &[("f", r#"{"k": "v""#, false)])]
#[case::no_calls_tag("a\n\n[[invoke name=\"f\">[/invoke>", "a", &[("f", "{}", true)])]
#[case::another_tag("a [[function_calls>b", "a b", &[])]
#[case::another_tag_that_never_ends("a [[x b\nc", "a \nc", &[])]
#[case::a_closing_tag("a[/calls>b[/invoke>c[/parameter>d", "abcd", &[])]
#[case::no_name("[[calls>[[invoke name=\"\">[[parameter name=\"k\" string=\"true\">v[/parameter>[/invoke>[[invoke name=\"g\">[/invoke>[/calls>", "", &[("g", "{}", true)])]
#[case::two_namespaces("[[calls>[[invoke name=\"a::b::c\">[/invoke>[/calls>d", "d", &[])]
#[case::text_in_a_call("[[calls>[[invoke name=\"f\">{\"city\": 1}[/invoke>[/calls>", "", &[("f", "", false)])]
#[case::text_between_calls("[[calls>x[[invoke name=\"f\">[/invoke>y[/calls>z", "z", &[("f", "{}", true)])]
#[case::an_argument_not_closed("[[calls>[[invoke name=\"f\">[[parameter name=\"k\" string=\"true\">v[/invoke>[/calls>", "", &[("f", r#"{"k": "v"#, false)])]
#[case::an_argument_in_an_argument("[[calls>[[invoke name=\"f\">[[parameter name=\"k\" string=\"true\">v[[parameter name=\"l\" string=\"true\">w[/parameter>[/invoke>[/calls>", "", &[("f", r#"{"k": "v"#, false)])]
#[case::a_call_not_closed("[[calls>[[invoke name=\"f\">[[invoke name=\"g\">[/invoke>[/calls>", "", &[("f", "", false), ("g", "{}", true)])]
#[case::calls_closed_in_a_call("[[calls>[[invoke name=\"f\">[/calls>a", "a", &[("f", "", false)])]
#[case::no_kind("[[calls>[[invoke name=\"f\">[[parameter name=\"k\">v[/parameter>[/invoke>[/calls>", "", &[("f", "", false)])]
#[case::another_kind("[[calls>[[invoke name=\"f\">[[parameter name=\"k\" string=\"no\">v[/parameter>[/invoke>[/calls>", "", &[("f", "", false)])]
#[case::an_argument_outside("[[calls>[[parameter name=\"k\" string=\"true\">v[/parameter>[/calls>a", "a", &[])]
fn what_breaks_gets_no_end(#[case] text: &str, #[case] content: &str, #[case] calls: &[(&str, &str, bool)]) {
    let text = expand(text);
    assert_eq!(read([text.as_str()]), seen(content, calls));
    let strict = parse(&text, Channel::Content);
    assert!(strict.is_err() || of(&strict.unwrap()) == seen(content, calls));
}

#[test]
fn a_name_comes_at_once_and_arguments_as_they_are_written() {
    let mut stream = CallStream::default();
    let mut shown = Vec::new();
    for letter in expand(CITY).chars() {
        let mut pieces = Vec::new();
        stream.push(&letter.to_string(), &mut pieces);
        shown.extend(pieces.into_iter().map(|piece| (letter, piece)));
    }
    let arguments = |json: &str| Piece::Arguments(json.to_owned());
    let expected = [
        ('>', Piece::Call("f".to_owned())),
        ('>', arguments("{\"city\": \"")),
        ('P', arguments("P")),
        ('a', arguments("a")),
        ('r', arguments("r")),
        ('"', arguments("\\\"")),
        ('i', arguments("i")),
        ('s', arguments("s")),
        ('\n', arguments("\\n")),
        ('>', arguments("\"")),
        ('>', arguments("}")),
        ('>', Piece::CallEnd),
    ];
    assert_eq!(shown, expected);
}

/// Text in which the words of the format are common.
fn soup() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        3 => prop::sample::select(vec![
            "<｜DSML｜", "</｜DSML｜", " calls>", " invoke name=\"", " invoke>", " parameter name=\"", " parameter>",
            "\" string=\"", "true\">", "false\">", "\">", "\n", "\n\n", "<", "</", "｜", "<｜", "f", "ns::f", "{}", "\"",
            "[[calls>\n[[invoke name=\"f\">", "[[parameter name=\"k\" string=\"true\">v[/parameter>\n", "[/invoke>\n", "[/calls>",
        ]).prop_map(expand),
        1 => "[a-z<>/\"\\\\é\n ]{0,4}",
    ];
    prop::collection::vec(word, 0..14).prop_map(|words| words.concat())
}

fn split(text: &str, cuts: &[prop::sample::Index]) -> Vec<String> {
    let mut ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    ends.push(text.len());
    let mut places: Vec<usize> = cuts.iter().map(|cut| ends[cut.index(ends.len())]).collect();
    places.extend([0, text.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| text[pair[0]..pair[1]].to_owned()).collect()
}

/// Calls by name, with their arguments.
type Made = Vec<(String, Map<String, Value>)>;

fn calls() -> impl Strategy<Value = (String, Made)> {
    let value = prop_oneof![
        any::<String>()
            .prop_filter("a mark ends a value", |text| !text.contains("｜DSML｜"))
            .prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::collection::vec("[a-z\"\\\\<]{0,4}", 0..3).prop_map(Value::from),
        Just(Value::Null),
    ];
    let arguments = prop::collection::vec(("[a-z_ é\\\\]{0,6}", value), 0..4).prop_map(Map::from_iter);
    ("[a-z<>/\n ]{0,12}", prop::collection::vec(("([a-z]{1,3}::)?[a-z_]{1,6}", arguments), 0..3))
}

fn written(content: &str, calls: &[(String, Map<String, Value>)]) -> String {
    let (open, close) = ("<｜DSML｜ ", "</｜DSML｜ ");
    let mut text = content.to_owned();
    if calls.is_empty() {
        return text;
    }
    text += &format!("\n\n{open}calls>\n");
    for (name, arguments) in calls {
        text += &format!("{open}invoke name=\"{name}\">\n");
        for (key, value) in arguments {
            let (kind, value) = match value {
                Value::String(text) => ("true", text.clone()),
                other => ("false", other.to_string()),
            };
            text += &format!("{open}parameter name=\"{key}\" string=\"{kind}\">{value}{close}parameter>\n");
        }
        text += &format!("{close}invoke>\n");
    }
    text + close + "calls>"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn any_split_shows_the_same(text in soup(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let whole = read([text.as_str()]);
        let parts = split(&text, &cuts);
        prop_assert_eq!(&read(parts.iter().map(String::as_str)), &whole);
        let letters: Vec<String> = text.chars().map(String::from).collect();
        prop_assert_eq!(&read(letters.iter().map(String::as_str)), &whole);
    }

    #[test]
    fn tags_never_show(text in soup()) {
        let Seen { content, calls } = read([text.as_str()]);
        // Before half a tag at the end, which is not shown, a bracket and a bar are text.
        let half = content.rfind("<｜").is_some_and(|at| "<｜DSML｜".starts_with(&content[at..]));
        let half = half && text == content;
        prop_assert!(!content.contains("<｜DSML｜") && !content.contains("</｜DSML｜") && !half, "{content:?}");
        for (name, arguments, complete) in calls {
            let all = format!("{name}{arguments}");
            prop_assert!(!all.contains("<｜DSML｜") && !all.contains("</｜DSML｜"), "{all:?}");
            let whole = arguments.starts_with("{") && arguments.ends_with("}");
            prop_assert!(!complete || whole);
        }
    }

    #[test]
    fn what_the_whole_parser_reads_is_what_comes(text in soup()) {
        if let Ok(completion) = parse(&text, Channel::Content) {
            prop_assert_eq!(read([text.as_str()]), of(&completion));
        }
    }

    #[test]
    fn well_formed_calls_are_read_like_the_whole(
        (content, calls) in calls(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let text = written(&content, &calls);
        let parsed = parse(&text, Channel::Content).unwrap();
        prop_assert_eq!(parsed.calls.len(), calls.len());
        let parts = split(&text, &cuts);
        prop_assert_eq!(read(parts.iter().map(String::as_str)), of(&parsed));
        for (call, (name, arguments)) in parsed.calls.iter().zip(&calls) {
            prop_assert_eq!(&call.name.to_string(), name);
            let read: Map<String, Value> = serde_json::from_str(&call.arguments).unwrap();
            prop_assert_eq!(&read, arguments);
        }
    }
}
