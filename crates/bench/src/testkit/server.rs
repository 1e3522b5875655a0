//! A server that sleeps through rounds and tells hashes, prices and counters as a real one does.

use std::io::{self, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::nullserver::http::{self, Handler, HttpServer, Request};

/// What a simulated server does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Time of a round, before what is added.
    pub round: Duration,
    /// Share of a round that is slept in addition.
    pub added: f64,
    /// Tokens of a round.
    pub tokens_a_round: usize,
    /// A reply, by its number from 0, in which one token is another one.
    pub flipped_reply: Option<usize>,
    /// Whether hashes are told.
    pub hashes: bool,
    /// Number of a reply at which the process ends.
    pub dies_at: Option<usize>,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            round: Duration::from_millis(2),
            added: 0.0,
            tokens_a_round: 2,
            flipped_reply: None,
            hashes: true,
            dies_at: None,
        }
    }
}

/// A running simulated server.
pub struct SimulatedServer(HttpServer);

struct Simulation {
    pace: Pace,
    replies: std::sync::atomic::AtomicUsize,
}

/// The token at a position of the reply that a seed gives.
fn token(seed: u64, position: usize) -> u64 {
    seed.wrapping_mul(31).wrapping_add(position as u64 * 7) % 1000
}

impl Simulation {
    fn reply(&self, body: &Value, out: &mut TcpStream) -> io::Result<()> {
        let number = self.replies.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        if self.pace.dies_at == Some(number) {
            eprintln!("simulated server: reply {number} ends the process");
            std::process::exit(3);
        }
        let tokens = body["max_tokens"].as_u64().unwrap_or(16) as usize;
        let seed = body["seed"].as_u64().unwrap_or(0) + body["messages"].is_array() as u64;
        let mut ids: Vec<u64> = (0..tokens).map(|position| token(seed, position)).collect();
        if self.pace.flipped_reply == Some(number) {
            let middle = tokens / 2;
            ids[middle] += 1;
        }
        http::stream(out)?;
        let round = self.pace.round.mul_f64(1.0 + self.pace.added);
        let begin = Instant::now();
        for (number, part) in (1..).zip(ids.chunks(self.pace.tokens_a_round)) {
            // Rounds end at fixed times, so that what a sleep is late adds up to nothing.
            let until = round * number;
            std::thread::sleep(until.saturating_sub(begin.elapsed()));
            for id in part {
                let text = format!(" {id}");
                http::event(
                    out,
                    &json!({"choices": [{"index": 0, "text": text, "delta": {"content": text}}]}),
                )?;
            }
        }
        let rounds = tokens.div_ceil(self.pace.tokens_a_round);
        let mut last = json!({"choices": [], "usage": {"prompt_tokens": 8, "completion_tokens": tokens,
            "prompt_tokens_details": {"cached_tokens": 0}}});
        if self.pace.hashes {
            let ids: Vec<String> = ids.iter().map(u64::to_string).collect();
            let hash: String =
                Sha256::digest(ids.join(",")).iter().map(|byte| format!("{byte:02x}")).collect();
            last["tokenfare"] = json!({"token_sha256": hash, "rounds": rounds, "drafted": tokens, "accepted":
                tokens - rounds, "ms_per_round": round.as_secs_f64() * 1e3, "prefill_seconds": 0.001});
        }
        http::event(out, &last)?;
        out.write_all(http::DONE)
    }
}

impl Handler for Simulation {
    fn answer(&self, request: &Request, out: &mut TcpStream) -> io::Result<()> {
        match request.path.as_str() {
            "/health" => http::json(out, &json!({"status": "ok"})),
            "/v1/models" => http::json(out, &json!({"data": [{"id": "simulated", "max_model_len": 4096}]})),
            "/v1/pricing" => {
                let verify: Vec<f64> = (1..=8).map(|rows| 1.0 + f64::from(rows) / 4.0).collect();
                http::json(out, &json!({"table": {"verify_ms": verify}}))
            }
            "/tokenize" => {
                let text = request.body["prompt"].as_str().unwrap_or_default();
                let ids: Vec<usize> = text.split(' ').enumerate().map(|(place, _)| place).collect();
                http::json(out, &json!({"tokens": ids}))
            }
            _ => self.reply(&request.body, out),
        }
    }
}

impl SimulatedServer {
    /// Listens at `port`; 0 takes a free one.
    ///
    /// # Errors
    /// The system's.
    pub fn start(port: u16, pace: Pace) -> io::Result<Self> {
        Ok(Self(HttpServer::start_at(port, Simulation { pace, replies: 0.into() })?))
    }

    /// Its address.
    pub fn url(&self) -> String {
        self.0.url()
    }
}
