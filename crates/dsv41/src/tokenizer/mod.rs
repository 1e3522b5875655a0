//! Text to token ids and back, over `tokenizer.json` and `tokenizer_config.json`.

mod bytes;
mod control;
mod error;
mod token_map;

pub use control::Control;
pub use error::{TextError, TokenizerError};
pub use token_map::{TokenMap, token_map};

use std::collections::HashMap;
use std::path::Path;

use bytes::TokenBytes;
use serde::Deserialize;
use serde_json::Value;
use tokenizers::DecoderWrapper;

/// What becomes of tokens that are flagged special (begin, end, padding, place holders) in decoded text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// They are written out.
    Show,
    /// They are left out.
    Hide,
}

/// The tokenizer of a checkpoint.
pub struct Tokenizer {
    full: tokenizers::Tokenizer,
    plain: tokenizers::Tokenizer,
    names: Vec<String>,
    bytes: TokenBytes,
    special: Vec<bool>,
    control: HashMap<Control, u32>,
}

impl Tokenizer {
    /// Opens the tokenizer in folder `dir` of a model with `vocab` token ids.
    ///
    /// # Errors
    /// A file that is missing, unreadable or malformed; a decoder that is not byte-level; ids that are not exactly
    /// `0..vocab`; no begin or end token.
    pub fn open(dir: &Path, vocab: usize) -> Result<Self, TokenizerError> {
        let file = dir.join("tokenizer.json");
        let text = read(&file)?;
        let full = tokenizers::Tokenizer::from_bytes(&text).map_err(|error| {
            let expected = "a tokenizer of the `tokenizers` library".to_owned();
            TokenizerError::Content { file: file.clone(), expected, found: error.to_string() }
        })?;
        if !matches!(full.get_decoder(), Some(DecoderWrapper::ByteLevel(_))) {
            let expected = "a ByteLevel decoder".to_owned();
            return Err(TokenizerError::Content { file, expected, found: "another one or none".to_owned() });
        }
        let names = names(&full, &file, vocab)?;
        let mut bytes = TokenBytes::default();
        names.iter().for_each(|name| bytes.push(name));

        check_added(&full, &text, &file)?;

        let mut special = vec![false; vocab];
        let mut control = HashMap::new();
        for (id, token) in full.get_added_tokens_decoder() {
            special[id as usize] = token.special;
            if let Some(&kind) = Control::ALL.iter().find(|kind| kind.text() == token.content) {
                control.insert(kind, id);
            }
        }
        for needed in [Control::Bos, Control::Eos] {
            if !control.contains_key(&needed) {
                return Err(TokenizerError::Control { file, token: needed.text() });
            }
        }
        check_config(&dir.join("tokenizer_config.json"))?;
        Ok(Self { plain: plain(&full), full, names, bytes, special, control })
    }

    /// Number of token ids.
    pub fn vocab(&self) -> usize {
        self.bytes.len()
    }

    /// Ids of `text`, with control tokens written in it recognised. Nothing is added.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        ids(&self.full, text)
    }

    /// Ids of `text` in which a control token's text is text like any other.
    pub fn encode_plain(&self, text: &str) -> Result<Vec<u32>, TextError> {
        ids(&self.plain, text)
    }

    /// Ids of UTF-8 `text` given as bytes, with control tokens recognised.
    ///
    /// # Errors
    /// Bytes that are not UTF-8, with the place of the first.
    pub fn encode_bytes(&self, text: &[u8]) -> Result<Vec<u32>, TextError> {
        let text =
            std::str::from_utf8(text).map_err(|error| TextError::Utf8 { valid: error.valid_up_to() })?;
        self.encode(text)
    }

    /// Text of `ids`; each maximal part that is not UTF-8 becomes U+FFFD.
    ///
    /// # Errors
    /// An id outside the vocabulary.
    pub fn decode(&self, ids: &[u32], special: Special) -> Result<String, TextError> {
        let mut text = Vec::new();
        for &id in ids {
            let bytes = self.bytes(id).ok_or(TextError::Id { id, vocab: self.vocab() })?;
            if special == Special::Show || !self.is_special(id) {
                text.extend_from_slice(bytes);
            }
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Bytes that token `id` stands for, if it is a token. They need not be UTF-8 by themselves.
    pub fn bytes(&self, id: u32) -> Option<&[u8]> {
        self.bytes.get(id)
    }

    /// Whether token `id` is flagged special. The tags of reasoning and tool calls are not.
    pub fn is_special(&self, id: u32) -> bool {
        self.special.get(id as usize).copied().unwrap_or(false)
    }

    /// Id of a control token; small vocabularies lack some.
    pub fn control(&self, kind: Control) -> Option<u32> {
        self.control.get(&kind).copied()
    }

    /// Id of a control token that is needed.
    ///
    /// # Errors
    /// The vocabulary lacks it.
    pub fn require(&self, kind: Control) -> Result<u32, TextError> {
        self.control(kind).ok_or(TextError::Control { token: kind.text() })
    }

    /// The vocabulary's own spelling of token `id`.
    fn name(&self, id: usize) -> &str {
        &self.names[id]
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer").field("vocab", &self.vocab()).field("control", &self.control).finish()
    }
}

fn read(file: &Path) -> Result<Vec<u8>, TokenizerError> {
    std::fs::read(file).map_err(|source| TokenizerError::Read { file: file.to_owned(), source })
}

/// Longest run of white space that is tokenized; the look-ahead in the split gives up in silence at a million.
const WHITE_SPACE: usize = 900_000;

fn ids(tokenizer: &tokenizers::Tokenizer, text: &str) -> Result<Vec<u32>, TextError> {
    check_white_space(text)?;
    let encoding = tokenizer
        .encode_fast(text, false)
        .map_err(|error| TextError::Tokenize { reason: error.to_string() })?;
    Ok(encoding.get_ids().to_vec())
}

fn check_white_space(text: &str) -> Result<(), TextError> {
    if text.len() <= WHITE_SPACE {
        return Ok(());
    }
    let (mut run, mut start) = (0, 0);
    for (at, c) in text.char_indices() {
        if !c.is_whitespace() {
            run = 0;
            continue;
        }
        start = if run == 0 { at } else { start };
        run += 1;
        if run > WHITE_SPACE {
            return Err(TextError::WhiteSpace { limit: WHITE_SPACE, at: start });
        }
    }
    Ok(())
}

/// The same model and splits without any added token.
fn plain(full: &tokenizers::Tokenizer) -> tokenizers::Tokenizer {
    let mut plain = tokenizers::Tokenizer::new(full.get_model().clone());
    plain.with_pre_tokenizer(full.get_pre_tokenizer().cloned());
    plain
}

/// Spelling of every token, once the ids are known to be exactly `0..vocab`.
fn names(full: &tokenizers::Tokenizer, file: &Path, vocab: usize) -> Result<Vec<String>, TokenizerError> {
    let tokens = full.get_vocab(true);
    if tokens.len() != vocab {
        let file = file.to_owned();
        return Err(TokenizerError::Vocabulary { file, expected: vocab, found: tokens.len() });
    }
    let mut names = vec![None; vocab];
    for (name, id) in tokens {
        if let Some(slot) = names.get_mut(id as usize) {
            *slot = Some(name);
        }
    }
    let gap = |id| TokenizerError::Gap { file: file.to_owned(), id, expected: vocab };
    names.into_iter().enumerate().map(|(id, name)| name.ok_or_else(|| gap(id))).collect()
}

/// Checks that added tokens have the ids that the file gives them: the library numbers them by their order.
fn check_added(full: &tokenizers::Tokenizer, text: &[u8], file: &Path) -> Result<(), TokenizerError> {
    #[derive(Deserialize)]
    struct Added {
        id: u32,
        content: String,
    }
    #[derive(Deserialize)]
    struct File {
        added_tokens: Vec<Added>,
    }
    let content =
        |expected: String, found: String| TokenizerError::Content { file: file.to_owned(), expected, found };
    let File { added_tokens } = serde_json::from_slice(text)
        .map_err(|error| content("a list added_tokens".to_owned(), error.to_string()))?;
    for Added { id, content: token } in added_tokens {
        let found = full.token_to_id(&token);
        if found != Some(id) {
            let place = found.map_or("no id".to_owned(), |found| found.to_string());
            return Err(content(format!("added token {token} at id {id}"), format!("it belongs at {place}")));
        }
    }
    Ok(())
}

/// Checks that the begin and end tokens are the family's.
fn check_config(file: &Path) -> Result<(), TokenizerError> {
    let content =
        |expected: String, found: String| TokenizerError::Content { file: file.to_owned(), expected, found };
    let config: Value = serde_json::from_slice(&read(file)?)
        .map_err(|error| content("a JSON object".to_owned(), error.to_string()))?;
    for (field, kind) in [("bos_token", Control::Bos), ("eos_token", Control::Eos)] {
        let value = &config[field];
        let found = value.as_str().or_else(|| value["content"].as_str());
        if found != Some(kind.text()) {
            return Err(content(format!("{field} {}", kind.text()), value.to_string()));
        }
    }
    Ok(())
}
