//! Where log lines go: those of a server, and the round profile.

use std::io::{IsTerminal, Stderr, stderr};

use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::fmt::format::{DefaultFields, Format, debug_fn};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt};

use crate::lines::LogFormat;
use crate::notice::plain;
use crate::watch::PROFILE_TARGET;

/// Lines on standard error.
fn lines<S>() -> fmt::Layer<S, DefaultFields, Format, fn() -> Stderr> {
    fmt::layer()
        .with_writer(stderr as fn() -> Stderr)
        .with_ansi(stderr().is_terminal())
        .with_target(false)
        .log_internal_errors(false)
}

/// Sends log lines to standard error from now on. A text line is the message alone, which says what the fields say;
/// but the numbers of a round profile are its fields.
pub fn start(format: LogFormat) {
    let registry = tracing_subscriber::registry().with(LevelFilter::INFO);
    match format {
        LogFormat::Json => registry.with(lines().json()).init(),
        LogFormat::Text => {
            let message_alone = debug_fn(|writer, field, value| match field.name() {
                "message" => write!(writer, "{}", plain(&format!("{value:?}"))),
                _ => Ok(()),
            });
            let profile = lines().with_filter(filter_fn(|event| event.target() == PROFILE_TARGET));
            let others = lines()
                .fmt_fields(message_alone)
                .with_filter(filter_fn(|event| event.target() != PROFILE_TARGET));
            registry.with(profile).with(others).init();
        }
    }
}

/// Shows the round profile alone: other log lines are for servers.
pub fn start_profile() {
    fmt()
        .with_writer(stderr)
        .with_env_filter(EnvFilter::new(format!("{PROFILE_TARGET}=info")))
        .with_ansi(stderr().is_terminal())
        .with_target(false)
        .without_time()
        .init();
}
