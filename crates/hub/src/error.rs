//! What can go wrong with a download.

use std::path::PathBuf;

/// What can go wrong with a download.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// A name that no repository has.
    #[error("{0:?}: expected OWNER/NAME of letters, digits, '-', '_' and '.'")]
    Repo(String),
    /// An address that is none.
    #[error("{0:?}: expected an address that begins with https:// or http://")]
    Endpoint(String),
    /// The hub has no such thing.
    #[error("{0}: not found on the hub")]
    NotFound(String),
    /// The hub wants a token, or another one.
    #[error("{0}: the hub refuses access (status {1}); a token can be given in HF_TOKEN")]
    Refused(String, u16),
    /// The hub answered something else.
    #[error("{0}: status {1}, expected 200")]
    Status(String, u16),
    /// The connection failed.
    #[error("{0}: {1}")]
    Network(String, Box<ureq::Error>),
    /// An answer that is not what the hub's protocol says.
    #[error("{0}: {1}")]
    Answer(String, String),
    /// A file name that would leave the folder.
    #[error("{0:?}: a file name that leaves its folder")]
    Path(String),
    /// The file on the hub is another one than the listing said.
    #[error("{file}: its hash on the hub is {found}, the listing said {expected}")]
    Changed {
        /// The file.
        file: String,
        /// By the listing.
        expected: String,
        /// By the download's head.
        found: String,
    },
    /// What came is not what the listing said.
    #[error("{file}: the hash of what came is {found}, expected {expected}; it was deleted")]
    Hash {
        /// The file.
        file: String,
        /// By the listing.
        expected: String,
        /// Of the bytes.
        found: String,
    },
    /// Fewer or more bytes came than announced.
    #[error("{file}: {found} bytes came, expected {expected}")]
    Size {
        /// The file.
        file: String,
        /// By the listing.
        expected: u64,
        /// In fact.
        found: u64,
    },
    /// The file system.
    #[error("{0}: {1}")]
    Io(PathBuf, std::io::Error),
}
