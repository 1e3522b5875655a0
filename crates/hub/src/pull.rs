//! All files of a listing, several at once.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::PARTS;
use crate::download::{Fetched, fetch};
use crate::{HubError, Listing, RemoteFile};

/// Is told how a download goes, from several threads.
pub trait Progress: Sync {
    /// So many bytes more are there, found or fetched.
    fn advance(&self, bytes: u64);

    /// So many bytes turned out to be of no use.
    fn take_back(&self, bytes: u64);

    /// A file is whole.
    fn finished(&self, file: &str);
}

/// Tells nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn advance(&self, _: u64) {}

    fn take_back(&self, _: u64) {}

    fn finished(&self, _: &str) {}
}

/// What a download came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pulled {
    /// Files that were whole already.
    pub kept: usize,
    /// Files that were fetched.
    pub fetched: usize,
    /// Bytes that came from the hub.
    pub bytes: u64,
}

impl Listing {
    /// Makes every file whole in `folder`, at most `parallel` at once. After a failure no further file is begun; what
    /// came of the others stays for the next attempt.
    ///
    /// # Errors
    /// The first failure.
    pub fn pull(&self, folder: &Path, parallel: usize, progress: &dyn Progress) -> Result<Pulled, HubError> {
        fs::create_dir_all(folder).map_err(|e| HubError::Io(folder.to_owned(), e))?;
        // Two files of one content would write one part.
        let mut same: HashMap<&str, Vec<&RemoteFile>> = HashMap::new();
        for file in &self.files {
            same.entry(file.digest.hex()).or_default().push(file);
        }
        let mut groups: Vec<Vec<&RemoteFile>> = same.into_values().collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group[0].size));
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let outcome = Mutex::new(Ok(Pulled::default()));
        let work = || {
            while !failed.load(Ordering::SeqCst)
                && let Some(group) = groups.get(next.fetch_add(1, Ordering::SeqCst))
            {
                for file in group {
                    let fetched = fetch(self, file, folder, progress);
                    failed.fetch_or(fetched.is_err(), Ordering::SeqCst);
                    if fetched.is_ok() {
                        progress.finished(&file.path);
                    }
                    note(&mut outcome.lock().unwrap_or_else(PoisonError::into_inner), file, fetched);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..parallel.clamp(1, groups.len().max(1)) {
                scope.spawn(work);
            }
        });
        let pulled = outcome.into_inner().unwrap_or_else(PoisonError::into_inner)?;
        // Parts of other versions may remain, so the folder goes only if it is empty.
        let _ = fs::remove_dir(folder.join(PARTS));
        Ok(pulled)
    }
}

fn note(outcome: &mut Result<Pulled, HubError>, file: &RemoteFile, fetched: Result<Fetched, HubError>) {
    match (outcome.as_mut(), fetched) {
        (Ok(pulled), Ok(Fetched::Kept)) => pulled.kept += 1,
        (Ok(pulled), Ok(Fetched::From(start))) => {
            pulled.fetched += 1;
            pulled.bytes += file.size - start;
        }
        (Ok(_), Err(error)) => *outcome = Err(error),
        (Err(_), _) => {}
    }
}
