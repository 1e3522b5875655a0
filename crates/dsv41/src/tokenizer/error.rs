//! What can be wrong with the tokenizer's files, and with text or ids given to it.

use std::path::PathBuf;

/// Why a tokenizer could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// A file is not there or cannot be read.
    #[error("{}: cannot be read: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A file does not hold what its name promises.
    #[error("{}: expected {expected}, found {found}", file.display())]
    Content {
        /// The file.
        file: PathBuf,
        /// What the family needs.
        expected: String,
        /// What the file says.
        found: String,
    },
    /// The tokenizer belongs to a model of another vocabulary.
    #[error("{}: {found} tokens, expected the {expected} of config.json (vocab_size)", file.display())]
    Vocabulary {
        /// The file.
        file: PathBuf,
        /// Vocabulary of the model.
        expected: usize,
        /// Tokens of the file.
        found: usize,
    },
    /// An id below the vocabulary's size has no token.
    #[error("{}: no token has id {id}, expected every id below {expected}", file.display())]
    Gap {
        /// The file.
        file: PathBuf,
        /// The first such id.
        id: usize,
        /// Vocabulary of the model.
        expected: usize,
    },
    /// A control token that every prompt needs is absent.
    #[error("{}: added_tokens lack the control token {token}", file.display())]
    Control {
        /// The file.
        file: PathBuf,
        /// Text of the token.
        token: &'static str,
    },
}

/// Why text has no ids, or ids have no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// Bytes that are not UTF-8.
    #[error("text: invalid UTF-8 after byte {valid}")]
    Utf8 {
        /// Bytes before the first invalid one.
        valid: usize,
    },
    /// An id that is no token.
    #[error("token id {id} is outside the vocabulary of {vocab}")]
    Id {
        /// The id.
        id: u32,
        /// Vocabulary size.
        vocab: usize,
    },
    /// A prompt needs a control token that this vocabulary lacks.
    #[error("the vocabulary has no control token {token}")]
    Control {
        /// Text of the token.
        token: &'static str,
    },
    /// More white space in a row than the splitting expression can be matched on.
    #[error("text: more than {limit} white space characters in a row after byte {at}")]
    WhiteSpace {
        /// Longest accepted run.
        limit: usize,
        /// Where the run starts.
        at: usize,
    },
    /// The tokenizer itself refused the text.
    #[error("text: cannot be tokenized: {reason}")]
    Tokenize {
        /// Its words.
        reason: String,
    },
}
