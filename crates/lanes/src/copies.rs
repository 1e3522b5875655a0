//! Drafts copied from a stream's own tokens.

use std::collections::HashMap;

/// Tokens of an index key.
const GRAM: usize = 3;

/// Longest match that is measured.
const LONGEST: usize = 64;

const NONE: u32 = u32::MAX;

/// Where a stream's last tokens stood before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Match {
    /// Tokens that match, counted backwards from the end, at most 64.
    pub(crate) len: usize,
    /// Index of the token after the earlier place.
    pub(crate) next: usize,
}

/// Every 3-gram of a stream's tokens that another token follows, each place linked to the one before it.
#[derive(Debug, Default)]
pub(crate) struct CopyIndex {
    latest: HashMap<[u32; GRAM], u32>,
    /// For place `GRAM + i`: the previous place with the same 3-gram.
    previous: Vec<u32>,
}

impl CopyIndex {
    /// Takes in tokens appended since the last call.
    pub(crate) fn extend(&mut self, tokens: &[u32]) {
        for next in GRAM + self.previous.len()..tokens.len() {
            let before = self.latest.insert(gram(tokens, next), next as u32);
            self.previous.push(before.unwrap_or(NONE));
        }
    }

    /// The longest backward match of at least `least` tokens, the most recent of equals. `tokens` are those of the last `extend`.
    pub(crate) fn find(&self, tokens: &[u32], least: usize) -> Option<Match> {
        if tokens.len() < GRAM {
            return None;
        }
        let mut best: Option<Match> = None;
        let mut place = self.latest.get(&gram(tokens, tokens.len())).copied();
        while let Some(next) = place.filter(|&p| p != NONE).map(|p| p as usize) {
            let len = matching(tokens, next);
            if best.is_none_or(|b| len > b.len) {
                best = Some(Match { len, next });
            }
            if len == LONGEST {
                break;
            }
            place = self.previous.get(next - GRAM).copied();
        }
        best.filter(|b| b.len >= least)
    }
}

/// The `count` tokens that follow a match; where they reach the end they go on with what they copied.
pub(crate) fn continuation(tokens: &[u32], found: Match, count: usize) -> Vec<u32> {
    let period = tokens.len() - found.next;
    (0..count).map(|i| tokens[found.next + i % period]).collect()
}

fn gram(tokens: &[u32], end: usize) -> [u32; GRAM] {
    [tokens[end - 3], tokens[end - 2], tokens[end - 1]]
}

/// How many tokens before `next` equal those at the end.
fn matching(tokens: &[u32], next: usize) -> usize {
    let (earlier, end) = (tokens[..next].iter().rev(), tokens.iter().rev());
    earlier.zip(end).take(LONGEST).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn find(tokens: &[u32], least: usize) -> Option<Match> {
        let mut index = CopyIndex::default();
        index.extend(tokens);
        index.find(tokens, least)
    }

    #[test]
    fn the_longest_match_wins_and_the_latest_of_equals() {
        let tokens = [9, 1, 2, 3, 50, 8, 1, 2, 3, 60, 8, 1, 2, 3, 70, 9, 1, 2, 3];
        assert_eq!(find(&tokens, 3), Some(Match { len: 4, next: 4 }));
        assert_eq!(find(&tokens, 5), None);
        assert_eq!(find(&tokens[..14], 1), Some(Match { len: 4, next: 9 }));
        assert_eq!(find(&[1, 2], 1), None);
        assert_eq!(find(&[1, 2, 3], 1), None);
        let equal = [1, 2, 3, 50, 7, 1, 2, 3, 60, 8, 1, 2, 3];
        assert_eq!(find(&equal, 3), Some(Match { len: 3, next: 8 }));
    }

    #[test]
    fn matches_are_measured_up_to_sixty_four() {
        let tokens: Vec<u32> = (0..100).chain(0..100).collect();
        assert_eq!(find(&tokens, 64), Some(Match { len: 64, next: 100 }));
    }

    #[test]
    fn a_continuation_runs_into_its_own_copy() {
        let tokens = [5, 1, 2, 3, 4, 1, 2, 3];
        let found = find(&tokens, 3).unwrap();
        assert_eq!(continuation(&tokens, found, 7), [4, 1, 2, 3, 4, 1, 2]);
        assert_eq!(continuation(&tokens, found, 2), [4, 1]);
    }

    proptest! {
        #[test]
        fn grown_in_pieces_it_equals_a_scan(
            tokens in prop::collection::vec(0u32..3, 0..160),
            step in 1usize..9,
        ) {
            let mut index = CopyIndex::default();
            for end in (0..=tokens.len()).step_by(step) {
                let tokens = &tokens[..end];
                index.extend(tokens);
                let scan = (GRAM..end)
                    .map(|next| Match { len: matching(tokens, next), next })
                    .filter(|m| m.len >= GRAM)
                    .max_by_key(|m| (m.len, m.next));
                prop_assert_eq!(index.find(tokens, 1), scan);
            }
        }
    }
}
