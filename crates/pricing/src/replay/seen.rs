//! What a logged round tells of the drafts of one window.

use crate::Source;
use crate::log::{LoggedAsk, LoggedCommit};

/// The fate of a window's drafts, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// Drafts, from the first, that were compared with the target's tokens.
    pub known: usize,
    /// Those of them that were kept, from the first on.
    pub kept: usize,
    /// Tokens committed.
    tokens: usize,
    finished: bool,
}

/// Tokens that a depth commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tokens {
    /// The log tells.
    Known(usize),
    /// At least these; drafts from this position on decide about more.
    From(usize),
}

impl Seen {
    pub fn new(ask: &LoggedAsk, commit: &LoggedCommit) -> Self {
        let (mut known, mut kept) = (ask.k, commit.accepted);
        if let (Some(hit), Source::Drafter) = (commit.beyond, ask.kind)
            && kept == known
            && known < ask.conf.len()
        {
            known += 1;
            kept += usize::from(hit);
        }
        Self { known, kept, tokens: commit.keep, finished: commit.finished }
    }

    /// Tokens that the window commits with its first `depth` drafts.
    pub fn tokens(&self, depth: usize) -> Tokens {
        if self.finished {
            Tokens::Known((depth + 1).min(self.tokens))
        } else if depth <= self.known || self.kept < self.known {
            Tokens::Known(depth.min(self.kept) + 1)
        } else {
            Tokens::From(self.known + 1)
        }
    }

    /// Whether the reply ends with an accepted draft before the last of `depth`, so that those after it are never judged.
    pub fn is_cut(&self, depth: usize) -> bool {
        self.finished && depth.min(self.kept) >= self.tokens && self.tokens < depth
    }

    /// Positions whose drafts were judged, each with whether its draft was kept.
    pub fn judged(&self) -> impl Iterator<Item = (usize, bool)> {
        let kept = self.kept;
        let cut = self.is_cut(self.known);
        let last = if kept < self.known && !cut { kept + 1 } else { kept };
        (0..last).map(move |j| (j, j < kept))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::SamplingClass;
    use rstest::rstest;

    pub fn ask(k: usize, conf: &[f64]) -> LoggedAsk {
        LoggedAsk {
            slot: 0,
            req: 1,
            class: SamplingClass::Greedy,
            kind: Source::Drafter,
            start: 9,
            most: conf.len(),
            k,
            explored: false,
            matched: 0,
            lambda: 0.05,
            conf: conf.to_vec(),
            q: conf.to_vec(),
        }
    }

    pub fn commit(k: usize, accepted: usize, beyond: Option<bool>) -> LoggedCommit {
        LoggedCommit {
            r: 1,
            t: 0.0,
            slot: 0,
            rows: k + 1,
            keep: accepted + 1,
            drafted: k,
            accepted,
            beyond,
            finished: false,
            generated: 5,
            max_new: 99,
        }
    }

    const CONF: [f64; 5] = [0.9, 0.8, 0.7, 0.6, 0.5];

    #[rstest]
    #[case::rejected(3, 1, None, [1, 2, 2, 2, 2, 2], &[true, false])]
    #[case::kept_but_no_more(3, 3, Some(false), [1, 2, 3, 4, 4, 4], &[true, true, true, false])]
    #[case::skipped_and_wrong(0, 0, Some(false), [1; 6], &[false])]
    #[case::all_kept(5, 5, None, [1, 2, 3, 4, 5, 6], &[true; 5])]
    fn depths_that_the_log_tells_about(
        #[case] k: usize,
        #[case] accepted: usize,
        #[case] beyond: Option<bool>,
        #[case] tokens: [usize; 6],
        #[case] judged: &[bool],
    ) {
        let seen = Seen::new(&ask(k, &CONF), &commit(k, accepted, beyond));
        for (depth, tokens) in tokens.into_iter().enumerate() {
            assert_eq!(seen.tokens(depth), Tokens::Known(tokens), "depth {depth}");
        }
        assert_eq!(seen.judged().map(|j| j.1).collect::<Vec<_>>(), judged);
    }

    #[rstest]
    #[case::all_kept(2, 2, None, 3)]
    #[case::and_one_more(2, 2, Some(true), 4)]
    #[case::skipped_and_right(0, 0, Some(true), 2)]
    fn depths_beyond_what_the_log_tells(
        #[case] k: usize,
        #[case] accepted: usize,
        #[case] beyond: Option<bool>,
        #[case] least: usize,
    ) {
        let seen = Seen::new(&ask(k, &CONF), &commit(k, accepted, beyond));
        assert_eq!(seen.tokens(least - 1), Tokens::Known(least));
        assert_eq!(seen.tokens(5), Tokens::From(least));
    }

    #[test]
    fn a_reply_that_ends_earns_no_more() {
        let ended = LoggedCommit { finished: true, keep: 2, ..commit(4, 2, None) };
        let seen = Seen::new(&ask(4, &CONF), &ended);
        assert_eq!([0, 1, 2, 5].map(|k| seen.tokens(k)), [1, 2, 2, 2].map(Tokens::Known));
        assert_eq!([1, 2, 3, 4].map(|k| seen.is_cut(k)), [false, false, true, true]);
        assert_eq!(seen.judged().collect::<Vec<_>>(), [(0, true), (1, true)]);
        let missed = Seen::new(&ask(4, &CONF), &LoggedCommit { finished: true, ..commit(4, 2, None) });
        assert!(!missed.is_cut(4));
        assert_eq!(missed.judged().last(), Some((2, false)));
    }
}
