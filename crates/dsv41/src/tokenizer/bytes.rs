//! The bytes behind each token: the byte-level alphabet mapped back.

/// The byte that a letter of the byte-level alphabet stands for.
///
/// Printable Latin-1 letters stand for themselves; the other 68 bytes, in order, are the letters from U+0100 on.
fn byte(letter: char) -> Option<u8> {
    let own = |b: u8| matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    match u32::from(letter) {
        code @ 0..=0xff => u8::try_from(code).ok().filter(|&b| own(b)),
        code => (0..=u8::MAX).filter(|&b| !own(b)).nth(usize::try_from(code - 0x100).ok()?),
    }
}

/// Bytes of every token, end to end.
#[derive(Debug, Clone, Default)]
pub(super) struct TokenBytes {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl TokenBytes {
    /// Appends the bytes of the next token. A token with a letter outside the alphabet is plain text.
    pub(super) fn push(&mut self, token: &str) {
        let start = self.bytes.len();
        for letter in token.chars() {
            match byte(letter) {
                Some(b) => self.bytes.push(b),
                None => {
                    self.bytes.truncate(start);
                    self.bytes.extend_from_slice(token.as_bytes());
                    break;
                }
            }
        }
        self.ends.push(self.bytes.len());
    }

    /// Bytes of token `id`, if there is one.
    pub(super) fn get(&self, id: u32) -> Option<&[u8]> {
        let id = usize::try_from(id).ok()?;
        let end = *self.ends.get(id)?;
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        Some(&self.bytes[start..end])
    }

    /// Number of tokens.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use tokenizers::pre_tokenizers::byte_level::ByteLevel;

    #[test]
    fn the_alphabet_has_one_letter_a_byte() {
        let letters = ByteLevel::alphabet();
        let bytes: BTreeSet<u8> = letters.iter().filter_map(|&letter| byte(letter)).collect();
        assert_eq!((letters.len(), bytes.len()), (256, 256));
        assert_eq!(byte('Ġ'), Some(b' '));
        assert_eq!(byte('Ċ'), Some(b'\n'));
        assert_eq!(byte('ł'), Some(0xa0));
        assert_eq!(byte('Ń'), Some(0xad));
        assert_eq!(byte(' '), None);
        assert_eq!(byte('ń'), None);
        assert_eq!(byte('｜'), None);
    }

    #[test]
    fn a_token_with_a_foreign_letter_is_text() {
        let mut tokens = TokenBytes::default();
        tokens.push("Ġa");
        tokens.push("｜DSML｜");
        tokens.push("âĢ");
        assert_eq!(tokens.get(0), Some(&b" a"[..]));
        assert_eq!(tokens.get(1), Some("｜DSML｜".as_bytes()));
        assert_eq!(tokens.get(2), Some(&[0xe2, 0x80][..]));
        assert_eq!(tokens.get(3), None);
    }
}
