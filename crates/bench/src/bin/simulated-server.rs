//! A simulated server as a process of its own, for tests of comparisons and for trying them out.

use std::process::ExitCode;
use std::time::Duration;

use tokenfare_bench::testkit::{Pace, SimulatedServer};

const USAGE: &str = "simulated-server --port N [--round-ms MS] [--added SHARE] [--flip REPLY] [--die REPLY] [--no-hashes] [--plain]";

fn read() -> Option<(u16, Pace)> {
    let (mut port, mut pace) = (None, Pace::default());
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--no-hashes" => pace.hashes = false,
            // Every reply is without drafts.
            "--plain" => {}
            _ => {
                let value = words.next()?;
                set(&mut port, &mut pace, &word, &value)?;
            }
        }
    }
    Some((port?, pace))
}

fn set(port: &mut Option<u16>, pace: &mut Pace, word: &str, value: &str) -> Option<()> {
    match word {
        "--port" => *port = Some(value.parse().ok()?),
        "--round-ms" => pace.round = Duration::try_from_secs_f64(value.parse::<f64>().ok()? / 1e3).ok()?,
        "--added" => pace.added = value.parse().ok()?,
        "--flip" => pace.flipped_reply = Some(value.parse().ok()?),
        "--die" => pace.dies_at = Some(value.parse().ok()?),
        _ => return None,
    }
    Some(())
}

fn main() -> ExitCode {
    let Some((port, pace)) = read() else {
        eprintln!("usage: {USAGE}");
        return ExitCode::FAILURE;
    };
    match SimulatedServer::start(port, pace) {
        Ok(server) => {
            eprintln!("simulated server at {}", server.url());
            loop {
                std::thread::park();
            }
        }
        Err(error) => {
            eprintln!("simulated server: {error}");
            ExitCode::FAILURE
        }
    }
}
