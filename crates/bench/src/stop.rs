//! The user's wish to stop: SIGINT, SIGTERM, or a terminal that went away.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::signal::unix::{SignalKind, signal};

use crate::BenchError;

/// Longest pause between two looks at the wish.
const LOOK: Duration = Duration::from_millis(50);

/// Whether a process of this status, as Linux tells it, ends with its terminal; not told, it is left as it is.
fn heeds_hangup(status: &str) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (Signal::HUP.as_raw() - 1) & 1 == 0)
}

/// Shared knowledge of whether to stop, and of the server to end then.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    server: Arc<Mutex<Option<Pid>>>,
}

impl Stop {
    /// Never asked for until [`Self::ask`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Asked for by SIGINT and SIGTERM from here on, and by SIGHUP unless this process was started to outlive it.
    ///
    /// # Errors
    /// The system refuses a thread or a signal's handler.
    pub fn by_signals() -> std::io::Result<Self> {
        let stop = Self::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let mut kinds = vec![SignalKind::interrupt(), SignalKind::terminate()];
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        if heeds_hangup(&status) {
            kinds.push(SignalKind::hangup());
        }
        for kind in kinds {
            let mut signals = {
                let _inside = runtime.enter();
                signal(kind)?
            };
            let asked = stop.clone();
            runtime.spawn(async move {
                while signals.recv().await.is_some() {
                    asked.ask();
                }
            });
        }
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            runtime.block_on(std::future::pending::<()>());
        })?;
        Ok(stop)
    }

    /// Asks everybody to stop and the running server to end, which ends the requests that wait for it.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
        if let Some(pid) = *self.server.lock().unwrap_or_else(std::sync::PoisonError::into_inner) {
            // A server that ended by itself needs no signal.
            let _ = kill_process_group(pid, Signal::TERM);
        }
    }

    /// Whether it was asked for.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// An error once it was asked for.
    ///
    /// # Errors
    /// [`BenchError::Stopped`].
    pub fn check(&self) -> Result<(), BenchError> {
        if self.asked() { Err(BenchError::Stopped) } else { Ok(()) }
    }

    /// Sleeps for `time`, or until it is asked for.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn sleep(&self, time: Duration) -> Result<(), BenchError> {
        let end = Instant::now() + time;
        loop {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(LOOK));
        }
    }

    /// Names the group of the server to end, or none.
    pub(crate) fn watch(&self, server: Option<Pid>) {
        *self.server.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = server;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("Name:\tx\nSigIgn:\t0000000000001000\n", true)]
    #[case("SigIgn:\t0000000000001001\n", false)]
    #[case("", false)]
    fn a_process_started_to_outlive_its_terminal_is_known(#[case] status: &str, #[case] heeds: bool) {
        assert_eq!(heeds_hangup(status), heeds);
    }
}
