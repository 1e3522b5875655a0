//! Starts with too little memory: the right reply, or status 1 and one line.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rstest::rstest;
use support::{after, last_line, mini};

/// Time for a start, far above what any takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// The least limit of the address space in KiB, by thousands, under which Linux maps the program: below it the process
/// dies of a signal before its first instruction.
fn least() -> usize {
    let mapped = |limit: &usize| limited(*limit, &["--version"]).output().unwrap().status.code().is_some();
    (10_000..100_000).step_by(1_000).find(mapped).unwrap()
}

/// Limits of the address space in KiB: from what the program itself needs to more than a start takes. The allocator reserves
/// address space for each thread that loads, one more than compute, so that higher limits fail again.
fn limits(threads: usize) -> impl Iterator<Item = usize> {
    let (least, range) = (least(), 110_000 + 130_000 * threads);
    // A step that shares no factor with page or table sizes meets other allocations each time.
    (least..least + range).step_by(11_003)
}

fn limited(limit: usize, args: &[&str]) -> Command {
    let mut command = after(&format!("ulimit -v {limit}"));
    command.args(args).stdin(Stdio::null());
    command
}

fn ended(child: &mut Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("the process hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process that did not start says why: memory, or a thread that needs some.
#[track_caller]
fn says_why(status: ExitStatus, stderr: &str) {
    if status.code() == Some(127) && stderr.contains("error while loading shared libraries") {
        return;
    }
    assert_eq!(status.code(), Some(1), "{status}: {stderr}");
    let line = last_line(stderr);
    let cause = ["out of memory", "Cannot allocate memory", "Resource temporarily unavailable"];
    assert!(cause.iter().any(|words| line.contains(words)), "{line}");
}

#[rstest]
fn a_run_answers_or_says_that_memory_is_out(#[values(1, 2)] threads: usize) {
    let mut answered = 0;
    let mut refused = 0;
    for limit in limits(threads) {
        let threads = threads.to_string();
        let args = ["run", &mini(), "What is a GPU?", "--max-tokens", "6", "--threads", &threads];
        let mut child = limited(limit, &args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let status = ended(&mut child);
        let (mut stdout, mut stderr) = (String::new(), String::new());
        child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        if status.success() {
            assert_eq!(stdout, "A GPU, or graph\n", "under {limit} KiB");
            answered += 1;
        } else {
            says_why(status, &stderr);
            refused += 1;
        }
    }
    assert!(answered > 0 && refused > 4, "{answered} answered, {refused} refused");
}

#[rstest]
fn a_server_starts_or_says_that_memory_is_out(#[values(1, 2)] threads: usize) {
    let mut refused = 0;
    for limit in limits(threads) {
        let threads = threads.to_string();
        let args = ["serve", &mini(), "--port", "0", "--threads", &threads];
        let mut child = limited(limit, &args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = String::new();
        let mut started = false;
        for line in BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok) {
            if line.starts_with("[tokenfare] serving ") {
                started = true;
                break;
            }
            if !line.starts_with("info: ") {
                stderr += &format!("{line}\n");
            }
        }
        if started {
            child.kill().unwrap();
            child.wait().unwrap();
        } else {
            says_why(ended(&mut child), &stderr);
            refused += 1;
        }
    }
    assert!(refused > 4, "{refused} refused");
}

#[rstest]
#[case("scalar", 40_000)]
#[case("scalar", 70_000)]
#[case("scalar", 90_000)]
fn a_refused_file_weight_or_buffer_is_named(#[case] path: &str, #[case] limit: usize) {
    let args = ["run", &mini(), "hi", "--threads", "1"];
    let line = support::refusal(limited(limit, &args).env("MALLOC_ARENA_MAX", "1").env("TF_CPU_PATH", path));
    // One thread may read a file while another packs what it has read.
    let file = line.contains("cannot read ") && line.ends_with(".safetensors: out of memory");
    assert!(file || line.contains("out of memory on cpu: ") && line.contains(" bytes for "), "{line}");
}
