//! Decode speed of the mini checkpoint on the CPU at one stream, with drafts against without.
//!
//! `cargo bench -p tokenfare-dsv41 --bench mini_decode [-- ROUNDS]`. Both engines live side by side and take turns,
//! prompt by prompt, so that what else the machine does falls on both. Greedy, up to 64 tokens a reply.

mod support;

use std::collections::BTreeMap;

use support::{median, model, prompts};
use tokenfare_lanes::{Drafts, Lanes, LanesConfig, NoText, ReplyStats, Request};

const TOKENS: usize = 64;

fn engine(drafts: Drafts) -> Lanes {
    let config = LanesConfig { drafts, prompt_cache_bytes: 0, ..LanesConfig::default() };
    Lanes::start(model(drafts, 0), config).expect("a thread")
}

fn reply(lanes: &Lanes, prompt: &[u32]) -> ReplyStats {
    let mut request = Request::new(prompt.to_vec(), TOKENS, Box::new(NoText));
    request.stop_tokens = vec![1];
    support::reply(lanes, request).1
}

/// Tokens and seconds of one domain in one round.
#[derive(Default, Clone, Copy)]
struct Sum {
    tokens: usize,
    seconds: f64,
    rounds: usize,
}

impl Sum {
    fn add(&mut self, stats: &ReplyStats) {
        self.tokens += stats.completion_tokens - 1;
        self.seconds += stats.decode_s;
        self.rounds += stats.rounds;
    }

    fn speed(self) -> f64 {
        self.tokens as f64 / self.seconds
    }
}

fn main() {
    let turns = std::env::args().filter_map(|a| a.parse().ok()).next().unwrap_or(5);
    let engines = [engine(Drafts::Off), engine(Drafts::On)];
    let mut sets: BTreeMap<String, Vec<Vec<u32>>> = BTreeMap::new();
    for p in prompts("golden.json") {
        sets.entry(format!("golden {}", p.domain)).or_default().push(p.prompt_ids);
    }
    for p in prompts("heldout.json") {
        sets.entry(format!("held-out {}", p.domain)).or_default().push(p.prompt_ids);
    }
    println!("{:<20} {:>10} {:>10} {:>7} {:>12}", "prompts", "without", "with", "ratio", "tokens/round");
    for (name, set) in &sets {
        let mut speeds = [Vec::new(), Vec::new()];
        let mut kept = Sum::default();
        for turn in 0..turns {
            let mut sums = [Sum::default(); 2];
            for (i, prompt) in set.iter().enumerate() {
                let first = (turn + i) % 2;
                let mut hashes = Vec::new();
                for e in [first, 1 - first] {
                    let stats = reply(&engines[e], prompt);
                    if stats.completion_tokens > 1 {
                        sums[e].add(&stats);
                    }
                    hashes.push(stats.token_sha256);
                }
                assert_eq!(hashes[0], hashes[1], "{name}: drafts changed a reply");
            }
            for e in [0, 1] {
                speeds[e].push(sums[e].speed());
            }
            kept = sums[1];
        }
        let ratios = speeds[1].iter().zip(&speeds[0]).map(|(with, without)| with / without).collect();
        let [without, with] = speeds.map(median);
        let depth = kept.tokens as f64 / kept.rounds as f64;
        println!("{name:<20} {without:>10.1} {with:>10.1} {:>7.2} {depth:>12.2}", median(ratios));
    }
}
