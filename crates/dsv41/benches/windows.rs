//! What windows, drafter passes and prompts cost on the CPU, beside the bytes that they read and the speed at which
//! this machine reads memory.
//!
//! `cargo bench -p tokenfare-dsv41 --bench windows [-- [FOLDER] [TURNS] [rows=LIST] [threads=N]]`; FOLDER is a
//! checkpoint, the mini one by default. All cases take turns, each right after a reading of plain memory. Windows whose
//! cores did other work meanwhile, as additions in registers before and behind them tell, are run again; the table shows
//! medians over the quiet ones. The last line is a hash of all logits in the first turns: a change of kernels that
//! keeps it changed no bit.

mod support;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use support::median;
use tokenfare_cpu::{Buf, Cpu, CpuOptions, PathChoice};
use tokenfare_device::Device;
use tokenfare_device::bench::Quiet;
use tokenfare_dsv41::checkpoint::Checkpoint;
use tokenfare_dsv41::model::Model;
use tokenfare_dsv41::observer::Observer;
use tokenfare_lanes::{Ask, Drafter, Drafts, Ingest, Logits, Sampling, Segment, Target, Want};

const PREFIX: usize = 512;
const ROWS: &str = "1,2,3,4,5,6,8,16,32";
/// Values of the plain memory, 256 MiB.
const PLAIN: usize = 64 << 20;

/// Turns for each quiet one, at most.
const MOST: usize = 4;
/// Paces at the start, to find the fastest.
const PACES: usize = 100;

/// Counts the experts that a launch uses.
#[derive(Default, Clone)]
struct Experts(Arc<Mutex<HashSet<(usize, u32)>>>);

impl Observer for Experts {
    fn experts(&mut self, layer: usize, _top_k: usize, experts: &[u32]) {
        self.0.lock().expect("one thread").extend(experts.iter().map(|&e| (layer, e)));
    }
}

/// Bytes of the weights that every launch of the backbone reads, and of one routed expert.
fn weights(checkpoint: &Checkpoint) -> (u64, u64) {
    let (mut dense, mut expert) = (0, 0);
    for (name, tensor) in checkpoint.tensors() {
        let routed = name.contains(".experts.") && !name.contains("shared_experts");
        if name.starts_with("mtp.") || name.starts_with("embed.") || name.contains("engram.embed") {
            continue;
        }
        if name.contains("vision") || name.contains("image") {
            continue;
        }
        match routed {
            false => dense += tensor.bytes,
            true if name.contains("layers.0.") && name.contains(".experts.0.") => expert += tensor.bytes,
            true => {}
        }
    }
    (dense, expert)
}

struct Rig {
    model: Model<Cpu>,
    reader: Cpu,
    plain: Buf<f32>,
    tokens: Vec<u32>,
    logits: Logits,
    hash: u64,
}

impl Rig {
    /// Bytes a second of plain reading, now.
    fn ceiling(&mut self) -> f64 {
        let threads = self.reader.threads();
        self.reader.read_ceiling(&self.plain, threads).expect("the memory is there")
    }

    /// Seconds of an addition in registers, now.
    fn pace(&mut self) -> f64 {
        self.reader.pace().expect("the threads are there")
    }

    /// One turn of a window of `n` rows.
    fn turn(&mut self, n: usize, quiet: &mut Quiet) -> Turn {
        self.window(n);
        let (before, ceiling) = (self.pace(), self.ceiling());
        let seconds = (0..3).map(|_| self.window(n)).sum::<f64>() / 3.0;
        let after = self.pace();
        quiet.note(before.min(after));
        Turn { seconds, ceiling, pace: before.max(after) }
    }

    /// Feeds the prefix; gives tokens a second.
    fn prompt(&mut self) -> f64 {
        self.model.release(0);
        self.model.reset(0);
        let piece = self.model.info().piece_rows;
        let began = Instant::now();
        for start in (0..PREFIX).step_by(piece) {
            let tokens = &self.tokens[start..PREFIX.min(start + piece)];
            self.model.prefill(0, start, tokens, Want::Nothing, &mut self.logits).expect("a piece");
            let items = [Ingest { slot: 0, start, row: 0, count: tokens.len() }];
            self.model.ingest(&items).expect("context");
        }
        PREFIX as f64 / began.elapsed().as_secs_f64()
    }

    /// One window of `n` rows behind the prefix; gives seconds.
    fn window(&mut self, n: usize) -> f64 {
        let segments = [Segment { slot: 0, start: PREFIX, tokens: &self.tokens[PREFIX..PREFIX + n] }];
        let began = Instant::now();
        self.model.window(&segments, &mut self.logits).expect("a window");
        let seconds = began.elapsed().as_secs_f64();
        for value in &self.logits.values {
            self.hash =
                (self.hash ^ u64::from(value.to_bits())).wrapping_mul(0x0100_0000_01B3).rotate_left(23);
        }
        seconds
    }

    /// One drafter pass behind one kept row; gives seconds.
    fn pass(&mut self) -> f64 {
        self.window(1);
        let items = [Ingest { slot: 0, start: PREFIX, row: 0, count: 1 }];
        let (sampling, token) = (Sampling::greedy(), self.tokens[PREFIX + 1]);
        let began = Instant::now();
        self.model.ingest(&items).expect("context");
        let asks = [Ask { slot: 0, position: PREFIX + 1, token, sampling: &sampling }];
        self.model.propose(&asks).expect("drafts");
        let seconds = began.elapsed().as_secs_f64();
        self.model.keep(0, PREFIX);
        seconds
    }

    /// Routed experts that a window of `n` rows uses, over all layers.
    fn experts(&mut self, n: usize) -> u64 {
        let seen = Experts::default();
        self.model.observe(Some(Box::new(seen.clone())));
        self.window(n);
        self.model.observe(None);
        seen.0.lock().expect("one thread").len() as u64
    }
}

/// A window, right after a reading of plain memory.
#[derive(Clone, Copy)]
struct Turn {
    seconds: f64,
    /// Bytes a second.
    ceiling: f64,
    /// The slower of the paces before and behind it.
    pace: f64,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let turns = args.iter().filter_map(|a| a.parse().ok()).next().unwrap_or(7);
    let value = |name: &str| args.iter().find_map(|a| a.strip_prefix(name));
    let list = value("rows=").unwrap_or(ROWS).split(',');
    let row_counts: Vec<usize> = list.map(|n| n.parse().expect("a list of row counts")).collect();
    let threads = value("threads=").map_or(0, |n| n.parse().expect("a number of threads"));
    let given = args.iter().find(|a| a.parse::<usize>().is_err() && !a.contains('=')).map(PathBuf::from);
    let folder = given.unwrap_or_else(support::folder);
    let checkpoint = Checkpoint::open(&folder).expect("a checkpoint");
    let (dense, expert) = weights(&checkpoint);
    let vocab = checkpoint.config().vocab;
    let tokens =
        (0..PREFIX + 64).map(|i| (i * 7919 + i / 7 * 131) as u32 % (vocab as u32 - 200) + 100).collect();
    let mut reader = Cpu::new(CpuOptions { path: PathChoice::Auto, threads, max_rows: 1 }).expect("a device");
    let plain = reader.alloc(PLAIN).expect("256 MiB");
    for at in (0..PLAIN).step_by(1 << 20) {
        reader.write(&plain, at, &vec![1.0; 1 << 20]).expect("the memory is there");
    }
    let model = support::open(&folder, Drafts::On, threads);
    println!(
        "{}, dense {:.1} MB, an expert {:.2} MB",
        model.device().name(),
        dense as f64 / 1e6,
        expert as f64 / 1e6
    );
    let mut rig = Rig { model, reader, plain, tokens, logits: Logits::default(), hash: 0 };

    rig.prompt();
    let bytes: Vec<u64> = row_counts.iter().map(|&n| dense + rig.experts(n) * expert).collect();
    let (mut prompts, mut passes) = (Vec::new(), Vec::new());
    let mut windows = vec![Vec::new(); row_counts.len()];
    let mut quiet = Quiet::default();
    (0..PACES).for_each(|_| quiet.note(rig.pace()));
    for _ in 0..turns {
        prompts.push(rig.prompt());
        for (windows, &n) in windows.iter_mut().zip(&row_counts) {
            windows.push(rig.turn(n, &mut quiet));
        }
        passes.push((0..3).map(|_| rig.pass()).sum::<f64>() / 3.0);
    }
    let hash = rig.hash;
    let quiet_ones = |quiet: &Quiet, windows: &[Turn]| -> Vec<Turn> {
        windows.iter().filter(|turn| quiet.is(turn.pace)).copied().collect()
    };
    for _ in turns..MOST * turns {
        for (windows, &n) in windows.iter_mut().zip(&row_counts) {
            if quiet_ones(&quiet, windows).len() < turns {
                windows.push(rig.turn(n, &mut quiet));
            }
        }
    }
    println!(
        "| rows | ms | MB | GB/s | read GB/s | of the bound | over 1 row | bytes over 1 row | quiet turns |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut one = 0.0;
    for ((&n, &bytes_n), all) in row_counts.iter().zip(&bytes).zip(&windows) {
        let some = Some(quiet_ones(&quiet, all)).filter(|some| !some.is_empty());
        let counted = some.as_ref().unwrap_or(all);
        let over = |figure: &dyn Fn(&Turn) -> f64| median(counted.iter().map(figure).collect());
        let seconds = over(&|w| w.seconds);
        if one == 0.0 {
            one = seconds;
        }
        println!(
            "| {n} | {:.3} | {:.1} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {} of {} |",
            seconds * 1e3,
            bytes_n as f64 / 1e6,
            bytes_n as f64 / 1e9 / seconds,
            over(&|w| w.ceiling) / 1e9,
            over(&|w| bytes_n as f64 / w.seconds / w.ceiling),
            seconds / one,
            bytes_n as f64 / bytes[0] as f64,
            some.as_ref().map_or(0, Vec::len),
            all.len()
        );
    }
    let prompt = median(prompts);
    println!(
        "pass {:.3} ms; prompt {prompt:.1} tok/s, {:.1} times one row",
        median(passes) * 1e3,
        prompt * one
    );
    println!("an addition in registers {:.3} ns at the fastest", quiet.fastest() * 1e9);
    println!("hash {hash:016x}");
}
