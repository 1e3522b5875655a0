//! A request in a lane.

use crate::copies::CopyIndex;
use crate::generation::Generation;
use crate::handle::{Client, Job};
use crate::prefill::Feed;
use crate::prompt_cache::EntryId;
use crate::{Finish, FirstToken, ReplyStats, RoundTimes, SamplingClass};
use std::time::Duration;
use tokenfare_pricing::Source;

/// What a stream waits for.
pub(crate) enum Phase {
    /// Its prompt to be fed.
    Prompt(Feed),
    /// Its next round.
    Rounds,
}

/// Drafts of the last drafter pass, for the positions after the pending token.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) tokens: Vec<u32>,
    /// Confidence of each, as a probability.
    pub(crate) confidence: Vec<f64>,
}

/// A request in a lane. Once its prompt is fed, all of `history` but the last token, the pending one, is in the model.
pub(crate) struct Stream {
    /// In order of admission.
    pub(crate) number: u64,
    pub(crate) client: Client,
    pub(crate) generation: Generation,
    /// Whether its rounds may verify drafts.
    pub(crate) drafts: bool,
    /// Prompt and reply.
    pub(crate) history: Vec<u32>,
    pub(crate) prompt_len: usize,
    pub(crate) phase: Phase,
    pub(crate) held: Held,
    pub(crate) copies: CopyIndex,
    /// The kept prompt state it resumed from.
    pub(crate) resumed: Option<EntryId>,
    /// Its place in the order of service: the count of windows up to its last one.
    pub(crate) last_served: u64,
    pub(crate) counts: Counts,
    pub(crate) times: Times,
}

/// Counts of one reply that its generation does not keep.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) cached: usize,
    pub(crate) rounds: usize,
    pub(crate) drafted: usize,
    pub(crate) accepted: usize,
    pub(crate) copied: (usize, usize),
    pub(crate) zero_depth: usize,
}

/// Moments of one reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) arrived: Duration,
    pub(crate) admitted: Duration,
    pub(crate) first_token: Option<Duration>,
    pub(crate) last_token: Option<Duration>,
    pub(crate) rounds: RoundTimes,
}

impl Stream {
    pub(crate) fn admit(job: Job, number: u64, drafts: bool, now: Duration) -> Self {
        let Job { request, client, arrived } = job;
        let request = request.into_inner();
        let generation = Generation::new(
            request.sampling,
            request.max_new,
            request.stop_tokens,
            request.thinking,
            request.report.logprobs,
            request.text,
        );
        Self {
            number,
            client,
            generation,
            drafts: drafts && request.draft,
            prompt_len: request.prompt.len(),
            history: request.prompt,
            phase: Phase::Prompt(Feed::new(request.marks, request.report.prompt_logprobs)),
            held: Held::default(),
            copies: CopyIndex::default(),
            resumed: None,
            last_served: 0,
            counts: Counts::default(),
            times: Times {
                arrived,
                admitted: now,
                first_token: None,
                last_token: None,
                rounds: RoundTimes::default(),
            },
        }
    }

    pub(crate) fn decodes(&self) -> bool {
        matches!(self.phase, Phase::Rounds)
    }

    /// Position of the pending token: the number of tokens in the model.
    pub(crate) fn cache_len(&self) -> usize {
        self.history.len() - 1
    }

    /// The token decided but not yet fed.
    pub(crate) fn pending(&self) -> u32 {
        *self.history.last().expect("a stream has a prompt")
    }

    /// Whether the next round has a use for drafts.
    pub(crate) fn wants_drafts(&self) -> bool {
        self.drafts && self.generation.room() > 1 && self.generation.forced().is_none()
    }

    pub(crate) fn class(&self) -> SamplingClass {
        match self.generation.sampling.temperature {
            _ if self.generation.masked() => SamplingClass::Grammar,
            0.0 => SamplingClass::Greedy,
            t if t <= 0.5 => SamplingClass::Cool,
            _ => SamplingClass::Warm,
        }
    }

    /// Notes that tokens came out now.
    pub(crate) fn delivered(&mut self, now: Duration) {
        self.times.first_token.get_or_insert(now);
        self.times.last_token = Some(now);
    }

    /// Its first token, drawn at `at`.
    pub(crate) fn first(&self, slot: usize, at: Duration) -> FirstToken {
        let Times { arrived, admitted, .. } = self.times;
        FirstToken { at, slot, queue: admitted.saturating_sub(arrived), prefill: at.saturating_sub(admitted) }
    }

    /// Counts a round that verified `drafted` drafts of `source`.
    pub(crate) fn count_round(&mut self, source: Source, drafted: usize, accepted: usize) {
        let counts = &mut self.counts;
        counts.rounds += 1;
        counts.drafted += drafted;
        counts.accepted += accepted;
        counts.zero_depth += usize::from(drafted == 0);
        if source == Source::Copy {
            counts.copied.0 += drafted;
            counts.copied.1 += accepted;
        }
    }

    /// The reply's counts and times, as of its end at `now`.
    pub(crate) fn stats(&self, now: Duration) -> ReplyStats {
        let Times { arrived, admitted, first_token, last_token, rounds } = self.times;
        let first = first_token.unwrap_or(now);
        let seconds = |from: Duration, to: Duration| to.saturating_sub(from).as_secs_f64();
        ReplyStats {
            prompt_tokens: self.prompt_len,
            cached_tokens: self.counts.cached,
            completion_tokens: self.generation.count(),
            reasoning_tokens: self.generation.reasoning_count(),
            seed: self.generation.sampling.seed,
            rounds: self.counts.rounds,
            drafted: self.counts.drafted,
            accepted: self.counts.accepted,
            copied: self.counts.copied,
            zero_depth: self.counts.zero_depth,
            queue_s: seconds(arrived, admitted),
            prefill_s: seconds(admitted, first),
            decode_s: seconds(first, last_token.unwrap_or(first)),
            round_s: rounds.total().as_secs_f64(),
            round_times: rounds,
            token_sha256: self.generation.token_sha256(),
        }
    }

    /// Whether the state at the reply's end is one that a next turn would resume.
    pub(crate) fn worth_keeping(&self, reason: &Finish) -> bool {
        self.generation.count() > 0 && matches!(reason, Finish::Stop | Finish::Text(_) | Finish::Length)
    }
}
