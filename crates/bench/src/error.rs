use std::path::PathBuf;

/// Why a measurement could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The server could not be reached, or the connection broke.
    #[error("{what}: {cause}")]
    Http {
        /// The request.
        what: String,
        /// What the client says.
        cause: Box<ureq::Error>,
    },
    /// An answer other than 200.
    #[error("{what}: expected status 200, found {status}: {body}")]
    Status {
        /// The request.
        what: String,
        /// The status.
        status: u16,
        /// The start of its body.
        body: String,
    },
    /// A reply that is not what the API promises.
    #[error("{what}: expected {expected}, found {found}")]
    Answer {
        /// The request.
        what: String,
        /// What was expected.
        expected: &'static str,
        /// What was found.
        found: String,
    },
    /// A file of the user's.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A server that was to be started.
    #[error("{0}")]
    Server(String),
    /// A flag whose value cannot be.
    #[error("{0}")]
    Flag(String),
    /// The user asked to stop.
    #[error("stopped")]
    Stopped,
    /// A picture that could not be drawn.
    #[error("drawing a plot: {0}")]
    Plot(String),
}

impl BenchError {
    /// A file that `cause` speaks of.
    pub(crate) fn file(path: impl Into<PathBuf>, cause: impl ToString) -> Self {
        Self::File { path: path.into(), problem: cause.to_string() }
    }
}
