//! Stop strings over text that comes in pieces.

/// A string that cannot stop a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stop: string {index} is empty, expected at least one character")]
pub struct StopStringError {
    /// Its place in the list.
    pub index: usize,
}

/// Looks for stop strings, and holds back text that may become one.
///
/// The string that is complete first ends the reply; of several that end together, the longest. This depends on the
/// text alone, not on the pieces it came in.
#[derive(Debug, Clone, Default)]
pub struct StopStrings {
    searches: Vec<Search>,
    held: String,
}

impl StopStrings {
    /// Looks for any of `strings`.
    ///
    /// # Errors
    /// An empty string.
    pub fn new(strings: impl IntoIterator<Item = String>) -> Result<Self, StopStringError> {
        let search = |(index, string): (usize, String)| {
            if string.is_empty() { Err(StopStringError { index }) } else { Ok(Search::new(string)) }
        };
        let searches = strings.into_iter().enumerate().map(search).collect::<Result<_, _>>()?;
        Ok(Self { searches, held: String::new() })
    }

    /// Takes text, appends to `shown` what cannot become part of a stop string any more, and returns the stop
    /// string that is complete, if one is. What follows it is dropped.
    pub(super) fn push(&mut self, text: &str, shown: &mut String) -> Option<String> {
        for (start, letter) in text.char_indices() {
            let bytes = &text.as_bytes()[start..start + letter.len_utf8()];
            self.held.push(letter);
            self.searches.iter_mut().for_each(|search| search.push(bytes));
            let complete = self.searches.iter().filter(|search| search.is_complete());
            if let Some(found) = complete.max_by_key(|search| search.string.len()) {
                let string = found.string.clone();
                self.held.truncate(self.held.len() - string.len());
                shown.push_str(&self.release());
                return Some(string);
            }
        }
        let open = self.searches.iter().map(|search| search.matched).max().unwrap_or(0);
        shown.extend(self.held.drain(..self.held.len() - open));
        None
    }

    /// Gives up what is held back and starts afresh.
    pub(super) fn release(&mut self) -> String {
        self.searches.iter_mut().for_each(|search| search.matched = 0);
        std::mem::take(&mut self.held)
    }
}

/// The search of Knuth, Morris and Pratt for one string.
#[derive(Debug, Clone)]
struct Search {
    string: String,
    /// Length of the longest proper prefix of `string[..=i]` that is also its suffix.
    borders: Vec<usize>,
    /// Length of the longest prefix of `string` that ends the text.
    matched: usize,
}

impl Search {
    fn new(string: String) -> Self {
        let mut borders = vec![0; string.len()];
        for i in 1..string.len() {
            borders[i] = advance(string.as_bytes(), &borders, borders[i - 1], string.as_bytes()[i]);
        }
        Self { string, borders, matched: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.matched = advance(self.string.as_bytes(), &self.borders, self.matched, byte);
        }
    }

    fn is_complete(&self) -> bool {
        self.matched == self.string.len()
    }
}

/// The longest prefix of `string` that ends the text after `byte`, from the one before it.
fn advance(string: &[u8], borders: &[usize], mut matched: usize, byte: u8) -> usize {
    while matched > 0 && string.get(matched) != Some(&byte) {
        matched = borders[matched - 1];
    }
    if string.get(matched) == Some(&byte) { matched + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stops(strings: &[&str]) -> StopStrings {
        StopStrings::new(strings.iter().map(|s| s.to_string())).unwrap()
    }

    /// Texts shown after each piece, and the string that ended them.
    fn run(strings: &[&str], pieces: &[&str]) -> (Vec<String>, Option<String>) {
        let mut stops = stops(strings);
        let mut shown = Vec::new();
        for piece in pieces {
            let mut text = String::new();
            let end = stops.push(piece, &mut text);
            shown.push(text);
            if end.is_some() {
                return (shown, end);
            }
        }
        shown.push(stops.release());
        (shown, None)
    }

    #[test]
    fn text_that_may_become_a_stop_string_is_held_back() {
        let (shown, end) = run(&["END"], &["aE", "N", "x E", "ND b"]);
        assert_eq!((shown, end), (vec!["a".into(), "".into(), "ENx ".into(), "".into()], Some("END".into())));
        let (shown, end) = run(&["END"], &["aEN"]);
        assert_eq!((shown, end), (vec!["a".into(), "EN".into()], None));
    }

    #[test]
    fn the_string_that_is_complete_first_wins() {
        assert_eq!(run(&["bcde", "cd"], &["abcdef"]), (vec!["ab".into()], Some("cd".into())));
        assert_eq!(run(&["cd", "bcd"], &["abcdef"]), (vec!["a".into()], Some("bcd".into())));
    }

    #[test]
    fn strings_that_overlap_themselves_are_found() {
        assert_eq!(run(&["aab"], &["aa", "a", "b"]).1, Some("aab".into()));
        assert_eq!(
            run(&["ééa"], &["é", "éé", "a"]),
            (vec!["".into(), "é".into(), "".into()], Some("ééa".into()))
        );
    }

    #[test]
    fn an_empty_string_is_refused() {
        let error = StopStrings::new(["a".to_owned(), String::new()]).unwrap_err();
        assert_eq!(error.to_string(), "stop: string 1 is empty, expected at least one character");
    }

    /// The rule, letter by letter over the whole text.
    fn expected(strings: &[String], text: &str) -> (String, Option<String>) {
        let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
        for end in ends {
            let ended = strings.iter().filter(|string| text[..end].ends_with(string.as_str()));
            if let Some(string) = ended.max_by_key(|string| string.len()) {
                return (text[..end - string.len()].to_owned(), Some(string.clone()));
            }
        }
        (text.to_owned(), None)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn the_pieces_do_not_matter(
            strings in prop::collection::vec("[ab€é]{1,4}", 0..4),
            pieces in prop::collection::vec("[ab€é]{0,4}", 0..10),
        ) {
            let names: Vec<&str> = strings.iter().map(String::as_str).collect();
            let parts: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let (shown, end) = run(&names, &parts);
            prop_assert_eq!((shown.concat(), end), expected(&strings, &pieces.concat()));
        }
    }
}
