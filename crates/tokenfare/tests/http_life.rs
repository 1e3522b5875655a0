//! The HTTP API of the real binary: disconnects and shutdown.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::Read;
use std::net::TcpStream;

use rstest::rstest;
use serde_json::{Value, json};
use support::mini;
use support::server::{Server, read};

const PLAIN: &str = "/v1/completions";

fn long(stream: bool, max_tokens: usize) -> Value {
    json!({"prompt": "The sea", "max_tokens": max_tokens, "ignore_eos": true, "stream": stream})
}

fn open(server: &Server, body: &Value) -> TcpStream {
    let bytes = body.to_string().into_bytes();
    let stream = server.send("POST", PLAIN, bytes.len(), &bytes);
    server.wait_running(1);
    stream
}

#[rstest]
fn a_client_that_leaves_frees_its_lane(#[values(false, true)] streamed: bool) {
    let server = Server::start(&[&mini(), "--parallel", "1"], &[]);
    let mut left = open(&server, &long(streamed, 4000));
    if streamed {
        left.read_exact(&mut [0; 64]).unwrap();
    }
    drop(left);
    server.wait_running(0);
    assert_eq!(server.ok(PLAIN, &long(false, 3))["usage"]["completion_tokens"], 3);
}

#[test]
fn a_terminated_server_finishes_its_reply_and_takes_no_other() {
    let mut server = Server::start(&[&mini()], &[("TF_DSV41_DRAIN_S", "600")]);
    let running = open(&server, &long(true, 600));
    server.terminate();
    let health = loop {
        let health = server.get("/health");
        if health.status != 200 {
            break health;
        }
    };
    assert_eq!((health.status, &health.json()["status"]), (503, &json!("draining")));
    let refused = server.post(PLAIN, &long(false, 1));
    assert!(refused.head.contains("\r\nretry-after: "), "{}", refused.head);
    assert_eq!((refused.status, refused.error().3.as_str()), (503, "the server is shutting down"));
    let events = read(running).events();
    assert_eq!(events[events.len() - 2]["choices"][0]["finish_reason"], "length");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_request_that_is_still_being_read_outlives_the_signal() {
    let mut server = Server::start(&[&mini()], &[("TF_DSV41_DRAIN_S", "600")]);
    let body = json!({"prompt": "a".repeat(6 << 20)}).to_string();
    let asked = server.send("POST", PLAIN, body.len(), body.as_bytes());
    server.terminate();
    assert_eq!(read(asked).error().2, "context_length_exceeded");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_second_signal_cuts_the_drain_short() {
    let mut server = Server::start(&[&mini()], &[("TF_DSV41_DRAIN_S", "600")]);
    let running = open(&server, &long(true, 4000));
    server.terminate();
    while server.get("/health").status == 200 {}
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
    let mut rest = String::new();
    // The end of the connection may come as a reset.
    let _ = std::io::BufReader::new(running).read_to_string(&mut rest);
    assert!(!rest.contains("\"finish_reason\":\"length\""));
}
