//! Why a checkpoint cannot be written.

use std::io;
use std::path::PathBuf;

use crate::checkpoint::CheckpointError;
use crate::config::ConfigError;
use crate::tokenizer::{TextError, TokenizerError};

/// An error of [`super::write`].
#[derive(Debug, thiserror::Error)]
pub enum SynthError {
    /// The folder holds something already.
    #[error("{}: expected an empty folder, found {found}", dir.display())]
    NotEmpty {
        /// The folder.
        dir: PathBuf,
        /// A file in it.
        found: String,
    },
    /// A file or folder cannot be written.
    #[error("cannot write {}: {cause}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's words.
        #[source]
        cause: io::Error,
    },
    /// The preset's own sizes do not fit together.
    #[error("preset: {0}")]
    Preset(#[source] ConfigError),
    /// The tokenizer that was written does not open.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The tokenizer that was written does not decode its tokens.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The checkpoint that was written does not open.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}
