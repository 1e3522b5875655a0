//! Text of a small vocabulary, with stop strings, reasoning and a grammar.

use crate::{Channel, Piece, Step, Text, TextEnd};

/// A rule that depends on all tokens so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grammar {
    /// A token may come next when its id plus the number of tokens so far is not divisible by this.
    pub modulus: u32,
    /// Tokens after which the grammar is complete.
    pub len: usize,
}

impl Grammar {
    fn allows(self, token: u32, count: usize) -> bool {
        !(token as usize + count).is_multiple_of(self.modulus as usize)
    }
}

/// Token `t` reads as a letter (a-z over and over), so that any string of letters can be a stop string across tokens.
#[derive(Debug, Clone, Default)]
pub struct Words {
    /// Strings that end the reply.
    stops: Vec<String>,
    /// Tokens that begin and end the reasoning; without text.
    think: Option<(u32, u32)>,
    /// Whether the reply begins inside the reasoning.
    reasoning: bool,
    /// Bounds what may come.
    grammar: Option<Grammar>,
    count: usize,
    /// Letters that may be part of a stop string.
    held: String,
}

impl Words {
    /// Text without any rule.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends at any of `stops`.
    pub fn with_stops(stops: &[&str]) -> Self {
        Self { stops: stops.iter().map(|&s| s.to_owned()).collect(), ..Self::default() }
    }

    /// Begins inside the reasoning; `open` and `close` begin and end it.
    pub fn thinking(open: u32, close: u32) -> Self {
        Self { think: Some((open, close)), reasoning: true, ..Self::default() }
    }

    /// Bound by a grammar.
    pub fn bound(grammar: Grammar) -> Self {
        Self { grammar: Some(grammar), ..Self::default() }
    }

    /// The letter of a token.
    pub fn letter(token: u32) -> char {
        char::from(b'a' + (token % 26) as u8)
    }

    fn channel(&self) -> Channel {
        if self.reasoning { Channel::Reasoning } else { Channel::Content }
    }

    fn release(&mut self, len: usize) -> Vec<Piece> {
        let text: String = self.held.drain(..len).collect();
        if text.is_empty() { Vec::new() } else { vec![Piece { channel: self.channel(), text }] }
    }

    /// Length of the longest end of what is held that a stop string begins with.
    fn partial(&self) -> usize {
        let ends = (0..=self.held.len()).map(|i| &self.held[i..]);
        ends.filter(|end| self.stops.iter().any(|stop| stop.starts_with(end)))
            .map(str::len)
            .max()
            .unwrap_or(0)
    }
}

impl Text for Words {
    fn push(&mut self, token: u32, silent: bool) -> Step {
        self.count += 1;
        if silent {
            return Step::default();
        }
        let mut step = Step::default();
        match self.think {
            Some((open, _)) if token == open => {
                step.pieces = self.finish();
                self.reasoning = true;
            }
            Some((_, close)) if token == close => {
                step.pieces = self.finish();
                self.reasoning = false;
            }
            _ => {
                self.held.push(Self::letter(token));
                let found =
                    self.stops.iter().filter_map(|s| self.held.find(s.as_str()).map(|at| (at, s.clone())));
                if let Some((at, stop)) = found.min() {
                    step.pieces = self.release(at);
                    self.held.clear();
                    step.end = Some(TextEnd::StopString(stop));
                } else {
                    step.pieces = self.release(self.held.len() - self.partial());
                }
            }
        }
        if step.end.is_none() && self.grammar.is_some_and(|g| self.count == g.len) {
            step.end = Some(TextEnd::Grammar);
        }
        step
    }

    fn finish(&mut self) -> Vec<Piece> {
        self.release(self.held.len())
    }

    fn reasoning(&self) -> bool {
        self.reasoning
    }

    fn mask(&mut self, allowed: &mut [u32]) -> bool {
        let Some(grammar) = self.grammar else { return false };
        for (word, bits) in (0u32..).zip(allowed) {
            for bit in 0..32 {
                if !grammar.allows(word * 32 + bit, self.count) {
                    *bits &= !(1 << bit);
                }
            }
        }
        true
    }

    fn admits(&mut self, drafts: &[u32]) -> usize {
        let Some(grammar) = self.grammar else { return drafts.len() };
        drafts
            .iter()
            .zip(self.count..)
            .take_while(|&(&id, count)| count < grammar.len && grammar.allows(id, count))
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &mut Words, tokens: &[u32]) -> (String, Option<TextEnd>) {
        let mut out = String::new();
        for &token in tokens {
            let step = text.push(token, false);
            out.extend(step.pieces.into_iter().map(|p| p.text));
            if step.end.is_some() {
                return (out, step.end);
            }
        }
        out.extend(text.finish().into_iter().map(|p| p.text));
        (out, None)
    }

    #[test]
    fn stop_strings_are_cut_out_whole() {
        let mut text = Words::with_stops(&["cde", "dx"]);
        assert_eq!(read(&mut text, &[0, 2, 3, 4, 5]), ("a".into(), Some(TextEnd::StopString("cde".into()))));
        assert_eq!(read(&mut Words::with_stops(&["cde"]), &[0, 2, 3]), ("acd".into(), None));
    }

    #[test]
    fn grammars_mask_and_admit_alike() {
        let mut text = Words::bound(Grammar { modulus: 3, len: 2 });
        let mut allowed = [u32::MAX];
        assert!(text.mask(&mut allowed));
        assert_eq!(allowed[0] & 0b111_111, 0b110_110);
        assert_eq!(text.admits(&[1, 1]), 2);
        assert_eq!(text.admits(&[1, 2]), 1);
        assert_eq!(text.admits(&[3]), 0);
        assert_eq!(read(&mut text, &[1, 1, 1]).1, Some(TextEnd::Grammar));
    }
}
