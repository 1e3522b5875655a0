//! Why a checkpoint folder is refused.

use std::io;
use std::path::PathBuf;

use super::HeaderError;
use crate::config::ConfigError;

/// An error of a checkpoint folder; each names the file, and what was expected and found there.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A file cannot be opened or read.
    #[error("cannot read {}: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's words.
        #[source]
        cause: io::Error,
    },
    /// A path that should be a regular file is something else, or is too long for what it is.
    #[error("{}: expected {expected}, found {found}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is accepted.
        expected: String,
        /// What is there.
        found: String,
    },
    /// `config.json` is not accepted.
    #[error("{}: {cause}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// The field and why.
        #[source]
        cause: ConfigError,
    },
    /// The folder holds no weights.
    #[error("{}: expected model.safetensors.index.json or model.safetensors, found neither", dir.display())]
    NoWeights {
        /// The folder.
        dir: PathBuf,
    },
    /// The index is not the JSON of the format.
    #[error("{}: expected an index with a weight_map of tensor to file, found {cause}", path.display())]
    Index {
        /// The index.
        path: PathBuf,
        /// The parser's words.
        cause: String,
    },
    /// The index names a file outside the folder.
    #[error("{}: tensor {tensor}: expected a file inside the folder, found {file}", path.display())]
    Outside {
        /// The index.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The name in the index, with the target if it is a link.
        file: String,
    },
    /// A shard that the index names cannot be opened.
    #[error("{}: shard of tensor {tensor}: expected a readable file, found: {cause}", path.display())]
    Shard {
        /// The shard.
        path: PathBuf,
        /// A tensor that the index puts there.
        tensor: String,
        /// The system's words.
        #[source]
        cause: io::Error,
    },
    /// A shard's header is damaged or does not fit the file.
    #[error("{}: {cause}", path.display())]
    Header {
        /// The shard.
        path: PathBuf,
        /// What and where.
        #[source]
        cause: HeaderError,
    },
    /// A tensor comes more than once.
    #[error("{}: tensor {tensor}: expected once, found as {first} and as {second}", path.display())]
    Duplicate {
        /// The file that holds it a second time.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The first place.
        first: String,
        /// The second place.
        second: String,
    },
    /// A tensor is in another shard than the index says.
    #[error("{}: tensor {tensor}: expected in {expected}, found in {found}", path.display())]
    Elsewhere {
        /// The index.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The shard that the index names.
        expected: String,
        /// The shard that holds it.
        found: String,
    },
    /// A tensor that the configuration needs is not there.
    #[error("{}: tensor {tensor}: expected {expected}, found none", path.display())]
    Missing {
        /// The index, or the shard that should hold the tensor.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Type and shape.
        expected: String,
    },
    /// A tensor has another type or shape than the configuration needs.
    #[error("{}: tensor {tensor}: expected {expected}, found {found}", path.display())]
    Tensor {
        /// The shard.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Type and shape that the configuration needs.
        expected: String,
        /// Type and shape of the header.
        found: String,
    },
    /// A stored value is NaN or infinite, such as an E8M0 scale byte of 255.
    #[error("{}: tensor {tensor}: expected finite values, found {found} at {position:?}", path.display())]
    Value {
        /// The shard.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The stored bits.
        found: String,
        /// Index of the value in each dimension of the stored shape.
        position: Vec<u64>,
    },
}
