//! The text of a reply, token by token, with mini's vocabulary.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use tokenfare_dsv41::reply::{MostCalls, ReplyText, StopStrings};
use tokenfare_dsv41::tokenizer::{Control, Tokenizer};
use tokenfare_lanes::{Channel, Piece, Text, TextEnd};

const VOCAB: u32 = 8192;

static MINI: LazyLock<Arc<Tokenizer>> = LazyLock::new(|| {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/mini");
    Arc::new(Tokenizer::open(&dir, VOCAB as usize).unwrap())
});

fn stops(strings: &[&str]) -> StopStrings {
    StopStrings::new(strings.iter().map(|s| s.to_string())).unwrap()
}

fn completion(strings: &[&str]) -> ReplyText {
    ReplyText::completion(MINI.clone(), stops(strings))
}

fn chat(channel: Channel, strings: &[&str]) -> ReplyText {
    ReplyText::chat(MINI.clone(), channel, stops(strings), MostCalls::Any)
}

/// Ids of text in which control tokens are control.
fn ids(text: &str) -> Vec<u32> {
    MINI.encode(text).unwrap()
}

fn byte_token(byte: u8) -> u32 {
    (0..VOCAB).find(|&id| MINI.bytes(id) == Some(&[byte])).unwrap()
}

/// What a reply shows in each channel, tokens taken and how it ended.
#[derive(Debug, Default, PartialEq)]
struct Shown {
    reasoning: String,
    content: String,
    tokens: usize,
    end: Option<TextEnd>,
}

impl Shown {
    fn add(&mut self, pieces: Vec<Piece>) {
        for piece in pieces {
            let Piece::Text { channel, text } = piece else { panic!("a call: {piece:?}") };
            assert!(!text.is_empty());
            match channel {
                Channel::Reasoning => self.reasoning.push_str(&text),
                Channel::Content => self.content.push_str(&text),
            }
        }
    }
}

fn show(mut reply: ReplyText, tokens: &[u32]) -> Shown {
    let mut shown = Shown::default();
    for &token in tokens {
        let step = reply.push(token, false);
        shown.tokens += 1;
        shown.add(step.pieces);
        if step.end.is_some() {
            shown.end = step.end;
            break;
        }
    }
    shown.add(reply.finish());
    assert_eq!(reply.finish(), []);
    shown
}

#[test]
fn a_reply_without_tokens_has_no_text() {
    assert_eq!(show(completion(&[]), &[]), Shown::default());
}

#[test]
fn a_chat_starts_in_the_channel_of_its_prompt() {
    let tokens = ids("why</think>because");
    let mut reply = chat(Channel::Reasoning, &[]);
    let inside: Vec<bool> = tokens
        .iter()
        .map(|&token| {
            let before = reply.reasoning();
            reply.push(token, false);
            before
        })
        .collect();
    let close = tokens.iter().position(|&token| token == 8187).unwrap();
    assert!(
        inside[..=close].iter().all(|&inside| inside) && inside[close + 1..].iter().all(|&inside| !inside)
    );
    let shown = show(chat(Channel::Reasoning, &[]), &tokens);
    assert_eq!((shown.reasoning.as_str(), shown.content.as_str()), ("why", "because"));
    let shown = show(chat(Channel::Content, &[]), &ids("a<think>b</think></think>c"));
    assert_eq!((shown.reasoning.as_str(), shown.content.as_str()), ("b", "ac"));
}

#[test]
fn a_completion_shows_tags_as_text() {
    let shown = show(completion(&[]), &ids("<think>a</think>b<｜User｜>"));
    assert_eq!(shown.content, "<think>a</think>b<｜User｜>");
    assert!(!completion(&[]).reasoning());
}

#[test]
fn special_tokens_are_invisible() {
    let tokens = ids("a<｜begin▁of▁sentence｜>b<｜▁pad▁｜><｜end▁of▁sentence｜>c");
    assert_eq!(show(completion(&[]), &tokens).content, "abc");
    assert_eq!(show(chat(Channel::Content, &[]), &tokens).content, "abc");
}

#[test]
fn a_silent_token_has_no_text() {
    let mut reply = chat(Channel::Reasoning, &[]);
    let token = ids("word")[0];
    assert_eq!(reply.push(token, true).pieces, []);
    assert_eq!(reply.push(MINI.control(Control::ThinkClose).unwrap(), true).pieces, []);
    assert!(reply.reasoning());
}

#[test]
fn a_character_over_several_tokens_appears_whole() {
    let mut reply = completion(&[]);
    let texts: Vec<String> = "a€b"
        .bytes()
        .map(|b| {
            let mut shown = Shown::default();
            shown.add(reply.push(byte_token(b), false).pieces);
            shown.content
        })
        .collect();
    assert_eq!(texts, ["a", "", "", "€", "b"]);
}

#[test]
fn an_unfinished_character_is_replaced_where_the_text_ends() {
    let half = [byte_token(0xe2), byte_token(0x82)];
    let mut tokens = half.to_vec();
    tokens.extend(ids("</think>"));
    tokens.extend(half);
    let shown = show(chat(Channel::Reasoning, &[]), &tokens);
    assert_eq!((shown.reasoning.as_str(), shown.content.as_str()), ("\u{fffd}", "\u{fffd}"));
}

#[test]
fn a_stop_string_ends_the_reply_at_its_token() {
    let tokens = ids("one two three four");
    let shown = show(completion(&["o th"]), &tokens);
    let until = tokens.iter().scan(String::new(), |text, &token| {
        text.push_str(std::str::from_utf8(MINI.bytes(token).unwrap()).unwrap());
        Some(text.clone())
    });
    let needed = until.take_while(|text| !text.contains("o th")).count() + 1;
    let end = Some(TextEnd::StopString("o th".to_owned()));
    assert_eq!(shown, Shown { content: "one tw".to_owned(), tokens: needed, end, ..Shown::default() });
    assert!(needed < tokens.len());
}

#[test]
fn nothing_follows_a_stop_string() {
    let mut reply = completion(&["b"]);
    let step = reply.push(byte_token(b'b'), false);
    assert_eq!((step.pieces, step.end), (vec![], Some(TextEnd::StopString("b".to_owned()))));
    assert_eq!(reply.push(byte_token(b'c'), false), tokenfare_lanes::Step::default());
    assert_eq!(reply.finish(), []);
}

#[test]
fn stop_strings_apply_to_content_only() {
    let tokens = ids("a stop b</think>c stop d");
    let shown = show(chat(Channel::Reasoning, &["stop"]), &tokens);
    assert_eq!((shown.reasoning.as_str(), shown.content.as_str()), ("a stop b", "c "));
    assert_eq!(shown.end, Some(TextEnd::StopString("stop".to_owned())));
    let shown = show(chat(Channel::Content, &["ab"]), &ids("a<think>x</think>b"));
    assert_eq!((shown.reasoning.as_str(), shown.content.as_str(), shown.end), ("x", "ab", None));
}

#[test]
fn held_back_text_is_released_at_the_end() {
    let shown = show(completion(&["stop now"]), &ids("please stop"));
    assert_eq!((shown.content.as_str(), shown.end), ("please stop", None));
}

#[test]
fn no_rule_applies_to_the_next_token() {
    let mut reply = chat(Channel::Content, &[]);
    let mut allowed = [u32::MAX; 256];
    assert_eq!(reply.mask(&mut allowed), Ok(false));
    assert_eq!(allowed, [u32::MAX; 256]);
    assert_eq!(reply.admits(&[1, 2, 3]), 3);
}

/// The text of a whole reply, by channel, without stop strings.
fn whole(start: Channel, tokens: &[u32], tags: bool) -> (String, String) {
    let mut runs = vec![(start, Vec::new())];
    for &token in tokens {
        let (channel, bytes) = runs.last_mut().unwrap();
        match (token, *channel) {
            (8186, Channel::Content) if tags => runs.push((Channel::Reasoning, Vec::new())),
            (8187, Channel::Reasoning) if tags => runs.push((Channel::Content, Vec::new())),
            (8186 | 8187, _) if tags => {}
            (0..=2, _) => {}
            _ => bytes.extend_from_slice(MINI.bytes(token).unwrap_or_default()),
        }
    }
    let text = |of: Channel| {
        runs.iter()
            .filter(|(channel, _)| *channel == of)
            .map(|(_, bytes)| String::from_utf8_lossy(bytes))
            .collect()
    };
    (text(Channel::Reasoning), text(Channel::Content))
}

/// Any tokens; single bytes, specials and tags often.
fn tokens() -> impl Strategy<Value = Vec<u32>> {
    let byte = prop_oneof![any::<u8>(), Just(0xe2u8), 0x80..=0xbfu8].prop_map(byte_token);
    let token = prop_oneof![4 => 0..VOCAB, 4 => byte, 1 => 0..3u32, 1 => 8186..8188u32, 1 => Just(9000)];
    prop::collection::vec(token, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_completion_is_its_bytes_decoded(tokens in tokens()) {
        let shown = show(completion(&[]), &tokens);
        prop_assert_eq!((shown.reasoning, shown.content), whole(Channel::Content, &tokens, false));
    }

    #[test]
    fn each_run_of_a_channel_is_its_bytes_decoded(tokens in tokens(), thinks: bool) {
        let start = if thinks { Channel::Reasoning } else { Channel::Content };
        let shown = show(chat(start, &[]), &tokens);
        prop_assert_eq!((shown.reasoning, shown.content), whole(start, &tokens, true));
    }

    #[test]
    fn stop_strings_do_not_depend_on_the_tokens(
        text in "[abc €]{0,24}",
        strings in prop::collection::vec("[abc €]{1,3}", 0..3),
    ) {
        let names: Vec<&str> = strings.iter().map(String::as_str).collect();
        let bytes: Vec<u32> = text.bytes().map(byte_token).collect();
        let by_bytes = show(completion(&names), &bytes);
        let by_tokens = show(completion(&names), &MINI.encode_plain(&text).unwrap());
        prop_assert_eq!(&by_tokens.content, &by_bytes.content);
        prop_assert_eq!(&by_tokens.end, &by_bytes.end);
        if let Some(TextEnd::StopString(string)) = &by_tokens.end {
            let whole = by_tokens.content + string;
            prop_assert!(text.starts_with(&whole));
            prop_assert_eq!(by_bytes.tokens, whole.len());
        }
        prop_assert!(strings.iter().all(|string| !by_bytes.content.contains(string.as_str())));
    }
}
