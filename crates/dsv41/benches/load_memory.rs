//! Peak memory and speed of loading the `wide` preset, about 4 GB, on the CPU.
//!
//! `cargo bench -p tokenfare-dsv41 --bench load_memory [-- FOLDER]`. FOLDER keeps the checkpoint for a next time; without
//! it, one is written to a temporary folder. The weights are loaded in a fresh process, as the program does on 2 CPUs, with
//! the pages that the page cache already holds. The peak is `VmHWM` of /proc/self/status: all resident memory, file-mapped
//! pages included, so that nothing is left out. The run fails when the peak is above weights + 10 % + 100 MB.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use tokenfare_cpu::{Cpu, CpuOptions, PathChoice};
use tokenfare_dsv41::checkpoint::Checkpoint;
use tokenfare_dsv41::info::describe;
use tokenfare_dsv41::load::{Drafts, LoadOptions, load};
use tokenfare_dsv41::progress::Silent;
use tokenfare_dsv41::synth::{self, Preset};

/// The argument that makes this process the one that loads.
const LOAD: &str = "load";
/// What a load may take beside the weights and a tenth of them.
const SLACK: u64 = 100_000_000;

/// A field of /proc/self/status in bytes.
fn status(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("a Linux system");
    let line = text.lines().find_map(|line| line.strip_prefix(field)).expect("the field exists");
    let number = line.trim_start_matches(':').trim().trim_end_matches(" kB");
    1024 * number.parse::<u64>().expect("a number of kB")
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn load_here(folder: &Path) -> ExitCode {
    let checkpoint = Checkpoint::open(folder).expect("the folder holds a checkpoint");
    let weights = describe(&checkpoint).model.resident_bytes;
    let options = CpuOptions { path: PathChoice::Auto, threads: 2, max_rows: 256 };
    let mut device = Cpu::new(options).expect("a device");
    let options = LoadOptions { drafter: Drafts::Load, threads: 2, progress: &Silent };
    let start = Instant::now();
    let loaded = load(&checkpoint, &mut device, &options).expect("weights");
    let seconds = start.elapsed().as_secs_f64();
    let (peak, anonymous) = (status("VmHWM"), status("RssAnon"));
    drop(loaded);
    let bar = weights + weights / 10 + SLACK;
    println!("weights        {:>9.1} MB", mb(weights));
    println!("peak (VmHWM)   {:>9.1} MB", mb(peak));
    println!("bar            {:>9.1} MB", mb(bar));
    println!("after the load {:>9.1} MB anonymous (RssAnon)", mb(anonymous));
    println!("read           {:>9.2} GB/s, {seconds:.2} s", weights as f64 / 1e9 / seconds);
    if peak > bar {
        eprintln!("the peak is above the bar");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn written(folder: &Path) {
    if !folder.join("config.json").exists() {
        eprintln!("writing the wide preset to {}", folder.display());
        synth::write(folder, Preset::Wide, 0, &Silent).expect("room for 4 GB");
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    if let [word, folder] = args.as_slice()
        && word == LOAD
    {
        return load_here(Path::new(folder));
    }
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let folder = args.first().map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    written(&folder);
    let this = std::env::current_exe().expect("this program has a path");
    let status = Command::new(this).arg(LOAD).arg(&folder).status().expect("this program starts again");
    if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
