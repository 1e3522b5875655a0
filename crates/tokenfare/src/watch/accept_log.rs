//! The accept log's writer: rounds become records on the engine's thread, and lines on a thread of their own.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokenfare_lanes::{Observer, RoundChoice, RoundTimes, WindowChoice, WindowCommit};
use tokenfare_pricing::log::{LoggedAsk, LoggedChoice, LoggedCommit, LoggedEnd, LoggedStart, Record};

/// Records that may wait for the disk; the log ends where there would be more.
const WAITING: usize = 1 << 16;
/// Bytes of one write, above which no further waiting record joins it.
const CHUNK: usize = 1 << 18;

/// An open log before its engine starts.
pub struct AcceptLog {
    path: PathBuf,
    file: File,
}

fn setting(path: &Path) -> String {
    format!("TF_DSV41_ACCEPT_LOG={path:?}")
}

impl AcceptLog {
    /// Opens the file to append to, creates it if there is none, and locks it against other servers.
    pub fn open(path: &Path) -> Result<Self> {
        let open = || -> std::io::Result<File> {
            let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
            end_last_line(&mut file)?;
            Ok(file)
        };
        let file = open().with_context(|| format!("{}: cannot be opened to append to", setting(path)))?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            bail!("{}: another process is writing it", setting(path));
        }
        Ok(Self { path: path.to_owned(), file })
    }

    /// Writes the start record and gives the observer that writes the rest.
    pub fn start(self, start: LoggedStart) -> Result<LogWriter> {
        let Self { path, file } = self;
        let (sender, records) = sync_channel(WAITING);
        let name = path.clone();
        let thread = std::thread::Builder::new()
            .name("accept-log".into())
            .spawn(move || write(&records, file, &name))
            .with_context(|| format!("{}: the thread that writes it", setting(&path)))?;
        let mut writer = LogWriter { path, sender: Some(sender), thread: Some(thread) };
        writer.send(Record::Start(start));
        Ok(writer)
    }
}

/// A line that was cut short when its writer died must not swallow the next one.
fn end_last_line(file: &mut File) -> std::io::Result<()> {
    if !file.metadata()?.is_file() || file.seek(SeekFrom::End(0))? == 0 {
        return Ok(());
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    if last == *b"\n" { Ok(()) } else { file.write_all(b"\n") }
}

/// Writes records as they come, all that wait in one call, until there are no more or the disk fails.
fn write(records: &Receiver<Record>, mut file: impl Write, path: &Path) {
    let mut lines = Vec::new();
    while let Ok(first) = records.recv() {
        lines.clear();
        let mut next = Some(first);
        while let Some(record) = next {
            // Plain data into memory cannot fail.
            let _ = serde_json::to_writer(&mut lines, &record);
            lines.push(b'\n');
            next = if lines.len() < CHUNK { records.try_recv().ok() } else { None };
        }
        if let Err(error) = file.write_all(&lines) {
            warn(path, &error.to_string());
            return;
        }
    }
}

fn warn(path: &Path, cause: &str) {
    // Without a standard error there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "warning: accept log {} ends here: {cause}", path.display());
}

/// Sends what it sees to the writing thread; never waits for it.
pub struct LogWriter {
    path: PathBuf,
    sender: Option<SyncSender<Record>>,
    thread: Option<JoinHandle<()>>,
}

impl LogWriter {
    fn send(&mut self, record: Record) {
        let Some(sender) = &self.sender else { return };
        match sender.try_send(record) {
            Ok(()) => return,
            Err(TrySendError::Full(_)) => warn(&self.path, "the disk does not keep up"),
            // The thread has told why it ended.
            Err(TrySendError::Disconnected(_)) => {}
        }
        self.sender = None;
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed, and replies do not depend on it.
            let _ = thread.join();
        }
    }
}

fn seconds(at: Duration) -> f64 {
    at.as_micros() as f64 / 1e6
}

fn ask(window: &WindowChoice) -> LoggedAsk {
    LoggedAsk {
        slot: window.slot,
        req: window.request,
        class: window.class,
        kind: window.source,
        start: window.start,
        most: window.most,
        k: window.depth,
        explored: window.explored,
        matched: window.matched,
        lambda: window.lambda,
        conf: window.confidence.clone(),
        q: window.q.clone(),
    }
}

impl Observer for LogWriter {
    fn choose(&mut self, choice: &RoundChoice) {
        if self.sender.is_some() {
            self.send(Record::Choose(LoggedChoice {
                r: choice.round,
                t: seconds(choice.at),
                windows: choice.windows.len(),
                rows: choice.rows,
                others: choice.others,
                asks: choice.windows.iter().map(ask).collect(),
            }));
        }
    }

    fn commit(&mut self, commit: &WindowCommit) {
        self.send(Record::Commit(LoggedCommit {
            r: commit.round,
            t: seconds(commit.at),
            slot: commit.slot,
            rows: commit.rows,
            keep: commit.kept,
            drafted: commit.drafted,
            accepted: commit.accepted,
            beyond: commit.beyond,
            finished: commit.finished,
            generated: commit.generated,
            max_new: commit.max_new,
        }));
    }

    fn times(&mut self, round: u64, _requests: &[u64], times: &RoundTimes) {
        self.send(Record::Round(LoggedEnd { r: round, ms: times.total().as_micros() as f64 / 1e3 }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokenfare_pricing::{CostTable, DepthConfig};

    fn start() -> LoggedStart {
        LoggedStart::new(&DepthConfig::default(), &CostTable::built_in(), 5, 0)
    }

    fn lines(path: &Path) -> Vec<String> {
        std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn logs_are_appended_to_after_a_line_that_was_cut_short() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, r#"{"event":"cho"#).unwrap();
        for _ in 0..2 {
            drop(AcceptLog::open(&path).unwrap().start(start()).unwrap());
        }
        let found = lines(&path);
        assert_eq!((found.len(), found[0].as_str()), (3, r#"{"event":"cho"#));
        for line in &found[1..] {
            assert_eq!(serde_json::from_str::<Record>(line).unwrap(), Record::Start(start()));
        }
    }

    #[test]
    fn a_log_has_one_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let first = AcceptLog::open(&path).unwrap();
        let expected = format!("TF_DSV41_ACCEPT_LOG={path:?}: another process is writing it");
        assert_eq!(AcceptLog::open(&path).err().unwrap().to_string(), expected);
        drop(first);
        assert!(AcceptLog::open(&path).is_ok());
    }

    #[test]
    fn a_disk_that_fails_ends_the_log_and_nothing_else() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let (sender, records) = sync_channel(1);
        let thread = std::thread::spawn(move || write(&records, Full, Path::new("log")));
        let mut writer = LogWriter { path: "log".into(), sender: Some(sender), thread: None };
        writer.send(Record::Start(start()));
        thread.join().unwrap();
        writer.times(1, &[], &RoundTimes::default());
        assert!(writer.sender.is_none());
    }

    #[test]
    fn a_disk_that_does_not_keep_up_ends_the_log_without_a_wait() {
        let (sender, records) = sync_channel(1);
        let mut writer = LogWriter { path: "log".into(), sender: Some(sender), thread: None };
        (0..3).for_each(|r| writer.times(r, &[], &RoundTimes::default()));
        assert!(writer.sender.is_none());
        assert_eq!(records.iter().count(), 1);
    }
}
