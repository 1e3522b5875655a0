//! Downloads a repository of a Hugging Face hub into a folder.
//!
//! [`Hub::list`] asks which files a revision has, [`Listing::pull`] fetches them: several at once, each resumed where an
//! earlier attempt ended, checked against the hub's own hash, and renamed into place only when it is whole. A file that is
//! there already is kept if its hash is right.

mod digest;
mod download;
mod error;
mod listing;
mod pull;

pub use digest::Digest;
pub use error::HubError;
pub use listing::{Hub, Listing, RemoteFile, Repo};
pub use pull::{Progress, Pulled, Silent};

/// Folder of files that are not whole yet.
const PARTS: &str = ".tokenfare-parts";
