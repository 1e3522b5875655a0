//! The project's checks and generators: `cargo xtask check` is what continuous integration runs.

mod check;
mod clients;
mod docs;
mod group;
mod lean;
mod optional;
mod shell;
mod suites;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's checks and generators")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Format, lints, documentation, house rules and every test.
    Check,
    /// House rules of source files: their length, comments and words.
    Lean {
        /// Count only findings that the tree at this revision does not have.
        #[arg(long, value_name = "REF")]
        base: Option<String>,
    },
    /// A named group of tests.
    Group {
        /// Which.
        group: group::Group,
    },
    /// The exactness suites: every test whose name contains `exact`.
    Exact {
        /// The widest matrix of cases (sets TOKENFARE_EXACT=full).
        #[arg(long)]
        full: bool,
    },
    /// The server through client packages of Python; skipped where these cannot be installed.
    Clients,
    /// Fuzz targets, each for some seconds; skipped where cargo-fuzz or a nightly compiler is missing.
    Fuzz {
        /// Seconds a target.
        #[arg(long, default_value_t = 30)]
        seconds: u32,
    },
    /// The CPU crate's tests on emulated NEON; skipped where the target, its linker or QEMU is missing.
    Neon,
    /// Write generated pages anew.
    Docs,
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Check => check::run(),
        Command::Lean { base } => lean::run(base.as_deref()),
        Command::Group { group } => group::run(group),
        Command::Exact { full } => group::exact(full),
        Command::Clients => clients::install().test(),
        Command::Fuzz { seconds } => optional::fuzz(seconds),
        Command::Neon => optional::neon(),
        Command::Docs => docs::write(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
