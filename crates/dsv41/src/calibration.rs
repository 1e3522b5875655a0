//! The text that a measurement of draft costs feeds the model.

use crate::tokenizer::Tokenizer;

/// Most tokens of the text.
const LONGEST: usize = 256;
/// Fewer ids than this make no text.
const SHORTEST: usize = 16;
/// Ids of the text that stands in where the vocabulary makes none.
const FALLBACK: usize = 64;

/// Prose, numbered prose and code: what replies are made of, so that windows meet experts as replies do.
const TEXT: &str = "\
The harbour lay quiet in the early light, and the first boats came in past the breakwater with their nets still wet. \
On the quay a woman counted crates while her brother wrote the weights into a book. Nobody spoke much before the sun \
was up; there was enough to do.

1. Read the whole list before you begin.
2. Measure the flour, then the water, and keep 20 g of each aside.
3. Knead for ten minutes. The dough should be smooth, and should spring back when you press it.
4. Let it rest for 2 hours at 24 degrees.

```python
def moving_average(values, width):
    total, out = 0.0, []
    for i, value in enumerate(values):
        total += value
        if i >= width:
            total -= values[i - width]
        out.append(total / min(i + 1, width))
    return out

if __name__ == \"__main__\":
    print(moving_average([1, 2, 3, 5, 8, 13], width=3))
```
";

/// At most 256 token ids below the vocabulary; 64 fixed ones where the tokenizer makes fewer than 16 of the text.
pub fn text(tokenizer: &Tokenizer) -> Vec<u32> {
    let vocab = tokenizer.vocab();
    let mut ids = tokenizer.encode_plain(TEXT).unwrap_or_default();
    ids.retain(|&id| (id as usize) < vocab);
    ids.truncate(LONGEST);
    if ids.len() < SHORTEST { fallback(vocab) } else { ids }
}

/// Ids spread over a vocabulary of `vocab`.
fn fallback(vocab: usize) -> Vec<u32> {
    // A stride without a small factor reaches most of any vocabulary.
    (0..FALLBACK).map(|i| (i * 7919 % vocab.max(1)) as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn text_of(folder: &str, vocab: usize) -> (Tokenizer, Vec<u32>) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
        let tokenizer = Tokenizer::open(&folder, vocab).unwrap();
        let ids = text(&tokenizer);
        (tokenizer, ids)
    }

    #[test]
    fn the_text_is_the_beginning_of_prose_lists_and_code() {
        for (folder, vocab) in [("models/mini", 8192), ("fixtures/tiny", 512)] {
            let (tokenizer, ids) = text_of(folder, vocab);
            assert!(ids.len() == 256 || tokenizer.encode_plain(TEXT).unwrap() == ids);
            let words = tokenizer.decode(&ids, crate::tokenizer::Special::Show).unwrap();
            assert!(TEXT.starts_with(words.trim_end_matches('\u{fffd}')), "{words}");
        }
        let (tokenizer, ids) = text_of("models/mini", 8192);
        let words = tokenizer.decode(&ids, crate::tokenizer::Special::Show).unwrap();
        assert!(words.contains("\n4. Let it rest") && words.contains("def moving_average"), "{words}");
    }

    #[test]
    fn ids_that_stand_in_are_fixed_and_inside_any_vocabulary() {
        assert_eq!(fallback(129_280)[..4], [0, 7919, 15_838, 23_757]);
        for vocab in [1, 2, 40, 512] {
            let ids = fallback(vocab);
            assert!(ids.len() == 64 && ids.iter().all(|&id| (id as usize) < vocab));
        }
    }
}
