//! A server that is started for one run.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::NamedTempFile;

use super::ArmCommand;
use crate::stop::Stop;
use crate::{BenchError, Client};

/// Pause between two looks at a server that starts or ends.
const LOOK: Duration = Duration::from_millis(20);
/// Longest wait for one answer while it starts.
const ANSWER: Duration = Duration::from_secs(5);
/// Longest wait for its end before it is killed.
const END: Duration = Duration::from_secs(30);
/// Lines of the log that a failure tells.
const LAST_LINES: usize = 8;

/// A running server; ended when dropped.
pub struct Server {
    child: Child,
    group: Pid,
    log: NamedTempFile,
    stop: Stop,
    url: String,
    load_time: Duration,
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

impl Server {
    /// Starts `command` and waits until it answers on `/health`, or on `/v1/models` where there is no `/health`.
    ///
    /// # Errors
    /// A program that cannot be started; one that ends or does not answer in `patience`, with its last log lines; the
    /// user's wish to stop.
    pub fn start(command: &ArmCommand, patience: Duration, stop: &Stop) -> Result<Self, BenchError> {
        stop.check()?;
        let cannot = |e: io::Error| BenchError::Server(format!("cannot start `{}`: {e}", command.program()));
        let port = free_port().map_err(cannot)?;
        let words = command.at(port);
        let log = NamedTempFile::new().map_err(cannot)?;
        // One open file for both streams, so that neither writes over the other.
        let (out, err) =
            (log.as_file().try_clone().map_err(cannot)?, log.as_file().try_clone().map_err(cannot)?);
        let mut process = Command::new(&words[0]);
        process.args(&words[1..]).envs(&command.env).stdin(Stdio::null());
        process.stdout(out).stderr(err).process_group(0);
        let begin = Instant::now();
        let child = process.spawn().map_err(cannot)?;
        let group = Pid::from_child(&child);
        stop.watch(Some(group));
        let url = format!("http://{}:{port}", Ipv4Addr::LOCALHOST);
        let mut server = Self { child, group, log, stop: stop.clone(), url, load_time: Duration::ZERO };
        server.await_ready(begin, patience)?;
        server.load_time = begin.elapsed();
        Ok(server)
    }

    fn await_ready(&mut self, begin: Instant, patience: Duration) -> Result<(), BenchError> {
        let client = Client::new(&self.url, None, ANSWER)?;
        loop {
            self.stop.check()?;
            if let Some(status) = self.ended() {
                return Err(self.failure(&format!("the server ended with {status}")));
            }
            match client.get("/health") {
                // Some servers answer without a body.
                Ok(_) | Err(BenchError::Answer { .. }) => return Ok(()),
                Err(BenchError::Status { status: 404, .. }) if client.model().is_ok() => return Ok(()),
                // A server that asks for a key is up.
                Err(BenchError::Status { status: 401, .. }) => return Ok(()),
                Err(_) if begin.elapsed() > patience => {
                    let problem = format!("the server did not answer in {} s", patience.as_secs());
                    return Err(self.failure(&problem));
                }
                Err(_) => self.stop.sleep(LOOK)?,
            }
        }
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    fn failure(&self, problem: &str) -> BenchError {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
        BenchError::Server(if last.is_empty() {
            format!("{problem}; its log is empty")
        } else {
            format!("{problem}; its last lines:\n{last}")
        })
    }

    /// A failure that names the server's end and its last lines, if it has ended.
    pub fn failure_if_ended(&mut self) -> Option<BenchError> {
        let status = self.ended()?;
        Some(self.failure(&format!("the server ended with {status}")))
    }

    /// Its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// From its start to its first answer.
    pub fn load_time(&self) -> Duration {
        self.load_time
    }

    /// What it has written so far, on both streams.
    pub fn log(&self) -> String {
        std::fs::read(self.log.path()).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let begin = Instant::now();
        // It may have ended by itself.
        let _ = kill_process_group(self.group, Signal::TERM);
        while begin.elapsed() < END && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(LOOK);
        }
        // What is left of the group goes with it.
        let _ = kill_process_group(self.group, Signal::KILL);
        let _ = self.child.wait();
        self.stop.watch(None);
    }
}
