//! The map of token ids onto the smaller vocabulary by which Engram tables are addressed.

use std::collections::HashMap;

use tokenizers::normalizers::replace::ReplacePattern;
use tokenizers::normalizers::{
    Lowercase, NFD, NFKC, NormalizerWrapper, Replace, Sequence, Strip, StripAccents,
};
use tokenizers::{NormalizedString, Normalizer};

use super::{TextError, Tokenizer};

/// Stands for a text that is one space while the ends are stripped (private use area).
const LONE_SPACE: &str = "\u{e000}";

/// Compressed ids: tokens that differ only in case, accents, width or surrounding white space share one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenMap {
    /// Compressed id of each token, `[vocab]`.
    pub map: Vec<u32>,
    /// Number of compressed ids.
    pub size: usize,
}

/// Builds the token map of the official inference code.
///
/// The key of a token is its decoded text after NFKC, NFD, removal of combining marks, lower case, runs of white
/// space to one space, and stripped ends (a lone space stays); the text itself where that leaves nothing; the
/// vocabulary's spelling where the token is not UTF-8 by itself. Keys are numbered in order of first appearance.
///
/// # Errors
/// The normalizers refuse a token's text.
pub fn token_map(tokenizer: &Tokenizer) -> Result<TokenMap, TextError> {
    let normalizer = normalizer().map_err(refused)?;
    let mut numbers: HashMap<String, u32> = HashMap::with_capacity(tokenizer.vocab());
    let mut map = Vec::with_capacity(tokenizer.vocab());
    for id in 0..tokenizer.vocab() {
        let bytes = tokenizer.bytes(id as u32).unwrap_or_default();
        let key = match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains('\u{fffd}') => key(&normalizer, text)?,
            _ => tokenizer.name(id).to_owned(),
        };
        let next = numbers.len() as u32;
        map.push(*numbers.entry(key).or_insert(next));
    }
    Ok(TokenMap { map, size: numbers.len() })
}

fn key(normalizer: &Sequence, text: &str) -> Result<String, TextError> {
    // Words in ASCII, most of a vocabulary, only lose their case and the spaces around them.
    let word = text.trim_matches(' ');
    if !word.is_empty() && word.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(word.to_ascii_lowercase());
    }
    let mut normal = NormalizedString::from(text);
    normalizer.normalize(&mut normal).map_err(refused)?;
    Ok(if normal.get().is_empty() { text.to_owned() } else { normal.get().to_owned() })
}

fn normalizer() -> tokenizers::Result<Sequence> {
    let regex = |pattern: &str| ReplacePattern::Regex(pattern.to_owned());
    Ok(Sequence::new(vec![
        NFKC.into(),
        NFD.into(),
        StripAccents.into(),
        Lowercase.into(),
        Replace::new(regex(r"[ \t\r\n]+"), " ")?.into(),
        Replace::new(regex("^ $"), LONE_SPACE)?.into(),
        NormalizerWrapper::StripNormalizer(Strip::new(true, true)),
        Replace::new(LONE_SPACE, " ")?.into(),
    ]))
}

fn refused(error: tokenizers::Error) -> TextError {
    TextError::Tokenize { reason: error.to_string() }
}
