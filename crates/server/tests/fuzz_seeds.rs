//! Every seed of the request target, and cheap changes of each, through the API: accepted, or refused with the field named.

#![allow(clippy::unwrap_used, reason = "test helpers")]

#[path = "../../../fuzz/mutate.rs"]
mod mutate;

use mutate::{change, seeds};
use tokenfare_server::testkit::Bodies;

/// Changes of each seed.
const ROUNDS: u64 = 300;

#[test]
fn bodies_are_answered_or_refused_by_field() {
    let bodies = Bodies::new();
    let (mut accepted, mut changed) = (Vec::new(), 0);
    for (name, seed) in seeds("request") {
        if bodies.ask(&seed).is_success() {
            accepted.push(name);
        }
        for round in 0..ROUNDS {
            let mut bytes = seed[1..].to_vec();
            change(&mut bytes, round.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed.len() as u64);
            bytes.insert(0, seed[0]);
            changed += usize::from(bodies.ask(&bytes).is_success());
        }
    }
    accepted.sort();
    assert_eq!(
        accepted,
        [
            "chat",
            "chat_guided",
            "chat_stream",
            "chat_tools",
            "detokenize",
            "messages",
            "messages_blocks",
            "messages_count",
            "plain",
            "plain_guided",
            "plain_ids",
            "responses",
            "responses_items",
            "tokenize",
            "tokenize_chat"
        ]
    );
    assert!(changed > 0, "some changes keep a body valid");
}
