//! What grammars allow, over a vocabulary of bytes and of longer tokens.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};
use tokenfare_grammar::{Compiler, Source, Vocabulary};
use tokenfare_lanes::Grammar;

const END: u32 = 256;
const MARK: u32 = 257;
const VOCAB: usize = 258 + WORDS.len();
/// Tokens of several bytes, which may cross the words of a grammar.
const WORDS: [&str; 10] = ["{\"", "\":", "\": \"", "\"}", "true", " ", "\n  ", "   ", "12", "yes"];

static COMPILER: LazyLock<Compiler> = LazyLock::new(|| {
    let mut vocabulary = Vocabulary::new(END);
    (0..=255u8).for_each(|byte| vocabulary.push(&[byte]));
    vocabulary.push_control("<end>");
    vocabulary.push_control("<mark>");
    WORDS.iter().for_each(|word| vocabulary.push(word.as_bytes()));
    assert_eq!((vocabulary.len(), vocabulary.is_empty()), (VOCAB, false));
    Compiler::new(&vocabulary)
});

fn compile(source: Source) -> Box<dyn Grammar> {
    COMPILER.compile(&source).unwrap()
}

fn refused(source: Source) -> String {
    COMPILER.compile(&source).err().unwrap().to_string()
}

fn bytes(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}

fn allowed(grammar: &mut dyn Grammar) -> Vec<u32> {
    let mut words = vec![u32::MAX; VOCAB.div_ceil(32) + 1];
    grammar.mask(&mut words).unwrap();
    (0..words.len() as u32 * 32).filter(|id| words[*id as usize / 32] >> (id % 32) & 1 == 1).collect()
}

/// How many bytes of `text` the grammar takes, and whether it may end or must.
fn read(grammar: &mut dyn Grammar, text: &str) -> (usize, bool, bool) {
    for (i, token) in bytes(text).into_iter().enumerate() {
        if grammar.is_complete() || !allowed(grammar).contains(&token) {
            return (i, false, false);
        }
        grammar.accept(token).unwrap();
    }
    let complete = grammar.is_complete();
    (text.len(), complete || allowed(grammar).contains(&END), complete)
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": false,
    })
}

#[rstest]
#[case(Source::JsonSchema(schema()), r#"{"name": "A\n", "age": 36}"#, (26, true, true))]
#[case(Source::JsonSchema(schema()), "{\n  \"name\": \"A\",\n  \"age\": 3\n}", (29, true, true))]
#[case(Source::JsonSchema(schema()), r#"{"name": 1"#, (9, false, false))]
#[case(Source::JsonSchema(schema()), r#"{"age": 1"#, (2, false, false))]
#[case(Source::JsonSchema(json!({"type": "integer"})), "12", (2, true, false))]
#[case(Source::JsonSchema(json!(true)), "[1, {}]", (7, true, true))]
#[case(Source::Regex("[0-9]{3}/[a-z]+".into()), "123/ab", (6, true, false))]
#[case(Source::Regex("a{2}".into()), "aa", (2, true, true))]
#[case(Source::Choice(vec!["a".into(), "ab".into(), "\"q\"\u{7f}\n".into()]), "a", (1, true, false))]
#[case(Source::Choice(vec!["a".into(), "ab".into()]), "ab", (2, true, true))]
#[case(Source::Choice(vec!["a".into(), "\"q\"\u{7f}\n".into()]), "\"q\"\u{7f}\n", (5, true, true))]
#[case(Source::Grammar("start: \"x\" (\",\" /[a-c]/)*".into()), "x,a,b", (5, true, false))]
#[case(Source::Grammar("root ::= \"(\" root? \")\"".into()), "(())", (4, true, true))]
#[case(Source::Grammar("root ::= \"(\" root? \")\"".into()), "(()(", (3, false, false))]
#[case(Source::Any(vec![Source::Choice(vec!["no".into()]), Source::JsonSchema(json!({"type": "null"}))]), "null", (4, true, true))]
fn a_text_is_taken_as_far_as_it_fits(
    #[case] source: Source,
    #[case] text: &str,
    #[case] expected: (usize, bool, bool),
) {
    assert_eq!(read(&mut *compile(source), text), expected);
}

#[test]
fn white_space_in_json_has_an_end() {
    for (gap, most) in [(" ", 4), ("\n ", 65), ("\n\t", 65)] {
        let mut grammar = compile(Source::JsonSchema(schema()));
        let spaces = &gap[gap.len() - 1..];
        let text = format!("{{{}{}", &gap[..gap.len() - 1], spaces.repeat(200));
        assert_eq!(read(&mut *grammar, &text).0, 1 + most, "{gap:?}");
    }
    let mut own = schema();
    own["x-guidance"] = json!({"whitespace_pattern": "[ ]+"});
    assert_eq!(read(&mut *compile(Source::JsonSchema(own)), &format!("{{{}", " ".repeat(99))).0, 5);
}

#[test]
fn control_tokens_come_by_their_id_alone() {
    let mut free = compile(Source::Regex("(?s:.)*".into()));
    let tokens = allowed(&mut *free);
    assert!(tokens.contains(&END) && !tokens.contains(&MARK) && !tokens.contains(&255));
    assert_eq!(free.admits(&bytes("<mark>")), 6);
    let source = format!("start: /(?s:.)*<\\// <[{MARK}]> \" end>\"");
    let mut marked = compile(Source::Grammar(source));
    assert_eq!(read(&mut *marked, "a</b</").0, 6);
    assert!(allowed(&mut *marked).contains(&MARK));
    marked.accept(MARK).unwrap();
    assert_eq!(read(&mut *marked, " end>"), (5, true, true));
}

#[test]
fn drafts_are_admitted_without_a_trace() {
    let mut grammar = compile(Source::JsonSchema(schema()));
    let text = bytes(r#"{"name": "A", "age": 36}"#);
    for (i, &token) in text.iter().enumerate() {
        let before = allowed(&mut *grammar);
        assert_eq!(grammar.admits(&text[i..]), text.len() - i);
        assert_eq!(grammar.admits(&bytes("\u{1}")), 0);
        assert_eq!(allowed(&mut *grammar), before);
        grammar.accept(token).unwrap();
    }
    assert!(grammar.is_complete());
    assert_eq!(grammar.admits(&[END]), 0);
}

#[test]
fn a_fork_goes_its_own_way() {
    let mut grammar = compile(Source::Choice(vec!["ab".into(), "ac".into()]));
    grammar.accept(u32::from(b'a')).unwrap();
    let mut fork = grammar.fork();
    fork.accept(u32::from(b'b')).unwrap();
    assert!(fork.is_complete() && !grammar.is_complete());
    assert_eq!(allowed(&mut *grammar), bytes("bc"));
    assert!(grammar.accept(u32::from(b'x')).is_err());
    assert!(grammar.mask(&mut [u32::MAX; 9]).is_err(), "a grammar that failed stays so");
}

#[rstest]
#[case(Source::JsonSchema(json!({"type": "strng"})), "strng")]
#[case(Source::JsonSchema(json!(3)), "object")]
#[case(Source::Regex("(".into()), "regex")]
#[case(Source::Grammar("start: other".into()), "other")]
#[case(Source::Grammar("root ::= other".into()), "other")]
#[case(Source::Choice(vec![]), "no text to choose from")]
#[case(Source::Regex("x".repeat((1 << 20) + 1)), "expected at most 1048576 bytes, found 1048577")]
fn a_source_that_is_none_is_refused_with_the_reason(#[case] source: Source, #[case] words: &str) {
    let message = refused(source);
    assert!(message.contains(words) && !message.contains('\n'), "{message}");
}

/// Such a source compiles, but its reply could never begin.
#[rstest]
#[case::itself(Source::JsonSchema(json!({"$ref": "#"})))]
#[case::each_other(Source::JsonSchema(json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}})))]
#[case::no_character(Source::Regex(r"[^\s\S]".into()))]
#[case::endless_rule(Source::Grammar("start: start".into()))]
#[case::endless_ebnf(Source::Grammar("root ::= root".into()))]
fn a_source_that_nothing_fits_is_refused(#[case] source: Source) {
    assert_eq!(refused(source), "no token continues it");
}

#[test]
fn a_source_of_the_empty_text_alone_is_complete_or_may_end() {
    let mut grammar = compile(Source::Choice(vec![String::new()]));
    assert!(grammar.is_complete() || allowed(&mut *grammar) == [END]);
}

/// A schema whose alternatives multiply.
fn product(factors: usize) -> Value {
    let factor =
        |i: usize| json!({"anyOf": [{"minLength": i}, {"maxLength": 100 + i}, {"pattern": format!("a{i}")}]});
    json!({"type": "string", "allOf": (0..factors).map(factor).collect::<Vec<_>>()})
}

#[rstest]
#[case::nested_rules(Source::Grammar(format!("start: {}\"a\"{}", "(".repeat(5000), ")".repeat(5000))))]
#[case::nested_regex(Source::Regex(format!("{}a{}", "(".repeat(20_000), ")".repeat(20_000))))]
#[case::repetition(Source::Regex("((((a{1,99}){1,99}){1,99}){1,99}){1,99}".into()))]
#[case::rule_repetition(Source::Grammar("start: (((x{99}){99}){99}){99}\nx: \"a\" | \"b\" start".into()))]
#[case::product(Source::JsonSchema(product(30)))]
#[case::lengths(Source::JsonSchema(json!({"type": "array", "items": {"type": "string"}, "minItems": 100_000_000})))]
#[case::chain(Source::Grammar((0..20_000).map(|i| format!("r{i}: \"a\" r{}\n", i + 1)).collect::<String>() + "r20000: \"b\"\nstart: r0"))]
#[case::intersection(Source::Grammar("start: A\nA: (/(a|b)*a(a|b){40}/ & /(a|b)*b(a|b){41}/)".into()))]
fn a_hostile_source_ends(#[case] source: Source) {
    let began = Instant::now();
    // Whether it is refused or compiled, it must end, and so must its first step.
    if let Ok(mut grammar) = COMPILER.compile(&source) {
        let _ = grammar.mask(&mut vec![u32::MAX; VOCAB.div_ceil(32)]);
        let _ = grammar.admits(&bytes("abababababababababababababababababababababababababababab"));
    }
    assert!(began.elapsed() < Duration::from_secs(60));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever is drawn from the masks: drafts are admitted exactly as far as the masks allow, and a JSON grammar's text is JSON.
    #[test]
    fn masks_and_admissions_agree(draws in prop::collection::vec(any::<u32>(), 60), drafts in prop::collection::vec(0..VOCAB as u32, 0..6)) {
        let mut grammar = compile(Source::JsonSchema(schema()));
        let mut text = Vec::new();
        for draw in draws {
            if grammar.is_complete() {
                break;
            }
            let mut fork = grammar.fork();
            let fits = drafts.iter().take_while(|&&id| {
                let fits = !fork.is_complete() && allowed(&mut *fork).contains(&id);
                if fits {
                    fork.accept(id).unwrap();
                }
                fits
            });
            prop_assert_eq!(grammar.admits(&drafts), fits.count());
            let choices = allowed(&mut *grammar);
            // The shortest way out of a string is likelier than its length allows.
            let quote = u32::from(b'"');
            let id = if draw % 3 == 0 && choices.contains(&quote) { quote } else { choices[draw as usize % choices.len()] };
            grammar.accept(id).unwrap();
            match id {
                0..=255 => text.push(id as u8),
                id if id >= 258 => text.extend(WORDS[id as usize - 258].bytes()),
                _ => {}
            }
        }
        if grammar.is_complete() {
            let value: Value = serde_json::from_slice(&text).unwrap();
            prop_assert!(value["name"].is_string() && value["age"].is_number());
        }
    }
}
