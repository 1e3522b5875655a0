//! How often the drafter's drafts are kept in whole replies, measured by the engine itself.

use crate::{
    Copies, Event, Finish, LanesConfig, LanesHandle, Observer, ReplyStats, Request, RequestError,
    RoundChoice, SubmitError, WindowCommit,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokenfare_pricing::{Acceptance, Rule};

/// Why a reply could not be measured.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AcceptanceError {
    /// A request was refused.
    #[error("request {request}: {cause}")]
    Refused {
        /// Its place among the requests, from 0.
        request: usize,
        /// Why.
        cause: RequestError,
    },
    /// A request was not taken.
    #[error("request {request}: {cause}")]
    NotTaken {
        /// Its place among the requests, from 0.
        request: usize,
        /// Why.
        cause: SubmitError,
    },
    /// A reply did not come to an end of its own.
    #[error("request {request}: the reply ended early: {words}")]
    Ended {
        /// Its place among the requests, from 0.
        request: usize,
        /// How, in words.
        words: String,
    },
}

/// A reply and what became of its drafts.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredReply {
    /// Counts of its rounds.
    pub counts: Acceptance,
    /// [`ReplyStats::token_sha256`] of all its tokens, those beyond the measured end included.
    pub token_sha256: String,
}

/// One round of a reply.
#[derive(Debug, Clone, PartialEq)]
struct Round {
    /// Tokens of the reply before it, the pending one included.
    before: usize,
    /// Confidence of each verified draft.
    confidences: Vec<f64>,
    /// Tokens committed.
    committed: usize,
}

/// Rounds by request, and the windows of the round in flight.
#[derive(Debug, Default)]
struct Log {
    flight: HashMap<usize, (u64, Vec<f64>)>,
    rounds: HashMap<u64, Vec<Round>>,
}

#[derive(Debug, Clone, Default)]
struct Watch(Arc<Mutex<Log>>);

impl Watch {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Watch {
    fn choose(&mut self, choice: &RoundChoice) {
        let windows = choice.windows.iter().map(|w| {
            let verified = w.depth.min(w.confidence.len());
            (w.slot, (w.request, w.confidence[..verified].to_vec()))
        });
        self.log().flight = windows.collect();
    }

    fn commit(&mut self, commit: &WindowCommit) {
        let mut log = self.log();
        if let Some((request, confidences)) = log.flight.remove(&commit.slot) {
            let before = commit.generated - commit.kept;
            log.rounds.entry(request).or_default().push(Round {
                before,
                confidences,
                committed: commit.kept,
            });
        }
    }
}

/// A measurement on an engine of its own: every round verifies all drafts of the drafter, none is copied.
#[derive(Debug, Default)]
pub struct AcceptanceRun {
    watch: Watch,
    /// Requests so far: they are admitted, and numbered, in the order they came.
    admitted: u64,
}

impl AcceptanceRun {
    /// A measurement of nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// `config` with what this measurement needs: the full depth, no copies, its own observer.
    pub fn configure(&self, mut config: LanesConfig) -> LanesConfig {
        config.depth.rule = Rule::Static { depth: usize::MAX };
        config.depth.plain_streams = 0;
        config.copies = Copies::Off;
        config.oracle = None;
        config.observer = Some(Box::new(self.watch.clone()));
        config
    }

    /// Serves `requests` together and counts the rounds of each reply; replies come in the order of the requests.
    ///
    /// A reply is measured up to its end token or its `max_new`, and is generated a block beyond, so that its last
    /// rounds verify as many drafts as the others; drafts beyond the measured end are not counted. The first round
    /// starts with the first generated token, and the last one before the last measured token. `lanes` must be those
    /// started with [`AcceptanceRun::configure`], and serve nobody else.
    ///
    /// # Errors
    /// A request that is refused or not taken, or a reply that fails.
    pub fn serve(
        &mut self,
        lanes: &LanesHandle,
        requests: Vec<Request>,
    ) -> Result<Vec<MeasuredReply>, AcceptanceError> {
        let mut replies = Vec::with_capacity(requests.len());
        for (i, mut request) in requests.into_iter().enumerate() {
            let measured = request.max_new;
            request.max_new += lanes.info().draft_block;
            let valid = request
                .validate(lanes.info())
                .map_err(|cause| AcceptanceError::Refused { request: i, cause })?;
            let reply =
                lanes.submit(valid).map_err(|cause| AcceptanceError::NotTaken { request: i, cause })?;
            self.admitted += 1;
            replies.push((self.admitted, measured, reply));
        }
        let mut found = Vec::with_capacity(replies.len());
        for (i, (number, measured, mut reply)) in replies.into_iter().enumerate() {
            let mut end = None;
            while let Some(event) = reply.blocking_next() {
                if let Event::Finished { reason, stats, .. } = event {
                    end = Some((reason, *stats));
                }
            }
            let ended = |words: &str| AcceptanceError::Ended { request: i, words: words.to_owned() };
            let stats = match end {
                Some((Finish::Stop | Finish::Text(_) | Finish::Length, stats)) => stats,
                Some((Finish::Failed(words), _)) => return Err(ended(&words)),
                Some((Finish::Cancelled, _)) | None => return Err(ended("cancelled")),
            };
            let rounds = self.watch.log().rounds.remove(&number).unwrap_or_default();
            let counts = count(&rounds, &stats, measured);
            found.push(MeasuredReply { counts, token_sha256: stats.token_sha256 });
        }
        Ok(found)
    }
}

/// Counts the rounds of one reply up to its first `measured` tokens.
fn count(rounds: &[Round], stats: &ReplyStats, measured: usize) -> Acceptance {
    let length = stats.completion_tokens.min(measured);
    let earlier: usize = rounds.iter().rev().skip(1).map(|r| r.committed - 1).sum();
    let mut counts = Acceptance::default();
    for (i, round) in rounds.iter().enumerate().take_while(|(_, r)| r.before < length) {
        // Whether the token that ended a reply was drafted is known from the reply's own count alone.
        let kept = if i + 1 < rounds.len() { round.committed - 1 } else { stats.accepted - earlier };
        let judged = round.confidences.len().min(length - round.before);
        counts.record(&round.confidences[..judged], kept.min(judged));
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(before: usize, committed: usize) -> Round {
        Round { before, confidences: vec![0.5; 3], committed }
    }

    fn counted(rounds: &[Round], completion_tokens: usize, accepted: usize, measured: usize) -> Vec<u64> {
        let stats = ReplyStats { completion_tokens, accepted, ..Default::default() };
        let counts = count(rounds, &stats, measured);
        let mut all = vec![counts.rounds()];
        all.extend((0..3).map(|j| counts.position(j).verified));
        all.extend((0..3).map(|j| counts.position(j).kept));
        all
    }

    #[test]
    fn rounds_end_with_the_reply() {
        // Ten tokens: 1 pending, then 4, 1 and 4.
        let rounds = [round(1, 4), round(5, 1), round(6, 4)];
        assert_eq!(counted(&rounds, 10, 6, 10), [3, 3, 3, 3, 2, 2, 2]);
        assert_eq!(counted(&rounds, 10, 6, 8), [3, 3, 3, 2, 2, 2, 1]);
        assert_eq!(counted(&rounds, 10, 6, 6), [2, 2, 1, 1, 1, 1, 1]);
        assert_eq!(counted(&rounds, 10, 6, 1), [0; 7]);
    }

    #[test]
    fn an_end_token_counts_as_kept_when_it_was_drafted() {
        let rounds = [round(1, 2), round(3, 2)];
        assert_eq!(counted(&rounds, 5, 2, 99), [2, 2, 2, 1, 2, 0, 0]);
        assert_eq!(counted(&rounds, 5, 3, 99), [2, 2, 2, 1, 2, 1, 0]);
    }
}
