//! Text of a small vocabulary, with stop strings, reasoning, tool calls and a grammar.

use crate::{Channel, GrammarError, Piece, Step, Text, TextEnd};

/// A rule that depends on all tokens of the answer so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// A token may come next when its id plus the number of tokens so far is not divisible by this.
    pub modulus: u32,
    /// Tokens after which the grammar is complete.
    pub len: usize,
    /// Tokens after which the grammar fails, if it does.
    pub fails_at: Option<usize>,
}

impl Bound {
    /// A rule that ends after `len` tokens.
    pub fn new(modulus: u32, len: usize) -> Self {
        Self { modulus, len, fails_at: None }
    }

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
    /// Tokens that begin and end a tool call; letters between them are its arguments.
    call: Option<(u32, u32)>,
    in_call: bool,
    /// Bounds what may come after the reasoning.
    rule: Option<Bound>,
    /// Tokens of the answer.
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

    /// `open` and `close` begin and end a tool call.
    pub fn calling(open: u32, close: u32) -> Self {
        Self { call: Some((open, close)), ..Self::default() }
    }

    /// `open` and `close` begin and end a tool call too.
    pub fn and_calling(self, open: u32, close: u32) -> Self {
        Self { call: Some((open, close)), ..self }
    }

    /// Bound by a rule.
    pub fn bound(rule: Bound) -> Self {
        Self { rule: Some(rule), ..Self::default() }
    }

    /// Bound by a rule from the end of the reasoning on.
    pub fn and_bound(self, rule: Bound) -> Self {
        Self { rule: Some(rule), ..self }
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
        if text.is_empty() { Vec::new() } else { vec![Piece::Text { channel: self.channel(), text }] }
    }

    /// Length of the longest end of what is held that a stop string begins with.
    fn partial(&self) -> usize {
        let ends = (0..=self.held.len()).map(|i| &self.held[i..]);
        ends.filter(|end| self.stops.iter().any(|stop| stop.starts_with(end)))
            .map(str::len)
            .max()
            .unwrap_or(0)
    }

    fn letters(&mut self, token: u32) -> Step {
        self.held.push(Self::letter(token));
        let found = self.stops.iter().filter_map(|s| self.held.find(s.as_str()).map(|at| (at, s.clone())));
        if let Some((at, stop)) = found.min() {
            let pieces = self.release(at);
            self.held.clear();
            return Step { pieces, end: Some(TextEnd::StopString(stop)) };
        }
        Step { pieces: self.release(self.held.len() - self.partial()), end: None }
    }

    fn call_step(&mut self, token: u32) -> Option<Vec<Piece>> {
        let (open, close) = self.call?;
        let mut pieces = self.finish();
        if self.in_call && token == close {
            self.in_call = false;
            pieces.push(Piece::CallEnd);
        } else if self.in_call {
            pieces.push(Piece::Arguments(Self::letter(token).to_string()));
        } else if token == open {
            self.in_call = true;
            pieces.push(Piece::Call("f".to_owned()));
        } else {
            return None;
        }
        Some(pieces)
    }
}

impl Text for Words {
    fn push(&mut self, token: u32, silent: bool) -> Step {
        let answers = !self.reasoning;
        self.count += usize::from(answers);
        if silent {
            return Step::default();
        }
        let mut step = match self.think {
            Some((open, _)) if token == open => {
                let pieces = self.finish();
                self.reasoning = true;
                Step { pieces, end: None }
            }
            Some((_, close)) if token == close => {
                let pieces = self.finish();
                self.reasoning = false;
                Step { pieces, end: None }
            }
            _ => match self.call_step(token) {
                Some(pieces) => Step { pieces, end: None },
                None => self.letters(token),
            },
        };
        if answers && step.end.is_none() && self.rule.is_some_and(|rule| self.count == rule.len) {
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

    fn mask(&mut self, allowed: &mut [u32]) -> Result<bool, GrammarError> {
        let Some(rule) = self.rule.filter(|_| !self.reasoning) else { return Ok(false) };
        if rule.fails_at == Some(self.count) {
            return Err(GrammarError(format!("no rule after {} tokens", self.count)));
        }
        for (word, bits) in (0u32..).zip(allowed) {
            for bit in 0..32 {
                if !rule.allows(word * 32 + bit, self.count) {
                    *bits &= !(1 << bit);
                }
            }
        }
        Ok(true)
    }

    fn admits(&mut self, drafts: &[u32]) -> usize {
        let Some(rule) = self.rule else { return drafts.len() };
        let (mut reasoning, mut count) = (self.reasoning, self.count);
        let admitted = drafts.iter().take_while(|&&id| {
            if reasoning {
                reasoning = self.think.is_none_or(|(_, close)| id != close);
                return true;
            }
            let fits = count < rule.len && rule.allows(id, count);
            count += 1;
            reasoning = self.think.is_some_and(|(open, _)| id == open);
            fits
        });
        admitted.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(piece: Piece) -> String {
        match piece {
            Piece::Text { text, .. } => text,
            other => format!("{other:?}"),
        }
    }

    fn read(text: &mut Words, tokens: &[u32]) -> (String, Option<TextEnd>) {
        let mut out = String::new();
        for &token in tokens {
            let step = text.push(token, false);
            out.extend(step.pieces.into_iter().map(shown));
            if step.end.is_some() {
                return (out, step.end);
            }
        }
        out.extend(text.finish().into_iter().map(shown));
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
        let mut text = Words::bound(Bound::new(3, 2));
        let mut allowed = [u32::MAX];
        assert_eq!(text.mask(&mut allowed), Ok(true));
        assert_eq!(allowed[0] & 0b111_111, 0b110_110);
        assert_eq!(text.admits(&[1, 1]), 2);
        assert_eq!(text.admits(&[1, 2]), 1);
        assert_eq!(text.admits(&[3]), 0);
        assert_eq!(read(&mut text, &[1, 1, 1]).1, Some(TextEnd::Grammar));
    }

    #[test]
    fn a_rule_waits_for_the_end_of_the_reasoning() {
        let mut text = Words::thinking(8, 9).and_bound(Bound::new(3, 3));
        assert_eq!(text.mask(&mut [u32::MAX]), Ok(false));
        assert_eq!(text.admits(&[0, 3, 9, 1, 2]), 4);
        assert_eq!(read(&mut text, &[0, 3, 9, 1, 2, 5, 7]).1, Some(TextEnd::Grammar));
    }

    #[test]
    fn a_call_is_told_from_its_text() {
        let mut text = Words::calling(8, 9);
        let pieces: Vec<Piece> = [0, 8, 1, 9].iter().flat_map(|&t| text.push(t, false).pieces).collect();
        let arguments = Piece::Arguments("b".into());
        assert_eq!(pieces, [Piece::content("a"), Piece::Call("f".into()), arguments, Piece::CallEnd]);
    }
}
