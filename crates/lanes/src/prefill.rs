//! Feeding prompts, piece by piece.

use crate::engine::{Engine, short};
use crate::prompt_cache::Lookup;
use crate::sampling::LogSoftmax;
use crate::stream::Phase;
use crate::{Drafter, Event, Finish, Ingest, Target, TargetError, TokenLogprob, Want};

/// Least distance between two kept states of one prompt.
const MARK_DISTANCE: usize = 256;

/// A state is kept when at least this many tokens are new: fewer cost less to feed again than the launch that the extra cut takes.
const LEAST_NEW: usize = 16;

/// Most rows of a piece whose logits are all read.
const REPORTED_ROWS: usize = 64;

/// How far a prompt is fed and where it is cut.
#[derive(Debug)]
pub(crate) struct Feed {
    /// Prompt tokens in the model; `None` before kept states were looked up.
    fed: Option<usize>,
    /// Lengths at which the state is kept, ascending.
    marks: Vec<usize>,
    /// Alternatives to report beside each prompt token, if wanted.
    top: Option<usize>,
    logprobs: Vec<TokenLogprob>,
}

impl Feed {
    pub(crate) fn new(marks: Vec<usize>, prompt_logprobs: Option<usize>) -> Self {
        Self { fed: None, marks, top: prompt_logprobs, logprobs: Vec::new() }
    }

    /// Begins at `resumed` tokens with the marks that are worth keeping of a prompt of `len` tokens.
    fn start(&mut self, resumed: usize, len: usize) {
        self.fed = Some(resumed);
        // The longest mark serves most of a later prompt, so marks are chosen from the end.
        let mut next = usize::MAX;
        self.marks.reverse();
        self.marks.retain(|&mark| {
            let keep = mark >= resumed + LEAST_NEW && next - mark >= MARK_DISTANCE;
            next = if keep { mark } else { next };
            keep
        });
        self.marks.reverse();
        // The last token must be fed for its logits, so an equal prompt resumes just before it.
        let end = len - 1;
        if end >= self.marks.last().copied().unwrap_or(resumed) + LEAST_NEW {
            self.marks.push(end);
        }
    }

    /// End of the piece that begins at `fed`.
    fn cut(&self, fed: usize, len: usize, piece_rows: usize) -> usize {
        let rows = if self.top.is_some() { piece_rows.min(REPORTED_ROWS) } else { piece_rows };
        let mark = self.marks.iter().copied().find(|&mark| mark > fed);
        len.min(fed + rows.max(1)).min(mark.unwrap_or(len))
    }

    fn is_mark(&self, end: usize) -> bool {
        self.marks.binary_search(&end).is_ok()
    }
}

impl<M: Target + Drafter> Engine<M> {
    /// Feeds the next piece of the prompt in `slot`, of at most `most` rows, and gives its rows; an error fails that request alone.
    pub(crate) fn piece(&mut self, slot: usize, most: usize) -> usize {
        let begun = self.resume(slot);
        begun.and_then(|fed| self.feed(slot, fed, most)).unwrap_or_else(|error| {
            self.finish(slot, Finish::Failed(error.0));
            0
        })
    }

    /// Prompt tokens already in the model. Before the first piece, the longest kept state is looked up and restored.
    fn resume(&mut self, slot: usize) -> Result<usize, TargetError> {
        let stream = self.lanes[slot].as_mut().expect("a prompt is fed in an occupied lane");
        let Phase::Prompt(feed) = &mut stream.phase else {
            unreachable!("a prompt is fed once");
        };
        if let Some(fed) = feed.fed {
            return Ok(fed);
        }
        let prompt = &stream.history[..stream.prompt_len];
        let mut resumed = 0;
        // Log-probabilities of a prompt need every row of it.
        let looks_up = self.cache.is_on() && feed.top.is_none();
        if looks_up {
            match self.cache.lookup(prompt) {
                Lookup::Miss(shared) => tracing::info!(
                    request = stream.number,
                    prompt_tokens = prompt.len(),
                    resumed = 0,
                    diverged_at = shared,
                    "prompt {}: {} tokens, resumed 0, the best of {} kept states diverges at token {shared}",
                    stream.number,
                    prompt.len(),
                    self.cache.len(),
                ),
                Lookup::Hit(id, len) => {
                    let state = self.cache.acquire(id).expect("an entry just found is there");
                    match self.model.restore(slot, state) {
                        Ok(()) => {
                            resumed = len;
                            stream.resumed = Some(id);
                            tracing::info!(
                                request = stream.number,
                                prompt_tokens = prompt.len(),
                                resumed = len,
                                "prompt {}: {} tokens, resumed {len}",
                                stream.number,
                                prompt.len()
                            );
                        }
                        Err(error) => {
                            self.cache.remove(id);
                            self.model.release(slot);
                            tracing::warn!(
                                "prompt {}: {} tokens, resumed 0, a kept state of {len} tokens was dropped: {error}",
                                stream.number,
                                prompt.len(),
                            );
                        }
                    }
                }
            }
        }
        stream.counts.cached = resumed;
        feed.start(resumed, prompt.len());
        if !self.cache.is_on() {
            feed.marks.clear();
        }
        let mut stats = self.shared.stats();
        stats.cached_tokens += resumed as u64;
        stats.cache_hits += u64::from(resumed > 0);
        stats.cache_misses += u64::from(looks_up && resumed == 0);
        Ok(resumed)
    }

    fn feed(&mut self, slot: usize, fed: usize, most: usize) -> Result<usize, TargetError> {
        let stream = self.lanes[slot].as_mut().expect("a prompt is fed in an occupied lane");
        let Phase::Prompt(feed) = &mut stream.phase else {
            unreachable!("a prompt is fed once");
        };
        let len = stream.prompt_len;
        let end = feed.cut(fed, len, most);
        let want = match feed.top {
            Some(_) => Want::All,
            None if end == len && stream.generation.max_new > 0 => Want::Last,
            None => Want::Nothing,
        };
        self.model.prefill(slot, fed, &stream.history[fed..end], want, &mut self.logits)?;
        let rows = match want {
            Want::Nothing => 0,
            Want::Last => 1,
            Want::All => end - fed,
        };
        if want != Want::Nothing && self.logits.rows() != rows {
            return Err(short("prefill", rows, self.logits.rows()));
        }
        if let Some(top) = feed.top {
            let next = &stream.history[fed + 1..len.min(end + 1)];
            let report = |(r, &id)| LogSoftmax::new(self.logits.row(r)).report(id, top);
            feed.logprobs.extend(next.iter().enumerate().map(report));
        }
        feed.fed = Some(end);
        let keep = feed.is_mark(end);
        self.model.keep(slot, end);
        if self.ingests {
            self.model.ingest(&[Ingest { slot, start: fed, row: 0, count: end - fed }])?;
        }
        if stream.drafts {
            stream.copies.extend(&stream.history[..end]);
        }
        if keep {
            self.keep_state(slot, end);
        }
        if end == len {
            self.begin(slot)?;
        }
        Ok(end - fed)
    }

    /// The prompt is in: reports it, draws the first token and asks for the first drafts.
    fn begin(&mut self, slot: usize) -> Result<(), TargetError> {
        let now = self.shared.clock.now();
        let stream = self.lanes[slot].as_mut().expect("a prompt is fed in an occupied lane");
        let Phase::Prompt(feed) = std::mem::replace(&mut stream.phase, Phase::Rounds) else {
            unreachable!("a prompt is fed once");
        };
        let prompt_logprobs = feed.top.map(|_| feed.logprobs);
        stream.client.send(Event::Prefilled { cached: stream.counts.cached, prompt_logprobs });
        if stream.generation.max_new == 0 {
            self.finish(slot, Finish::Length);
            return Ok(());
        }
        let row = self.logits.row(self.logits.rows() - 1);
        let choice = stream.generation.choose(row, stream.prompt_len, &mut self.drawer);
        let id = choice.map_err(|e| TargetError(e.to_string()))?;
        let (token, finish) = stream.generation.commit(id, row);
        stream.history.push(id);
        stream.delivered(now);
        let first = stream.first(slot, now);
        stream.client.send(Event::Tokens(vec![token]));
        self.shared.stats().completion_tokens += 1;
        if let Some(observer) = &mut self.observer {
            observer.first_token(&first);
        }
        match finish {
            Some(reason) => self.finish(slot, reason),
            None => self.ask(&[slot])?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(mut feed: Feed, resumed: usize, len: usize, rows: usize) -> (Vec<usize>, Vec<usize>) {
        feed.start(resumed, len);
        let mut ends = vec![resumed];
        while let Some(&fed) = ends.last().filter(|&&fed| fed < len) {
            ends.push(feed.cut(fed, len, rows));
        }
        (ends, feed.marks)
    }

    #[test]
    fn pieces_end_at_marks() {
        let (ends, marks) = pieces(Feed::new(vec![300], None), 0, 600, 200);
        assert_eq!(marks, [300, 599]);
        assert_eq!(ends, [0, 200, 300, 500, 599, 600]);
    }

    #[test]
    fn marks_stand_apart_and_past_what_was_resumed() {
        let (_, marks) = pieces(Feed::new(vec![10, 100, 266, 300, 522], None), 0, 530, 64);
        assert_eq!(marks, [266, 522]);
        let (ends, marks) = pieces(Feed::new(vec![10, 100, 300], None), 100, 310, 512);
        assert_eq!((ends, marks), (vec![100, 300, 310], vec![300]));
        let (ends, marks) = pieces(Feed::new(vec![], None), 300, 316, 512);
        assert_eq!((ends, marks), (vec![300, 316], vec![]));
        let (_, marks) = pieces(Feed::new(vec![5, 20], None), 0, 40, 512);
        assert_eq!(marks, [20, 39]);
    }

    #[test]
    fn reported_rows_are_read_in_short_pieces() {
        let (ends, _) = pieces(Feed::new(vec![], Some(0)), 0, 140, 512);
        assert_eq!(ends, [0, 64, 128, 139, 140]);
        let (ends, _) = pieces(Feed::new(vec![], Some(0)), 0, 3, 1);
        assert_eq!(ends, [0, 1, 2, 3]);
    }
}
