//! Eight clients that ask, leave and come back: no leak, no lane that stays taken, and every complete reply is the one it is alone.
//!
//! A minute, or as many seconds as `TOKENFARE_SOAK_S` says; with `-- --nocapture` it tells what was done.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::guided::{CHAT, ask, with};
use support::mini;
use support::server::{Server, read};

const PLAIN: &str = "/v1/completions";
const CLIENTS: u64 = 8;
/// Part of the time after which memory may grow no more.
const WARM: u32 = 3;
const MOST_GROWTH: f64 = 1.05;

/// Numbers that look random and are the same in every run.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A request and the hash of its reply when it is served alone and without drafts.
struct Asked {
    path: &'static str,
    body: Value,
    hash: String,
}

#[derive(Default)]
struct Done {
    complete: AtomicU64,
    left: AtomicU64,
}

fn hash(reply: &Value) -> String {
    reply["tokenfare"]["token_sha256"].as_str().unwrap().to_owned()
}

/// Requests of all lengths: greedy and sampled, with reasoning, forms, calls, long prompts and token ids.
fn bodies() -> Vec<(&'static str, Value)> {
    let ids =
        |len: u64, salt: u64| (0..len).map(|i| 300 + (i * i * 31 + salt * 97) % 5000).collect::<Vec<_>>();
    let tool = json!({"type": "function", "function": {"name": "get_weather", "parameters":
        {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}});
    let mut bodies = vec![
        (CHAT, ask("What is a GPU?")),
        (CHAT, with(ask("Who are you?"), json!({"temperature": 1, "seed": 4}))),
        (CHAT, with(ask("What is 47 + 38?"), json!({"thinking": true, "thinking_budget": 9}))),
        (CHAT, with(ask("Tell me a short story."), json!({"stop": ["boy"], "max_tokens": 60}))),
        (CHAT, with(ask("Ada, 36."), json!({"response_format": {"type": "json_object"}, "seed": 2}))),
        (
            CHAT,
            with(ask("What is the weather in Paris?"), json!({"tools": [tool], "tool_choice": "required"})),
        ),
    ];
    for (salt, (prompt, max_new)) in
        [(3, 90), (40, 1), (150, 24), (400, 8), (700, 40), (900, 4), (20, 60)].into_iter().enumerate()
    {
        let body = json!({"prompt": ids(prompt, salt as u64), "max_tokens": max_new, "ignore_eos": true});
        bodies.push((PLAIN, with(body.clone(), json!({"temperature": 0, "logprobs": 1}))));
        bodies.push((PLAIN, with(body, json!({"temperature": 1, "seed": salt, "top_p": 0.9}))));
    }
    bodies
}

/// Asks to the end, or leaves: before the body is sent, while waiting, or inside the reply.
fn one(server: &Server, asked: &Asked, draws: &mut Draws, done: &Done) {
    let streamed = draws.below(2) == 0;
    let body = with(asked.body.clone(), json!({"stream": streamed})).to_string().into_bytes();
    let send = |bytes: &[u8]| server.send("POST", asked.path, body.len(), bytes);
    match draws.below(10) {
        0 => drop(send(&body[..body.len() / 2])),
        1 => {
            let stream = send(&body);
            std::thread::sleep(Duration::from_millis(draws.below(60)));
            drop(stream);
        }
        2 | 3 => {
            let mut part = vec![0; 1 + draws.below(3000) as usize];
            // A reply that is shorter than the part ends the reading.
            let _ = send(&body).read_exact(&mut part);
        }
        _ => {
            let answer = read(send(&body));
            let reply = if streamed { answer.events().pop().unwrap() } else { answer.json() };
            assert_eq!(hash(&reply), asked.hash, "{}", asked.body);
            done.complete.fetch_add(1, Ordering::Relaxed);
            return;
        }
    }
    done.left.fetch_add(1, Ordering::Relaxed);
}

/// Resident memory of a process in KiB.
fn resident(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Waits until nothing runs or waits; a lane that stays taken fails the test.
fn settle(server: &Server) {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let health = server.get("/health").json();
        if health["running"] == 0 && health["waiting"] == 0 {
            return;
        }
        assert!(Instant::now() < deadline, "{health}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn exact_replies_and_flat_memory_while_clients_come_and_go() {
    let seconds = std::env::var("TOKENFARE_SOAK_S").map_or(60, |s| s.parse().unwrap());
    let time = Duration::from_secs(seconds);
    // A prompt cache that fills while memory may still grow; one thread of two cores leaves the clients one.
    let flags = ["--parallel", "4", "--context", "1024", "--prompt-cache-gib", "0.02", "--threads", "1"];
    let server = Server::start(&[&[mini().as_str()], &flags[..]].concat(), &[]);
    let alone = |(path, body): (&'static str, Value)| {
        let hash = hash(&server.ok(path, &with(body.clone(), json!({"draft": false}))));
        Asked { path, body, hash }
    };
    let asked: Vec<Asked> = bodies().into_iter().map(alone).collect();
    let done = Done::default();
    let end = Instant::now() + time;
    let memory = std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (server, asked, done) = (&server, &asked, &done);
            scope.spawn(move || {
                let mut draws = Draws(client);
                while Instant::now() < end {
                    one(server, &asked[draws.below(asked.len() as u64) as usize], &mut draws, done);
                }
            });
        }
        let mut memory = Vec::new();
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(250).min(time / 40));
            memory.push(resident(server.id()));
        }
        memory
    });
    settle(&server);
    let (warm, after) = memory.split_at(memory.len() / WARM as usize);
    let (before, most) = (*warm.iter().max().unwrap(), *after.iter().max().unwrap());
    let growth = most as f64 / before as f64;
    let (complete, left) = (done.complete.load(Ordering::Relaxed), done.left.load(Ordering::Relaxed));
    println!(
        "{seconds} s: {complete} complete replies, all equal to their own alone; {left} left early; \
         memory {before} KiB in the first third, {most} KiB after it"
    );
    assert!(growth <= MOST_GROWTH, "{before} KiB grew to {most} KiB");
    assert!(complete >= CLIENTS && left > 0, "{complete} complete, {left} left");
    for asked in &asked {
        assert_eq!(hash(&server.ok(asked.path, &asked.body)), asked.hash, "{}", asked.body);
    }
}
