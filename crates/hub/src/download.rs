//! One file: resumed, checked, renamed into place.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ureq::Body;
use ureq::http::Response;

use crate::digest::Hasher;
use crate::listing::check_status;
use crate::{HubError, Listing, PARTS, Progress, RemoteFile};

/// Attempts in a row that bring nothing.
const ATTEMPTS: u32 = 5;
/// Pause after the first of them; it doubles.
const PAUSE: Duration = Duration::from_millis(200);
const BLOCK: usize = 1 << 20;

/// What a file on disk came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fetched {
    /// It was there.
    Kept,
    /// It was downloaded from this byte on.
    From(u64),
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> HubError {
    move |error| HubError::Io(path.to_owned(), error)
}

/// A file that is not whole yet, named by its hash: another version of the file never continues it.
struct Part<'a> {
    listing: &'a Listing,
    file: &'a RemoteFile,
    path: PathBuf,
    hasher: Hasher,
    len: u64,
    progress: &'a dyn Progress,
}

/// Feeds a file into a hash; gives its bytes.
fn hash_file(path: &Path, hasher: &mut Hasher, progress: &dyn Progress) -> Result<u64, HubError> {
    let mut input = File::open(path).map_err(io(path))?;
    let mut block = vec![0; BLOCK];
    let mut len = 0;
    loop {
        match input.read(&mut block).map_err(io(path))? {
            0 => return Ok(len),
            n => {
                hasher.update(&block[..n]);
                len += n as u64;
                progress.advance(n as u64);
            }
        }
    }
}

impl Part<'_> {
    fn fresh_hash(&self) -> Hasher {
        self.file.digest.hasher(self.file.size)
    }

    /// Forgets what came.
    fn restart(&mut self) -> Result<(), HubError> {
        self.progress.take_back(self.len);
        (self.hasher, self.len) = (self.fresh_hash(), 0);
        match fs::remove_file(&self.path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(io(&self.path)(e)),
            _ => Ok(()),
        }
    }

    /// Takes up what an earlier attempt left.
    fn take_up(&mut self) -> Result<(), HubError> {
        if self.path.is_file() {
            let mut hasher = self.fresh_hash();
            self.len = hash_file(&self.path, &mut hasher, self.progress)?;
            self.hasher = hasher;
            if self.len > self.file.size {
                self.restart()?;
            }
        }
        Ok(())
    }

    /// Refuses a file that is another one than the listing said, before its bytes come.
    fn check_tag(&self, response: &Response<Body>) -> Result<(), HubError> {
        let header = |name: &str| response.headers().get(name).and_then(|v| v.to_str().ok());
        let tag = header("x-linked-etag").or_else(|| header("etag")).unwrap_or_default();
        let tag = tag.trim_start_matches("W/").trim_matches('"');
        let expected = self.file.digest.hex();
        // A tag of another length is no hash of this kind.
        if tag.len() == expected.len() && tag != expected {
            return Err(HubError::Changed {
                file: self.file.path.clone(),
                expected: expected.to_owned(),
                found: tag.to_owned(),
            });
        }
        Ok(())
    }

    /// One attempt: asks for the rest and appends what comes.
    fn attempt(&mut self) -> Result<(), HubError> {
        let name = &self.file.path;
        let network = |e: ureq::Error| HubError::Network(name.clone(), Box::new(e));
        let response = self.listing.open(self.file, self.len).map_err(network)?;
        if response.status() == 416 {
            return self.restart();
        }
        check_status(name, &response)?;
        self.check_tag(&response)?;
        let begins = format!("bytes {}-", self.len);
        let range = response.headers().get("content-range").and_then(|v| v.to_str().ok()).unwrap_or_default();
        if self.len > 0 && (response.status() != 206 || !range.starts_with(&begins)) {
            self.restart()?;
            // The whole file comes instead of the rest; a wrong part of it is of no use.
            if response.status() == 206 {
                return Ok(());
            }
        }
        self.append(response)
    }

    fn append(&mut self, response: Response<Body>) -> Result<(), HubError> {
        let mut out =
            OpenOptions::new().create(true).append(true).open(&self.path).map_err(io(&self.path))?;
        let mut body = response.into_body().into_with_config().limit(u64::MAX).reader();
        let mut block = vec![0; BLOCK];
        loop {
            let n = body
                .read(&mut block)
                .map_err(|e| HubError::Network(self.file.path.clone(), Box::new(ureq::Error::from(e))))?;
            if n == 0 {
                break;
            }
            out.write_all(&block[..n]).map_err(io(&self.path))?;
            self.hasher.update(&block[..n]);
            self.len += n as u64;
            self.progress.advance(n as u64);
            if self.len > self.file.size {
                break;
            }
        }
        out.sync_all().map_err(io(&self.path))
    }

    /// Attempts until the file is whole, some of which may bring nothing.
    fn complete(&mut self) -> Result<(), HubError> {
        let mut idle = 0;
        // An empty file needs to be made, too.
        while self.len < self.file.size || !self.path.is_file() {
            let before = self.len;
            let outcome = self.attempt();
            idle = if self.len > before { 0 } else { idle + 1 };
            match outcome {
                Err(error) if !is_passing(&error) || idle >= ATTEMPTS => return Err(error),
                Ok(()) if idle >= ATTEMPTS => return Err(self.wrong_size()),
                Ok(()) if idle == 0 => {}
                _ => std::thread::sleep(PAUSE * 2u32.pow(idle.min(ATTEMPTS))),
            }
        }
        if self.len == self.file.size { Ok(()) } else { Err(self.wrong_size()) }
    }

    fn wrong_size(&self) -> HubError {
        HubError::Size { file: self.file.path.clone(), expected: self.file.size, found: self.len }
    }

    fn check(&mut self) -> Result<(), HubError> {
        let found = self.hasher.clone().finish();
        if found != self.file.digest.hex() {
            self.restart()?;
            let (file, expected) = (self.file.path.clone(), self.file.digest.hex().to_owned());
            return Err(HubError::Hash { file, expected, found });
        }
        Ok(())
    }
}

/// Whether another attempt may go better.
fn is_passing(error: &HubError) -> bool {
    match error {
        HubError::Network(..) => true,
        HubError::Status(_, status) => matches!(status, 408 | 429 | 500..),
        _ => false,
    }
}

/// Makes `file` whole in `folder`.
pub(crate) fn fetch(
    listing: &Listing,
    file: &RemoteFile,
    folder: &Path,
    progress: &dyn Progress,
) -> Result<Fetched, HubError> {
    let place = folder.join(&file.path);
    if place.metadata().is_ok_and(|m| m.is_file() && m.len() == file.size) {
        let mut hasher = file.digest.hasher(file.size);
        let len = hash_file(&place, &mut hasher, progress)?;
        if hasher.finish() == file.digest.hex() {
            return Ok(Fetched::Kept);
        }
        progress.take_back(len);
    }
    let parts = folder.join(PARTS);
    fs::create_dir_all(&parts).map_err(io(&parts))?;
    let path = parts.join(file.digest.hex());
    let hasher = file.digest.hasher(file.size);
    let mut part = Part { listing, file, path, hasher, len: 0, progress };
    part.take_up()?;
    let start = part.len;
    part.complete()?;
    part.check()?;
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent).map_err(io(parent))?;
    }
    fs::rename(&part.path, &place).map_err(io(&place))?;
    Ok(Fetched::From(start))
}
