//! The user's wish to stop: SIGINT or SIGTERM.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::signal::unix::{SignalKind, signal};

use crate::BenchError;

/// Longest pause between two looks at the wish.
const LOOK: Duration = Duration::from_millis(50);

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

    /// Asked for by SIGINT and SIGTERM from here on.
    ///
    /// # Errors
    /// The system refuses a thread or a signal's handler.
    pub fn by_signals() -> std::io::Result<Self> {
        let stop = Self::default();
        let asked = stop.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let (mut interrupt, mut terminate) = {
            let _inside = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        _ = interrupt.recv() => asked.ask(),
                        _ = terminate.recv() => asked.ask(),
                    }
                }
            });
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
