//! Tool calls, forbidden calls and grammars in the text of a reply, with mini's vocabulary.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use tokenfare_dsv41::chat::CallStream;
use tokenfare_dsv41::reply::{MostCalls, ReplyText, StopStrings};
use tokenfare_dsv41::tokenizer::{Control, Tokenizer};
use tokenfare_lanes::{Channel, Grammar, GrammarError, Piece, Text, TextEnd};

const VOCAB: u32 = 8192;

static MINI: LazyLock<Arc<Tokenizer>> = LazyLock::new(|| {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/mini");
    Arc::new(Tokenizer::open(&dir, VOCAB as usize).unwrap())
});

fn control(kind: Control) -> u32 {
    MINI.control(kind).unwrap()
}

fn ids(text: &str) -> Vec<u32> {
    MINI.encode(&text.replace("[[", "<｜DSML｜ ").replace("[/", "</｜DSML｜ ")).unwrap()
}

fn chat(channel: Channel, strings: &[&str], most: MostCalls) -> ReplyText {
    let stops = StopStrings::new(strings.iter().map(|s| s.to_string())).unwrap();
    ReplyText::chat(MINI.clone(), channel, stops, most)
}

/// Pieces of a reply in order, neighbours of a kind joined, the tokens it took and its end.
fn show(mut reply: ReplyText, tokens: &[u32]) -> (Vec<Piece>, usize, Option<TextEnd>) {
    let (mut all, mut taken, mut end) = (Vec::new(), 0, None);
    for &token in tokens {
        let step = reply.push(token, false);
        taken += 1;
        all.extend(step.pieces);
        end = step.end;
        if end.is_some() {
            break;
        }
    }
    all.extend(reply.finish());
    (join(all), taken, end)
}

fn join(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut joined: Vec<Piece> = Vec::new();
    for piece in pieces {
        match (joined.last_mut(), &piece) {
            (Some(Piece::Arguments(last)), Piece::Arguments(json)) => last.push_str(json),
            (Some(Piece::Text { channel: to, text: last }), Piece::Text { channel, text })
                if to == channel =>
            {
                last.push_str(text);
            }
            _ => joined.push(piece),
        }
    }
    joined
}

const TWO: &str = "\n\n[[calls>\n[[invoke name=\"f\">\n[[parameter name=\"city\" string=\"true\">Paris[/parameter>\n[/invoke>\n[[invoke name=\"g\">\n[/invoke>\n[/calls>";

fn first_call() -> [Piece; 3] {
    [Piece::Call("f".into()), Piece::Arguments("{\"city\": \"Paris\"}".into()), Piece::CallEnd]
}

fn second_call() -> [Piece; 3] {
    [Piece::Call("g".into()), Piece::Arguments("{}".into()), Piece::CallEnd]
}

#[test]
fn calls_follow_reasoning_and_content() {
    let tokens = ids(&format!("why</think>Let me look.{TWO}<｜end▁of▁sentence｜>"));
    let (pieces, _, end) = show(chat(Channel::Reasoning, &[], MostCalls::Any), &tokens);
    let mut expected = vec![Piece::reasoning("why"), Piece::content("Let me look.")];
    expected.extend(first_call());
    expected.extend(second_call());
    assert_eq!((pieces, end), (expected, None));
}

#[test]
fn one_call_ends_the_reply_with_its_last_token() {
    let tokens = ids(TWO);
    let (pieces, taken, end) = show(chat(Channel::Content, &[], MostCalls::One), &tokens);
    assert_eq!((pieces, end), (first_call().to_vec(), Some(TextEnd::Call)));
    assert_eq!(
        MINI.decode(&tokens[..taken], tokenfare_dsv41::tokenizer::Special::Show)
            .unwrap()
            .matches("invoke>")
            .count(),
        1
    );
}

#[test]
fn stop_strings_end_at_the_calls() {
    let tokens = ids(&format!("a Paris{TWO}"));
    let stopped = show(chat(Channel::Content, &["Paris"], MostCalls::Any), &tokens);
    assert_eq!(
        (stopped.0, stopped.2),
        (vec![Piece::content("a ")], Some(TextEnd::StopString("Paris".into())))
    );
    let tokens = ids(TWO);
    for stop in ["Paris", "invoke", "city", "\n["] {
        let (pieces, taken, end) = show(chat(Channel::Content, &[stop], MostCalls::Any), &tokens);
        assert_eq!((pieces.len(), taken, end), (6, tokens.len(), None), "{stop:?}");
    }
    // A stop string sees the text as the model writes it, up to the tag that opens the calls.
    let (pieces, _, end) = show(chat(Channel::Content, &["\n\n"], MostCalls::Any), &tokens);
    assert_eq!((pieces, end), (vec![], Some(TextEnd::StopString("\n\n".into()))));
}

fn allowed(text: &mut ReplyText) -> Option<Vec<u32>> {
    let mut words = vec![u32::MAX; VOCAB as usize / 32];
    let applies = text.mask(&mut words).unwrap();
    applies.then(|| (0..VOCAB).filter(|id| words[*id as usize / 32] >> (id % 32) & 1 == 1).collect())
}

#[test]
fn a_reply_without_calls_never_has_their_mark() {
    let dsml = control(Control::Dsml);
    let mut reply = chat(Channel::Content, &[], MostCalls::None);
    let all: Vec<u32> = (0..VOCAB).filter(|&id| id != dsml).collect();
    assert_eq!(allowed(&mut reply), Some(all));
    assert_eq!(reply.admits(&[30, dsml, 30]), 1);
    let mut reply = chat(Channel::Reasoning, &[], MostCalls::None);
    assert_eq!(allowed(&mut reply), None);
    assert_eq!(reply.admits(&[dsml, control(Control::ThinkClose), 30, dsml]), 3);
    assert_eq!(allowed(&mut chat(Channel::Content, &[], MostCalls::Any)), None);
}

/// Allows these tokens in this order, then no other.
#[derive(Clone)]
struct Exactly {
    tokens: Vec<u32>,
    at: usize,
}

impl Grammar for Exactly {
    fn mask(&mut self, allowed: &mut [u32]) -> Result<(), GrammarError> {
        let next = self.tokens[self.at];
        for (word, bits) in (0u32..).zip(allowed) {
            *bits &= if word == next / 32 { 1 << (next % 32) } else { 0 };
        }
        Ok(())
    }
    fn accept(&mut self, token: u32) -> Result<(), GrammarError> {
        if self.tokens.get(self.at) != Some(&token) {
            return Err(GrammarError(format!("token {token}")));
        }
        self.at += 1;
        Ok(())
    }
    fn admits(&mut self, drafts: &[u32]) -> usize {
        drafts.iter().zip(&self.tokens[self.at..]).take_while(|(draft, token)| draft == token).count()
    }
    fn is_complete(&self) -> bool {
        self.at == self.tokens.len()
    }
    fn fork(&self) -> Box<dyn Grammar> {
        Box::new(self.clone())
    }
}

fn bound(channel: Channel, tokens: &[u32]) -> ReplyText {
    let grammar = Exactly { tokens: tokens.to_vec(), at: 0 };
    chat(channel, &[], MostCalls::Any).with_grammar(Box::new(grammar))
}

#[test]
fn a_grammar_begins_after_the_reasoning_and_ends_the_reply() {
    let (close, eos) = (control(Control::ThinkClose), control(Control::Eos));
    let answer = ids("A GPU");
    let mut reply = bound(Channel::Reasoning, &answer);
    let all: Vec<u32> = (0..VOCAB).filter(|&id| id != eos).collect();
    assert_eq!(allowed(&mut reply), Some(all));
    let drafts = [&[30, close][..], &answer, &[30]].concat();
    assert_eq!(reply.admits(&drafts), 2 + answer.len());
    assert_eq!(reply.admits(&[30, eos]), 1);
    assert_eq!(reply.admits(&[30, close, 30, 31]), 2);
    for &token in &drafts[..2] {
        assert_eq!(reply.push(token, false).end, None);
    }
    assert_eq!(allowed(&mut reply), Some(vec![answer[0]]));
    let (pieces, taken, end) = show(reply, &[&answer[..], &[30]].concat());
    assert_eq!((pieces, taken, end), (vec![Piece::content("A GPU")], answer.len(), Some(TextEnd::Grammar)));
}

#[test]
fn tags_of_reasoning_are_not_of_the_answer() {
    let (open, close) = (control(Control::ThinkOpen), control(Control::ThinkClose));
    for tag in [open, close] {
        assert_eq!(allowed(&mut bound(Channel::Content, &[tag])), Some(vec![]));
    }
}

#[test]
fn a_grammar_that_fails_tells_at_the_next_token() {
    let mut reply = bound(Channel::Content, &[30, 31]);
    assert_eq!(reply.push(32, false).end, None);
    let mut words = [u32::MAX; 256];
    assert_eq!(reply.mask(&mut words), Err(GrammarError("token 32".into())));
}

#[test]
fn a_raw_completion_has_its_grammar_from_the_start() {
    let stops = StopStrings::new([]).unwrap();
    let grammar = Box::new(Exactly { tokens: vec![30, 31], at: 0 });
    let mut reply = ReplyText::completion(MINI.clone(), stops).with_grammar(grammar);
    assert_eq!(allowed(&mut reply), Some(vec![30]));
    assert_eq!((reply.admits(&[30, 31, 32]), reply.admits(&[31])), (2, 0));
    assert_eq!(reply.push(30, false).end, None);
    assert_eq!(reply.push(31, false).end, Some(TextEnd::Grammar));
}

fn tokens() -> impl Strategy<Value = Vec<u32>> {
    let parts = prop_oneof![
        Just(TWO.to_owned()),
        prop::sample::select(vec![
            "[[calls>",
            "[[invoke name=\"f\">",
            "[/invoke>",
            "[/calls>",
            "[[parameter name=\"k\" string=\"true\">é🙂",
            "[/parameter>",
            "<think>",
            "</think>",
            "\n\n",
            "<",
            "a",
            "｜DSML｜",
        ])
        .prop_map(str::to_owned),
    ];
    let run = prop_oneof![parts.prop_map(|text| ids(&text)), prop::collection::vec(0..VOCAB, 0..4)];
    prop::collection::vec(run, 0..8).prop_map(|runs| runs.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    /// Each run of the answer is its bytes decoded and told apart as a whole.
    #[test]
    fn tokens_show_what_their_text_does(tokens in tokens(), thinks: bool) {
        let start = if thinks { Channel::Reasoning } else { Channel::Content };
        let (pieces, ..) = show(chat(start, &[], MostCalls::Any), &tokens);
        let mut runs = vec![(start, Vec::new())];
        for &token in &tokens {
            let switch = match token {
                t if t == control(Control::ThinkOpen) => Some(Channel::Reasoning),
                t if t == control(Control::ThinkClose) => Some(Channel::Content),
                _ => None,
            };
            match switch {
                Some(channel) if channel != runs.last().unwrap().0 => runs.push((channel, Vec::new())),
                Some(_) => {}
                None if MINI.is_special(token) => {}
                None => runs.last_mut().unwrap().1.extend_from_slice(MINI.bytes(token).unwrap()),
            }
        }
        let mut expected = Vec::new();
        for (channel, bytes) in runs {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            match channel {
                Channel::Reasoning if text.is_empty() => {}
                Channel::Reasoning => expected.push(Piece::reasoning(text)),
                Channel::Content => {
                    let mut stream = CallStream::default();
                    stream.push(&text, &mut expected);
                    stream.finish(&mut expected);
                }
            }
        }
        prop_assert_eq!(pieces, join(expected));
    }
}
