//! A server that does nothing, to measure what the client itself costs.

pub(crate) mod http;

use std::io::{self, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::load::{Ask, Length, Load, Seed, Verify};
use crate::stats::Spread;
use crate::{BenchError, Client};
use http::{Handler, HttpServer, Request};

/// Streams timed.
const STREAMS: usize = 9;
/// Pieces of a stream.
const PIECES: usize = 512;

struct Null;

impl Handler for Null {
    fn answer(&self, request: &Request, out: &mut TcpStream) -> io::Result<()> {
        if request.path == "/v1/models" {
            return http::json(out, &json!({"data": [{"id": "null"}]}));
        }
        let pieces = request.body["max_tokens"].as_u64().unwrap_or(1);
        http::stream(out)?;
        let piece = json!({"choices": [{"index": 0, "text": "x", "finish_reason": null}]});
        for _ in 0..pieces {
            http::event(out, &piece)?;
        }
        http::event(out, &json!({"choices": [], "usage": {"completion_tokens": pieces}}))?;
        out.write_all(http::DONE)
    }
}

/// Microseconds that one event costs the client and the null server together, which is most that the client adds to
/// the time between two pieces.
///
/// # Errors
/// No local connection.
pub fn microseconds_an_event() -> Result<Spread, BenchError> {
    let server = HttpServer::start(Null).map_err(|e| BenchError::Server(format!("null server: {e}")))?;
    let client = Client::new(&server.url(), None, Duration::from_secs(60))?;
    let ask = Ask {
        tokens: PIECES,
        temperature: 0.0,
        seed: Seed::Unset,
        length: Length::Natural,
        verify: Verify::Any,
    };
    let (path, body): (_, Value) = ask.request(&Load::concurrent()[0], "null");
    let mut times = Vec::new();
    for _ in 0..STREAMS {
        let reply = client.stream(path, &body, Instant::now())?;
        let apart = (reply.last - reply.first).as_secs_f64() * 1e6;
        times.push(apart / (reply.pieces.max(2) - 1) as f64);
    }
    let found = "no stream".to_owned();
    Spread::of(times).ok_or(BenchError::Answer { what: "null server".into(), expected: "times", found })
}

/// The line that a measurement prints of its client.
///
/// # Errors
/// As [`microseconds_an_event`].
pub fn line() -> Result<String, BenchError> {
    let Spread { median, min, max } = microseconds_an_event()?;
    Ok(format!(
        "client: at most {median:.1} us an event ({min:.1}-{max:.1}), against a server that does nothing"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_reads_every_event_of_the_null_server() {
        let server = HttpServer::start(Null).unwrap();
        let client = Client::new(&server.url(), None, Duration::from_secs(60)).unwrap();
        assert_eq!(client.model().unwrap(), ("null".to_owned(), None));
        let body = json!({"max_tokens": 700});
        let reply = client.stream("/v1/completions", &body, Instant::now()).unwrap();
        assert_eq!((reply.pieces, reply.tokens), (700, 700));
        assert!(microseconds_an_event().unwrap().min > 0.0);
    }
}
