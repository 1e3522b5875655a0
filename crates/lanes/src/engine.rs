//! The engine's thread: admits requests, takes turns between prompts and rounds, and ends replies.

use crate::generation::Drawer;
use crate::handle::{Inbox, Mode, Shared};
use crate::pace::{Pace, Turn};
use crate::prompt_cache::PromptCache;
use crate::stream::{Held, Stream};
use crate::{
    Ask, Copies, DepthOracle, Drafter, Drafts, Event, Finish, LanesConfig, Logits, Observer, Proposal,
    Target, TargetError, TargetInfo,
};
use std::sync::{Arc, MutexGuard};
use tokenfare_pricing::{Depth, confidence};

/// Everything that the engine's thread owns.
pub(crate) struct Engine<M> {
    pub(crate) model: M,
    pub(crate) info: TargetInfo,
    pub(crate) shared: Arc<Shared>,
    /// By slot.
    pub(crate) lanes: Vec<Option<Stream>>,
    pub(crate) depth: Depth,
    pub(crate) cache: PromptCache,
    pub(crate) drawer: Drawer,
    pub(crate) logits: Logits,
    /// Whether kept rows become drafter context. Every stream's do, so that kept prompt states serve every later stream.
    pub(crate) ingests: bool,
    pub(crate) copies: Copies,
    pub(crate) lookup_min: usize,
    /// Most rows of a window whose drafts are copied.
    pub(crate) copied_rows: usize,
    pub(crate) oracle: Option<Box<dyn DepthOracle>>,
    pub(crate) observer: Option<Box<dyn Observer>>,
    pub(crate) round: u64,
    /// Windows so far.
    pub(crate) served: u64,
    pace: Pace,
    drafts: bool,
    admitted: u64,
    family: &'static str,
}

/// The model gave fewer or more rows than asked for.
pub(crate) fn short(call: &str, expected: usize, found: usize) -> TargetError {
    TargetError(format!("{call} gave {found} rows, expected {expected}"))
}

impl<M: Target + Drafter> Engine<M> {
    pub(crate) fn new(model: M, config: LanesConfig, shared: Arc<Shared>) -> Self {
        let mut info = model.info().clone();
        info.piece_rows = info.piece_rows.min(config.piece_rows);
        let drafts = config.drafts == Drafts::On && info.draft_block > 0;
        let mut rule = config.depth;
        rule.row_cap = rule.row_cap.min(info.window_rows);
        Self {
            shared,
            lanes: std::iter::repeat_with(|| None).take(info.slots).collect(),
            depth: Depth::new(rule, config.table, info.draft_block),
            cache: PromptCache::new(config.prompt_cache_bytes),
            drawer: Drawer::new(info.vocab),
            logits: Logits::default(),
            ingests: drafts,
            copies: config.copies,
            lookup_min: config.lookup_min,
            copied_rows: rule.copied_rows,
            oracle: config.oracle,
            observer: config.observer,
            round: 0,
            served: 0,
            pace: Pace::new(config.piece_share, info.piece_rows),
            drafts,
            admitted: 0,
            family: config.family,
            model,
            info,
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Serves until the engine is closed and everything is finished.
    pub(crate) fn run(&mut self) {
        while self.admit() {
            self.shared.count_turn();
            self.reap();
            let prompt = self.next_prompt();
            let decoding = self.streams().any(|(_, s)| s.decodes());
            let began = self.shared.clock.now();
            match (self.pace.next(prompt.is_some(), decoding), prompt) {
                (Some(Turn::Piece), Some(slot)) => {
                    let most = if decoding { self.pace.rows() } else { self.info.piece_rows };
                    let rows = self.piece(slot, most);
                    self.pace.piece_took(self.shared.clock.now().saturating_sub(began), rows, decoding);
                }
                (Some(_), _) => {
                    self.run_round();
                    self.pace.round_took(self.shared.clock.now().saturating_sub(began), prompt.is_some());
                }
                (None, _) => {}
            }
        }
        self.log_total();
    }

    /// Moves waiting requests to free lanes, and waits for one when all lanes are free. False once the work is over.
    fn admit(&mut self) -> bool {
        let shared = self.shared.clone();
        let mut inbox = shared.inbox();
        loop {
            self.drop_cancelled(&mut inbox);
            while let Some(slot) = self.lanes.iter().position(Option::is_none)
                && let Some(job) = inbox.queue.pop()
            {
                self.admitted += 1;
                let stream = Stream::admit(job, self.admitted, self.drafts, shared.clock.now());
                shared.stats().prompt_tokens += stream.prompt_len as u64;
                self.depth.admit(slot);
                self.lanes[slot] = Some(stream);
            }
            if self.lanes.iter().any(Option::is_some) {
                break;
            }
            if inbox.mode != Mode::Open {
                return false;
            }
            inbox = shared.wait(inbox);
        }
        shared.stats().running = self.streams().count();
        if inbox.mode == Mode::Stopping {
            drop(inbox);
            self.abandon(&Finish::Cancelled);
        }
        true
    }

    fn drop_cancelled(&mut self, inbox: &mut MutexGuard<'_, Inbox>) {
        let stopping = inbox.mode == Mode::Stopping;
        for job in inbox.queue.remove(|job| stopping || job.client.is_cancelled()) {
            self.shared.stats().count_finish(&Finish::Cancelled);
            job.finish(Finish::Cancelled, self.shared.clock.now());
        }
    }

    pub(crate) fn streams(&self) -> impl Iterator<Item = (usize, &Stream)> {
        self.lanes.iter().enumerate().filter_map(|(slot, s)| s.as_ref().map(|s| (slot, s)))
    }

    pub(crate) fn stream(&mut self, slot: usize) -> &mut Stream {
        self.lanes[slot].as_mut().expect("the lane is occupied")
    }

    /// The lane whose prompt is fed next: the one admitted first.
    fn next_prompt(&self) -> Option<usize> {
        let waiting = self.streams().filter(|(_, s)| !s.decodes());
        waiting.min_by_key(|(_, s)| s.number).map(|(slot, _)| slot)
    }

    /// Ends the replies whose clients went away or cancelled.
    fn reap(&mut self) {
        for slot in 0..self.lanes.len() {
            if self.lanes[slot].as_ref().is_some_and(|s| s.client.is_cancelled()) {
                self.finish(slot, Finish::Cancelled);
            }
        }
    }

    /// Offers the state of the first `len` positions of `slot` to the prompt cache.
    pub(crate) fn keep_state(&mut self, slot: usize, len: usize) {
        let stream = self.lanes[slot].as_ref().expect("the lane is occupied");
        let tokens = &stream.history[..len];
        if self.cache.touch(tokens) {
            return;
        }
        match self.model.save(slot, len) {
            Ok(state) => {
                let bytes = state.bytes.len();
                let done = self.cache.insert(tokens, state);
                tracing::info!(
                    request = stream.number,
                    tokens = len,
                    bytes,
                    kept = done.kept,
                    evicted = done.evicted,
                    "prompt {}: {} {len} tokens in {bytes} bytes, evicted {}, {} states in {} bytes",
                    stream.number,
                    if done.kept { "kept" } else { "had no room for" },
                    done.evicted,
                    self.cache.len(),
                    self.cache.bytes(),
                );
            }
            Err(error) => tracing::warn!("prompt {}: {len} tokens were not kept: {error}", stream.number),
        }
    }

    /// Runs one drafter pass for the streams of `slots` that have a use for drafts.
    pub(crate) fn ask(&mut self, slots: &[usize]) -> Result<(), TargetError> {
        let live = self.streams().filter(|(_, s)| s.decodes()).count();
        if !self.depth.drafts_wanted(live) {
            return Ok(());
        }
        let lanes = &self.lanes;
        let wanting: Vec<(usize, &Stream)> = slots
            .iter()
            .filter_map(|&slot| lanes[slot].as_ref().map(|s| (slot, s)))
            .filter(|(_, s)| s.wants_drafts())
            .collect();
        if wanting.is_empty() {
            return Ok(());
        }
        let asks: Vec<Ask<'_>> = wanting
            .iter()
            .map(|&(slot, s)| Ask {
                slot,
                position: s.cache_len(),
                token: s.pending(),
                sampling: &s.generation.sampling,
            })
            .collect();
        let proposals = self.model.propose(&asks)?;
        if proposals.len() != asks.len() {
            return Err(short("propose", asks.len(), proposals.len()));
        }
        let slots: Vec<usize> = wanting.iter().map(|&(slot, _)| slot).collect();
        for (slot, proposal) in slots.into_iter().zip(proposals) {
            let held = self.hold(proposal)?;
            self.stream(slot).held = held;
        }
        Ok(())
    }

    fn hold(&self, proposal: Proposal) -> Result<Held, TargetError> {
        let Proposal { tokens, confidence: logits } = proposal;
        let outside = tokens.iter().find(|&&id| id as usize >= self.info.vocab);
        if let Some(id) = outside {
            return Err(TargetError(format!(
                "propose gave the draft {id}, outside the vocabulary of {}",
                self.info.vocab
            )));
        }
        if tokens.len() != logits.len() {
            return Err(TargetError(format!(
                "propose gave {} drafts with {} confidences",
                tokens.len(),
                logits.len()
            )));
        }
        let confidence = logits.into_iter().map(confidence).collect();
        Ok(Held { tokens, confidence })
    }

    /// Ends the reply in `slot` and makes the lane as new.
    pub(crate) fn finish(&mut self, slot: usize, reason: Finish) {
        if self.stream(slot).worth_keeping(&reason) && self.cache.is_on() {
            let len = self.stream(slot).cache_len();
            self.keep_state(slot, len);
        }
        self.model.release(slot);
        self.model.reset(slot);
        if let Some(stream) = self.lanes[slot].take() {
            self.deliver_end(stream, slot, reason);
        }
    }

    /// Ends every reply without another call of the model.
    pub(crate) fn abandon(&mut self, reason: &Finish) {
        for slot in 0..self.lanes.len() {
            if let Some(stream) = self.lanes[slot].take() {
                self.deliver_end(stream, slot, reason.clone());
            }
        }
    }

    fn deliver_end(&mut self, mut stream: Stream, slot: usize, reason: Finish) {
        self.depth.release(slot);
        if let Some(id) = stream.resumed {
            self.cache.release(id);
        }
        let stats = stream.stats(self.shared.clock.now());
        tracing::info!(
            request = stream.number,
            prompt_tokens = stats.prompt_tokens,
            cached_tokens = stats.cached_tokens,
            completion_tokens = stats.completion_tokens,
            rounds = stats.rounds,
            accepted = stats.accepted,
            drafted = stats.drafted,
            zero_depth = stats.zero_depth,
            queue_s = stats.queue_s,
            prefill_s = stats.prefill_s,
            decode_s = stats.decode_s,
            "request {}: {} prompt tokens ({} cached), {} tokens, {} drafts: {} rounds, {} accepted of {} drafted, {} zero-depth",
            stream.number,
            stats.prompt_tokens,
            stats.cached_tokens,
            stats.completion_tokens,
            self.family,
            stats.rounds,
            stats.accepted,
            stats.drafted,
            stats.zero_depth,
        );
        {
            let running = self.streams().count();
            let mut totals = self.shared.stats();
            totals.count_finish(&reason);
            totals.running = running;
            totals.cache_entries = self.cache.len();
            totals.cache_bytes = self.cache.bytes();
        }
        if let Some(observer) = &mut self.observer {
            observer.finish(stream.number, &stats);
        }
        let pieces = stream.generation.finish();
        stream.client.send(Event::Finished { pieces, reason, stats: Box::new(stats) });
    }

    fn log_total(&self) {
        let totals = self.shared.stats();
        tracing::info!(
            rounds = totals.rounds,
            accepted = totals.accepted,
            drafted = totals.drafted,
            zero_depth = totals.zero_depth,
            "{} drafts: {} rounds, {} accepted of {} drafted, {} zero-depth",
            self.family,
            totals.rounds,
            totals.accepted,
            totals.drafted,
            totals.zero_depth,
        );
    }
}
