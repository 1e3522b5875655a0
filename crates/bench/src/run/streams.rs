//! Several requests at once.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{BenchError, Client, Reply};

/// Sends all requests, each by its own thread, and reads every reply to its end. The threads start together; request `i`
/// then waits `i` times `stagger`.
pub fn together(
    client: &Client,
    requests: &[(&'static str, Value)],
    stagger: Duration,
) -> Vec<Result<Reply, BenchError>> {
    let barrier = Barrier::new(requests.len());
    let epoch = Instant::now();
    let one = &|(number, (path, body)): (u32, &(&'static str, Value))| {
        barrier.wait();
        std::thread::sleep(stagger * number);
        client.stream(path, body, epoch)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..).zip(requests).map(|r| scope.spawn(move || one(r))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|reply| reply.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}
