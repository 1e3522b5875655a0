//! How long running replies wait for tokens while a prompt of 3,900 tokens is fed beside them, on the mini checkpoint.
//!
//! `cargo bench -p tokenfare-dsv41 --bench mini_pieces [-- TURNS]`. Two replies run without end; their gaps between tokens
//! alone, before the feeding and after it, are held against those while the prompt is fed in pieces, for shares of 25
//! percent (the default), 50 and 100.

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use support::Prompt;
use tokenfare_lanes::{Drafts, Event, Lanes, LanesConfig, NoText, Reply, Request, Sampling};

const CONTEXT: usize = 4096;
const PROMPT: usize = 3900;
const RUNNING: usize = 2;
/// How long the replies run alone before the feeding, and after it.
const ALONE: Duration = Duration::from_secs(1);

fn engine(piece_share: u32) -> Lanes {
    let model = support::open_sized(&support::folder(), Drafts::On, 0, RUNNING + 1, CONTEXT);
    let config = LanesConfig { piece_share, prompt_cache_bytes: 0, ..LanesConfig::default() };
    Lanes::start(model, config).expect("a thread")
}

/// Ids of ordinary tokens that repeat late.
fn prompt(len: usize, salt: usize) -> Vec<u32> {
    (0..len).map(|i| 300 + ((i * i * 31 + i * 7 + salt * 101) % 5000) as u32).collect()
}

fn submit(lanes: &Lanes, request: Request) -> Reply {
    let handle = lanes.handle();
    let request = request.validate(handle.info()).expect("a valid request");
    handle.submit(request).expect("room in the queue")
}

/// A reply to an ordinary prompt, drawn at temperature 1, so that it does not fall into a loop and its rounds stay alike.
fn running(prompt: Vec<u32>, seed: u64) -> Request {
    let mut request = Request::new(prompt, CONTEXT, Box::new(NoText));
    request.sampling = Sampling { temperature: 1.0, top_k: 20, seed, ..Sampling::greedy() };
    request
}

/// Milliseconds between the rounds' tokens of one reply, alone and beside the prompt.
#[derive(Default)]
struct Gaps {
    alone: Vec<f64>,
    beside: Vec<f64>,
}

/// Follows a reply; `feeding` tells whether the prompt is being fed.
fn follow(mut reply: Reply, feeding: &AtomicBool, over: &AtomicBool) -> Gaps {
    let mut gaps = Gaps::default();
    let (mut last, mut before) = (None::<Instant>, false);
    while let Some(event) = reply.blocking_next() {
        if !matches!(event, Event::Tokens(_)) {
            continue;
        }
        let (now, beside) = (Instant::now(), feeding.load(Ordering::SeqCst));
        if let Some(last) = last {
            let gap = 1e3 * now.duration_since(last).as_secs_f64();
            // A gap that the feeding begins or ends in belongs to it.
            if before || beside { &mut gaps.beside } else { &mut gaps.alone }.push(gap);
        }
        (last, before) = (Some(now), beside);
        if over.load(Ordering::SeqCst) {
            break;
        }
    }
    gaps
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

fn at(values: &[f64], part: f64) -> f64 {
    values[((values.len() - 1) as f64 * part) as usize]
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// One feeding beside two running replies: (gaps alone, gaps beside, seconds of the feeding).
fn turn(lanes: &Lanes, ordinary: &[Prompt], salt: usize) -> (Vec<f64>, Vec<f64>, f64) {
    let (feeding, over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let followers: Vec<_> = (0..RUNNING)
            .map(|i| {
                let text = &ordinary[(salt * RUNNING + i) % ordinary.len()];
                submit(lanes, running(text.prompt_ids.clone(), i as u64))
            })
            .map(|reply| scope.spawn(|| follow(reply, &feeding, &over)))
            .collect();
        std::thread::sleep(ALONE);
        feeding.store(true, Ordering::SeqCst);
        let began = Instant::now();
        let mut long = submit(lanes, Request::new(prompt(PROMPT, salt), 1, Box::new(NoText)));
        while !matches!(long.blocking_next(), Some(Event::Prefilled { .. }) | None) {}
        let took = began.elapsed().as_secs_f64();
        feeding.store(false, Ordering::SeqCst);
        std::thread::sleep(ALONE);
        over.store(true, Ordering::SeqCst);
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        for follower in followers {
            let gaps = follower.join().expect("a follower");
            alone.extend(gaps.alone);
            beside.extend(gaps.beside);
        }
        (alone, beside, took)
    })
}

fn main() {
    let turns = std::env::args().filter_map(|a| a.parse().ok()).next().unwrap_or(5);
    let ordinary = support::prompts("heldout.json");
    println!(
        "{:>5} {:>9} {:>11} {:>12} {:>13} {:>10} {:>12}",
        "share", "feeding s", "median x", "mean x", "p99 x", "alone ms", "rounds beside"
    );
    for share in [25, 50, 100] {
        let lanes = engine(share);
        let mut columns: [Vec<f64>; 6] = Default::default();
        for salt in 0..turns {
            let (alone, beside, took) = turn(&lanes, &ordinary, salt);
            let (alone, beside) = (sorted(alone), sorted(beside));
            let usual = at(&alone, 0.5);
            let row = [
                took,
                at(&beside, 0.5) / usual,
                mean(&beside) / mean(&alone),
                at(&beside, 0.99) / usual,
                usual,
                beside.len() as f64,
            ];
            columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
        let [took, median, mean, p99, usual, rounds] = columns.map(|c| at(&sorted(c), 0.5));
        println!("{share:>5} {took:>9.2} {median:>11.2} {mean:>12.2} {p99:>13.1} {usual:>10.2} {rounds:>12}");
    }
}
