//! Every seed of the fuzz targets, and cheap changes of each, through the readers: none may panic.

#![allow(clippy::unwrap_used, reason = "test helpers")]

#[path = "../../../fuzz/mutate.rs"]
mod mutate;

use mutate::{change, seeds};
use tokenfare_dsv41::chat::{CallStream, ChatOptions, Conversation};
use tokenfare_dsv41::checkpoint::parse_header;
use tokenfare_dsv41::config;
use tokenfare_lanes::Piece;

/// Changes of each seed.
const ROUNDS: u64 = 500;

/// Runs `read` on each seed and its changes and counts the inputs that it accepts: (seeds, changes).
fn run(target: &str, read: impl Fn(&[u8]) -> bool) -> (Vec<String>, usize) {
    let mut accepted = Vec::new();
    let mut changed = 0;
    for (name, seed) in seeds(target) {
        if read(&seed) {
            accepted.push(name);
        }
        for round in 0..ROUNDS {
            let mut bytes = seed.clone();
            change(&mut bytes, round.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed.len() as u64);
            changed += usize::from(read(&bytes));
        }
    }
    accepted.sort();
    (accepted, changed)
}

#[test]
fn headers_are_read_or_refused() {
    let (seeds, changed) = run("header", |bytes| {
        let _ = parse_header(bytes, u64::MAX);
        let tensors = parse_header(bytes, bytes.len() as u64);
        for tensor in tensors.iter().flatten() {
            assert!(tensor.offset + tensor.bytes <= bytes.len() as u64, "{tensor:?}");
        }
        tensors.is_ok()
    });
    assert_eq!(seeds, ["fp4", "no_tensors", "scalar_and_empty", "two_tensors"]);
    assert!(changed > 0, "some changes keep a header valid");
}

#[test]
fn configurations_are_read_or_refused() {
    let (seeds, changed) = run("config", |bytes| config::parse(bytes).is_ok());
    assert_eq!(seeds, ["mini", "no_compression", "no_drafter", "no_engram", "no_vision", "release", "tiny"]);
    assert!(changed > 0, "some changes keep a configuration valid");
}

/// Content, then each call as `name arguments`, with a dot where it is complete.
fn read_calls<'a>(parts: impl Iterator<Item = &'a [char]>) -> Vec<String> {
    let (mut stream, mut pieces) = (CallStream::default(), Vec::new());
    for part in parts {
        stream.push(&part.iter().collect::<String>(), &mut pieces);
    }
    stream.finish(&mut pieces);
    let mut read = vec![String::new()];
    for piece in pieces {
        let last = read.len() - 1;
        match piece {
            Piece::Text { text, .. } => read[0] += &text,
            Piece::Call(name) => read.push(format!("{name} ")),
            Piece::Arguments(json) => read[last] += &json,
            Piece::CallEnd => read[last] += ".",
        }
    }
    read
}

#[test]
fn calls_are_read_alike_in_any_parts() {
    let (seeds, changed) = run("calls", |bytes| {
        let Some((size, text)) = bytes.split_first() else { return false };
        let text: Vec<char> = String::from_utf8_lossy(text).chars().collect();
        let whole = read_calls(std::iter::once(&text[..]));
        assert_eq!(read_calls(text.chunks(usize::from(*size).max(1))), whole);
        whole[1..].iter().any(|call| call.ends_with('.'))
    });
    assert_eq!(seeds, ["no_wrapper", "text_after", "two_calls"]);
    assert!(changed > 0, "some changes keep a call complete");
}

#[test]
fn conversations_are_read_or_refused() {
    let (seeds, changed) = run("conversation", |bytes| {
        let Ok(messages) = serde_json::from_slice(bytes) else { return false };
        let read = Conversation::from_json(&messages);
        read.is_ok_and(|conversation| !conversation.encode(&ChatOptions::default()).segments().is_empty())
    });
    assert_eq!(seeds, ["control", "tools", "turns"]);
    assert!(changed > 0, "some changes keep a conversation valid");
}
