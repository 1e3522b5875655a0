//! `tokenfare`: serve and run DeepSeek-V4.1 with exact, priced speculative decoding.

mod cli;
mod costs;
mod dialect;
mod drafter;
#[cfg(feature = "embed-mini")]
mod embedded;
mod ending;
mod engine;
mod files;
mod lanes_fit;
mod lines;
mod locate;
mod memory;
mod notice;
mod output;
mod progress;
mod setup;
mod watch;

use std::process::ExitCode;

use clap::Parser;

use crate::notice::notice;

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator;

fn pipe_closed(error: &anyhow::Error) -> bool {
    let closed = |e: &std::io::Error| e.kind() == std::io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(closed))
}

/// The error and its causes in one line; a cause that a message tells already is left out.
fn line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !line.contains(&cause) {
            let colon = if line.is_empty() { "" } else { ": " };
            line = format!("{line}{colon}{cause}");
        }
    }
    line
}

fn main() -> ExitCode {
    match cli::Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads the output has read enough.
        Err(error) if pipe_closed(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let line = line(&error);
            ending::begin();
            notice!("tokenfare: {line}");
            ExitCode::FAILURE
        }
    }
}
