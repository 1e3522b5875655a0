//! Time from the start of a process to the first byte of its reply, on the mini model.
//!
//! `cargo bench -p tokenfare --bench first_byte [-- STARTS]`. Each start is a new process of the release build that loads
//! the model and answers; the files are in the page cache from the second start on.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

fn main() {
    let starts = std::env::args().filter_map(|a| a.parse().ok()).next().unwrap_or(11).max(1);
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/mini");
    let mut seconds: Vec<f64> = (0..starts).map(|_| first_byte(&model)).collect();
    seconds.sort_by(f64::total_cmp);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (least, most) = (seconds[0], seconds[starts - 1]);
    let median = seconds[starts / 2];
    println!(
        "first byte after {median:.3} s (median of {starts}, {least:.3} to {most:.3} s), {threads} threads"
    );
}

fn first_byte(model: &Path) -> f64 {
    let start = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tokenfare"));
    command.arg("run").arg(model).args(["What is a GPU?", "--max-tokens", "8"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the command starts");
    let mut stdout = child.stdout.take().expect("standard output is piped");
    stdout.read_exact(&mut [0]).expect("a reply");
    let seconds = start.elapsed().as_secs_f64();
    stdout.read_to_string(&mut String::new()).expect("text");
    assert!(child.wait().expect("the command ends").success(), "the command succeeds");
    seconds
}
