//! Bytes to text, an unfinished character at a time.

/// The bytes of a character that may still become complete.
#[derive(Debug, Default)]
pub(super) struct Utf8 {
    partial: Vec<u8>,
}

impl Utf8 {
    /// Takes bytes and gives the text that is certain. Over a reply, with [`Utf8::finish`], the texts together are
    /// what `String::from_utf8_lossy` makes of all bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        self.partial.extend_from_slice(bytes);
        let mut text = String::with_capacity(self.partial.len());
        let mut done = 0;
        for chunk in self.partial.utf8_chunks() {
            text.push_str(chunk.valid());
            done += chunk.valid().len();
            let at_end = done + chunk.invalid().len() == self.partial.len();
            if chunk.invalid().is_empty() || (at_end && is_unfinished(chunk.invalid())) {
                break;
            }
            text.push(char::REPLACEMENT_CHARACTER);
            done += chunk.invalid().len();
        }
        self.partial.drain(..done);
        text
    }

    /// The replacement of a character that stayed unfinished.
    pub(super) fn finish(&mut self) -> &'static str {
        let unfinished = !self.partial.is_empty();
        self.partial.clear();
        if unfinished { "\u{fffd}" } else { "" }
    }
}

fn is_unfinished(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_character_appears_when_it_is_complete() {
        let mut utf8 = Utf8::default();
        let texts: Vec<String> = "a€".bytes().map(|b| utf8.push(&[b])).collect();
        assert_eq!(texts, ["a", "", "", "€"]);
        assert_eq!(utf8.push(&[0xe2, 0x82]), "");
        assert_eq!(utf8.push(b"b"), "\u{fffd}b");
        assert_eq!(utf8.push(&[0xff, 0xf0, 0x9f]), "\u{fffd}");
        assert_eq!(utf8.finish(), "\u{fffd}");
        assert_eq!(utf8.finish(), "");
    }

    /// Bytes in which starts and continuations of characters are common.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            Just(b'a'),
            0x80..=0xbfu8,
            Just(0xe2),
            Just(0xed),
            Just(0xf0),
            Just(0xf4),
            Just(0xc3),
            any::<u8>(),
        ];
        prop::collection::vec(byte, 0..5)
    }

    proptest! {
        #[test]
        fn pieces_together_are_the_lossy_whole(parts in prop::collection::vec(bytes(), 0..12)) {
            let mut utf8 = Utf8::default();
            let mut text: String = parts.iter().map(|part| utf8.push(part)).collect();
            text.push_str(utf8.finish());
            prop_assert_eq!(text, String::from_utf8_lossy(&parts.concat()).into_owned());
        }
    }
}
