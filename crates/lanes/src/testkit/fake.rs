//! A model whose logits hash the whole history.

use super::{Call, Fault, Probe};
use crate::{
    Ask, Drafter, Ingest, Logits, Proposal, Sampler, SavedState, Segment, Target, TargetError, TargetInfo,
    Want,
};

/// A pull towards the token that stood `period` places earlier, so that copies are worth trying.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Repeat {
    /// Places back.
    pub period: usize,
    /// Added to that token's logit; the other logits lie in -4..4.
    pub strength: f32,
}

/// Shape and habits of a fake model.
#[derive(Debug, Clone, PartialEq)]
pub struct FakeConfig {
    /// Limits.
    pub info: TargetInfo,
    /// How many drafts of a proposal are right, proposal after proposal, over and over; the draft after them is wrong.
    pub right: Vec<usize>,
    /// Whether earlier tokens come back.
    pub repeat: Option<Repeat>,
}

impl Default for FakeConfig {
    /// Eight lanes, 40 tokens, five drafts that are right on every schedule.
    fn default() -> Self {
        Self {
            info: TargetInfo {
                slots: 8,
                context: 4096,
                window_rows: 64,
                piece_rows: 16,
                vocab: 40,
                draft_block: 5,
                launch_bound: 16,
            },
            right: vec![5, 0, 3, 1, 4, 2],
            repeat: None,
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Slot {
    tokens: Vec<u32>,
    /// Positions declared to stay.
    kept: usize,
    /// Positions in the drafter's context.
    context: usize,
    /// Whether a dry window was thrown away: until the slot is wiped, nothing but calibration may use it.
    dry: bool,
}

/// A row of the last `prefill` or `window` call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    slot: usize,
    position: usize,
}

/// A target and drafter that computes nothing but hashes. A row's logits depend on every token up to it, so any slip
/// of position, order or rollback changes them; every breach of the contract is an error and is recorded.
pub struct FakeModel {
    config: FakeConfig,
    probe: Probe,
    slots: Vec<Slot>,
    last: Vec<Row>,
    proposals: usize,
    sampler: Sampler,
}

fn mix(seed: u64, value: u64) -> u64 {
    crate::sampling::key(seed, value, 0)
}

fn history_hash(tokens: &[u32]) -> u64 {
    tokens.iter().fold(1, |hash, &id| mix(hash, id.into()))
}

impl FakeModel {
    /// A model with nothing in its slots, and the probe that watches it.
    pub fn new(config: FakeConfig) -> (Self, Probe) {
        let probe = Probe::default();
        let slots = vec![Slot::default(); config.info.slots];
        let sampler = Sampler::new();
        let model = Self { config, probe: probe.clone(), slots, last: Vec::new(), proposals: 0, sampler };
        (model, probe)
    }

    /// The logits after `tokens`.
    fn logits(&self, tokens: &[u32]) -> Vec<f32> {
        let hash = history_hash(tokens);
        let value = |id| (mix(hash, id) >> 40) as f32 / (1u64 << 21) as f32 - 4.0;
        let mut logits: Vec<f32> = (0..self.config.info.vocab as u64).map(value).collect();
        if let Some(repeat) = self.config.repeat
            && let Some(place) = tokens.len().checked_sub(repeat.period)
            && let Some(&id) = tokens.get(place)
        {
            logits[id as usize] += repeat.strength;
        }
        logits
    }

    fn begin(&self, call: Call) -> Result<(), TargetError> {
        match self.probe.enter(call) {
            None => Ok(()),
            Some(Fault::Error) => Err(TargetError(format!("{call:?} fails on schedule"))),
            Some(Fault::Panic) => panic!("{call:?} panics on schedule"),
        }
    }

    fn check(&self, holds: bool, words: impl Fn() -> String) -> Result<(), TargetError> {
        if holds {
            return Ok(());
        }
        self.probe.violation(words());
        Err(TargetError(words()))
    }

    fn report_occupied(&self) {
        self.probe.set_occupied(self.slots.iter().filter(|s| !s.tokens.is_empty() || s.context > 0).count());
    }

    fn feed(&mut self, slot: usize, start: usize, tokens: &[u32]) -> Result<(), TargetError> {
        let info = &self.config.info;
        self.check(slot < info.slots, || format!("slot {slot} of {}", info.slots))?;
        let kept = self.slots[slot].kept;
        self.check(!tokens.is_empty(), || format!("slot {slot}: no tokens"))?;
        self.check(start == kept, || format!("slot {slot}: fed at {start}, but {kept} positions are kept"))?;
        self.check(start + tokens.len() <= info.context, || format!("slot {slot}: past the context"))?;
        self.check(tokens.iter().all(|&id| (id as usize) < info.vocab), || {
            format!("slot {slot}: a token outside the vocabulary in {tokens:?}")
        })?;
        let state = &mut self.slots[slot];
        state.tokens.truncate(start);
        state.tokens.extend_from_slice(tokens);
        self.last.extend((start..start + tokens.len()).map(|position| Row { slot, position }));
        self.probe.fed(tokens.len());
        self.report_occupied();
        Ok(())
    }

    fn push_rows(&self, slot: usize, positions: std::ops::Range<usize>, logits: &mut Logits) {
        for position in positions {
            logits.values.extend(self.logits(&self.slots[slot].tokens[..=position]));
        }
    }

    fn propose_one(&mut self, ask: &Ask<'_>) -> Result<Proposal, TargetError> {
        let Slot { tokens, kept, context, dry } = &self.slots[ask.slot];
        let at = ask.position;
        self.check(*context == at && (*dry || *kept == at), || {
            format!("slot {}: asked at {at} with {context} positions of context, {kept} kept", ask.slot)
        })?;
        let mut history = tokens[..at.min(tokens.len())].to_vec();
        history.push(ask.token);
        let right = self.config.right[self.proposals % self.config.right.len()];
        self.proposals += 1;
        let mut proposal = Proposal::default();
        for j in 0..self.config.info.draft_block {
            let logits = self.logits(&history);
            let id = self.sampler.draw(&logits, ask.sampling, at + 1 + j, None);
            let id = if j < right { id } else { (id + 1) % self.config.info.vocab as u32 };
            proposal.tokens.push(id);
            // Some confidence in either case, so that priced depths vary.
            proposal.confidence.push(if j < right { 2.5 } else { -0.5 });
            history.push(id);
        }
        Ok(proposal)
    }
}

impl Target for FakeModel {
    fn info(&self) -> &TargetInfo {
        &self.config.info
    }

    fn prefill(
        &mut self,
        slot: usize,
        start: usize,
        tokens: &[u32],
        want: Want,
        logits: &mut Logits,
    ) -> Result<(), TargetError> {
        self.begin(Call::Prefill)?;
        let most = self.config.info.piece_rows;
        self.check(tokens.len() <= most, || format!("a piece of {} rows, at most {most}", tokens.len()))?;
        let dry = self.slots.get(slot).is_some_and(|slot| slot.dry);
        self.check(!dry, || format!("slot {slot}: a prompt after a dry window"))?;
        self.last.clear();
        self.feed(slot, start, tokens)?;
        logits.vocab = self.config.info.vocab;
        logits.values.clear();
        let end = start + tokens.len();
        match want {
            Want::Nothing => {}
            Want::Last => self.push_rows(slot, end - 1..end, logits),
            Want::All => self.push_rows(slot, start..end, logits),
        }
        Ok(())
    }

    fn window(&mut self, segments: &[Segment<'_>], logits: &mut Logits) -> Result<(), TargetError> {
        self.begin(Call::Window)?;
        let rows: usize = segments.iter().map(|s| s.tokens.len()).sum();
        let most = self.config.info.window_rows;
        self.check((1..=most).contains(&rows), || format!("a window of {rows} rows, at most {most}"))?;
        let mut slots: Vec<usize> = segments.iter().map(|s| s.slot).collect();
        slots.sort_unstable();
        slots.dedup();
        self.check(slots.len() == segments.len(), || "two segments of one slot".to_owned())?;
        self.last.clear();
        logits.vocab = self.config.info.vocab;
        logits.values.clear();
        for segment in segments {
            self.check(segment.start > 0, || "a window before any prompt".to_owned())?;
            self.feed(segment.slot, segment.start, segment.tokens)?;
            self.push_rows(segment.slot, segment.start..segment.start + segment.tokens.len(), logits);
        }
        Ok(())
    }

    fn keep(&mut self, slot: usize, len: usize) {
        let Slot { tokens, kept, dry, .. } = &mut self.slots[slot];
        if !*dry && (*kept..=tokens.len()).contains(&len) {
            tokens.truncate(len);
            *kept = len;
        } else {
            let words = format!("slot {slot}: keep {len} of {} positions, {kept} kept before", tokens.len());
            self.probe.violation(words);
        }
    }

    fn release(&mut self, slot: usize) {
        if self.slots[slot].dry {
            self.probe.violation(format!("slot {slot}: released after a dry window, not wiped"));
        }
        self.slots[slot] = Slot::default();
        self.report_occupied();
    }

    fn save(&mut self, slot: usize, len: usize) -> Result<SavedState, TargetError> {
        self.begin(Call::Save)?;
        let Slot { tokens, kept, context, dry } = &self.slots[slot];
        self.check(!dry, || format!("slot {slot}: saved after a dry window"))?;
        self.check(*kept == len, || format!("slot {slot}: save {len} of {kept} kept positions"))?;
        // A drafter that was never given context has none to keep.
        self.check(*context == len || *context == 0, || {
            format!("slot {slot}: save {len} with {context} positions of context")
        })?;
        let words = std::iter::once(*context as u32).chain(tokens.iter().copied());
        Ok(SavedState { len, bytes: words.flat_map(u32::to_le_bytes).collect() })
    }

    fn restore(&mut self, slot: usize, state: &SavedState) -> Result<(), TargetError> {
        // A failed restore leaves rubbish, as a real one may.
        let rubbish = Slot { tokens: vec![0], kept: 1, context: 1, dry: false };
        self.begin(Call::Restore).inspect_err(|_| self.slots[slot] = rubbish)?;
        self.check(self.slots[slot].tokens.is_empty(), || format!("slot {slot}: restored over a stream"))?;
        let (words, _) = state.bytes.as_chunks::<4>();
        let mut words = words.iter().map(|w| u32::from_le_bytes(*w));
        let context = words.next().unwrap_or(0) as usize;
        self.slots[slot] = Slot { tokens: words.collect(), kept: state.len, context, dry: false };
        self.report_occupied();
        Ok(())
    }

    fn state_hash(&mut self, slot: usize) -> Result<u64, TargetError> {
        let Slot { tokens, kept, context, dry } = &self.slots[slot];
        Ok([*kept as u64, *context as u64, u64::from(*dry)].into_iter().fold(history_hash(tokens), mix))
    }

    fn enter(&mut self) {
        self.probe.calibration_begins();
    }

    fn leave(&mut self) {
        if self.slots.iter().any(|slot| slot.dry) {
            self.probe.violation("a calibration left a slot that is not wiped".to_owned());
        }
        self.probe.calibration_ends();
    }

    fn prepare(&mut self, rows: usize) -> Result<(), TargetError> {
        let most = self.config.info.window_rows;
        self.check((1..=most).contains(&rows), || format!("a window of {rows} rows prepared, at most {most}"))
    }

    fn drop_window(&mut self, slot: usize, len: usize) {
        if !self.probe.calibrates() {
            self.probe.violation(format!("slot {slot}: a window is dropped outside calibration"));
        }
        let Slot { tokens, kept, context, dry } = &mut self.slots[slot];
        tokens.truncate(len);
        (*kept, *context, *dry) = ((*kept).min(len), (*context).min(len), true);
    }

    fn wipe(&mut self, slot: usize) {
        self.slots[slot] = Slot::default();
        self.last.clear();
        self.report_occupied();
    }
}

impl Drafter for FakeModel {
    fn ingest(&mut self, items: &[Ingest]) -> Result<(), TargetError> {
        self.begin(Call::Ingest)?;
        for item in items {
            let Ingest { slot, start, row, count } = *item;
            let Slot { kept, context, dry, .. } = self.slots[slot];
            self.check(start == context && (dry || start + count <= kept), || {
                format!("{item:?} onto {context} positions of context, {kept} kept")
            })?;
            let rows = self.last.get(row..row + count);
            let right =
                |rows: &[Row]| rows.iter().zip(start..).all(|(row, position)| *row == Row { slot, position });
            self.check(rows.is_some_and(right), || format!("{item:?} is not of the last call"))?;
            self.slots[slot].context = start + count;
        }
        Ok(())
    }

    fn propose(&mut self, asks: &[Ask<'_>]) -> Result<Vec<Proposal>, TargetError> {
        self.begin(Call::Propose)?;
        self.check(!asks.is_empty(), || "a pass for no stream".to_owned())?;
        asks.iter().map(|ask| self.propose_one(ask)).collect()
    }

    fn reset(&mut self, slot: usize) {
        self.slots[slot].context = 0;
        self.report_occupied();
    }
}
