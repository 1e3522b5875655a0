//! The HTTP API of the real binary at its limits: a full queue, a drain that is over, and clients that stall.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;

use rstest::rstest;
use serde_json::{Value, json};
use support::mini;
use support::server::{Answer, Server, read};

const PLAIN: &str = "/v1/completions";
const SHUT_DOWN: &str = "the server shut down before the reply ended";
/// Requests that may wait, and choices of one request.
const QUEUE: usize = 256;
const CHOICES: usize = 16;

fn long(stream: bool, n: usize) -> Value {
    json!({"prompt": "The sea", "max_tokens": 4000, "ignore_eos": true, "stream": stream, "n": n})
}

fn open(server: &Server, body: &Value) -> TcpStream {
    let bytes = body.to_string().into_bytes();
    server.send("POST", PLAIN, bytes.len(), &bytes)
}

fn wait_waiting(server: &Server, count: usize) {
    while server.get("/health").json()["waiting"] != count {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn a_full_queue_is_told_and_takes_requests_again_when_it_has_room() {
    let server = Server::start(&[&mini(), "--parallel", "1"], &[]);
    let running = open(&server, &long(true, 1));
    server.wait_running(1);
    let waiting: Vec<TcpStream> = (0..QUEUE / CHOICES).map(|_| open(&server, &long(true, CHOICES))).collect();
    wait_waiting(&server, QUEUE);
    for n in [1, CHOICES] {
        let refused = server.post(PLAIN, &long(false, n));
        let message = format!("the queue of {QUEUE} requests is full");
        assert_eq!((refused.status, refused.error().3), (503, message));
        assert!(refused.head.contains("\r\nretry-after: 1"), "{}", refused.head);
    }
    drop((running, waiting));
    wait_waiting(&server, 0);
    server.wait_running(0);
    let body = json!({"prompt": "The sea", "max_tokens": 3, "ignore_eos": true});
    assert_eq!(server.ok(PLAIN, &body)["usage"]["completion_tokens"], 3);
}

/// Ends the drain of a server with one long reply, and reads what its client was sent.
fn cut_short(stream: bool, drain: &str, again: bool) -> Answer {
    let mut server = Server::start(&[&mini()], &[("TF_DSV41_DRAIN_S", drain)]);
    let running = open(&server, &long(stream, 1));
    server.wait_running(1);
    server.terminate();
    if again {
        while server.get("/health").status == 200 {}
        server.terminate();
    }
    let answer = read(running);
    assert_eq!(server.wait().code(), Some(0));
    answer
}

#[rstest]
#[case("1", false)]
#[case("0", false)]
#[case("600", true)]
fn a_stream_that_outlives_the_drain_ends_with_an_error(#[case] drain: &str, #[case] again: bool) {
    let events = cut_short(true, drain, again).events();
    let error = &events.last().unwrap()["error"];
    assert_eq!((&error["message"], &error["type"]), (&json!(SHUT_DOWN), &json!("overloaded_error")));
    assert!(events.len() > 1 && events[0]["choices"][0]["finish_reason"].is_null());
}

#[test]
fn a_reply_that_outlives_the_drain_is_an_error() {
    let answer = cut_short(false, "1", false);
    assert_eq!((answer.status, answer.error().3.as_str()), (503, SHUT_DOWN));
}

#[test]
fn clients_that_stall_hold_up_no_other() {
    let mut server = Server::start(&[&mini(), "--parallel", "1"], &[]);
    let body = json!({"prompt": "The sea", "max_tokens": 3, "ignore_eos": true});
    let bytes = body.to_string().into_bytes();
    // Half of a body, half of a head, nothing at all.
    let mut stalled: Vec<TcpStream> = Vec::new();
    for _ in 0..50 {
        stalled.push(server.send("POST", PLAIN, bytes.len(), &bytes[..bytes.len() / 2]));
        let mut half = server.connect();
        half.write_all(b"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-le").unwrap();
        stalled.extend([half, server.connect()]);
    }
    for _ in 0..3 {
        assert_eq!(server.ok(PLAIN, &body)["usage"]["completion_tokens"], 3);
    }
    // The first one goes on, and is answered as if it had never paused.
    let mut first = stalled.swap_remove(0);
    first.write_all(&bytes[bytes.len() / 2..]).unwrap();
    assert_eq!(read(first).json()["usage"]["completion_tokens"], 3);
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
    let mut rest = Vec::new();
    // The server has ended, so the connection has: with an end of file or a reset.
    let _ = stalled.swap_remove(0).read_to_end(&mut rest);
    assert!(!String::from_utf8_lossy(&rest).contains(" 200 "));
}
