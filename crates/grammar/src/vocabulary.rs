//! The tokens that grammars are over.

use toktrie::{TokRxInfo, TokTrie};

/// The bytes of every token, in the order of ids.
#[derive(Debug, Clone)]
pub struct Vocabulary {
    words: Vec<Vec<u8>>,
    end: u32,
}

impl Vocabulary {
    /// An empty vocabulary whose end token will have the id `end`. A grammar that may end allows it.
    pub fn new(end: u32) -> Self {
        Self { words: Vec::new(), end }
    }

    /// Appends a token that stands for `bytes`, which need not be UTF-8. No grammar allows one without bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        // Grammars are over UTF-8, which never has the byte that marks control tokens in the trie.
        let usable = !bytes.contains(&TokTrie::SPECIAL_TOKEN_MARKER);
        self.words.push(if usable { bytes.to_vec() } else { Vec::new() });
    }

    /// Appends a token that is no text: a grammar allows it only by its id.
    pub fn push_control(&mut self, name: &str) {
        let mut word = vec![TokTrie::SPECIAL_TOKEN_MARKER];
        word.extend_from_slice(name.as_bytes());
        self.words.push(word);
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there is no token.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub(crate) fn trie(&self) -> TokTrie {
        TokTrie::from(&TokRxInfo::new(self.words.len() as u32, self.end), &self.words)
    }
}
