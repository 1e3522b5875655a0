//! What lanes need of a model: a target that computes logits at positions, and a drafter beside it.

use crate::Sampling;
use std::time::Duration;

/// Limits of a loaded model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetInfo {
    /// Lanes that can hold a stream at once.
    pub slots: usize,
    /// Most positions of one stream.
    pub context: usize,
    /// Most rows of one `window` call, all segments together.
    pub window_rows: usize,
    /// Most tokens of one `prefill` call.
    pub piece_rows: usize,
    /// Vocabulary size: logits a row.
    pub vocab: usize,
    /// Drafts of one drafter pass; 0 when there is no drafter.
    pub draft_block: usize,
    /// Rows beyond which one launch becomes dearer by a step (pricing).
    pub launch_bound: usize,
}

/// An error of the model under a lane. It fails the request or round it happened in, not the server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TargetError(pub String);

/// Logits on the host, one row after another. The memory is reused from call to call.
#[derive(Debug, Clone, Default)]
pub struct Logits {
    /// Values a row.
    pub vocab: usize,
    /// `[rows, vocab]`.
    pub values: Vec<f32>,
}

impl Logits {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.vocab).unwrap_or(0)
    }

    /// Row `r`.
    pub fn row(&self, r: usize) -> &[f32] {
        &self.values[r * self.vocab..(r + 1) * self.vocab]
    }
}

/// Which logits of a prompt piece are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// None: more of the prompt follows.
    Nothing,
    /// Those of the last token.
    Last,
    /// Those of every token.
    All,
}

/// One stream's rows in a shared window: `tokens[0]` is the pending token at position `start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment<'a> {
    /// The lane.
    pub slot: usize,
    /// Position of the first token; all earlier positions are kept.
    pub start: usize,
    /// The pending token and its drafts.
    pub tokens: &'a [u32],
}

/// A kept state of the first `len` positions of some stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedState {
    /// Positions.
    pub len: usize,
    /// The model's own form, drafter context included.
    pub bytes: Vec<u8>,
}

/// The model that is served.
///
/// State is addressed by position: feeding tokens at `start` overwrites whatever stood at `start` and beyond, so
/// a rejected draft costs nothing to take back. A row's logits depend on the tokens at positions up to its own
/// and on nothing else.
pub trait Target: Send + 'static {
    /// Limits.
    fn info(&self) -> &TargetInfo;

    /// Feeds prompt tokens at positions `start..`; replaces `logits` by the rows wanted.
    fn prefill(
        &mut self,
        slot: usize,
        start: usize,
        tokens: &[u32],
        want: Want,
        logits: &mut Logits,
    ) -> Result<(), TargetError>;

    /// Feeds one window a segment (slots distinct), and replaces `logits` by one row a token, segment after segment.
    fn window(&mut self, segments: &[Segment<'_>], logits: &mut Logits) -> Result<(), TargetError>;

    /// How long the last `window` call waited for its logits and copied them: a part of that call's time. Zero where it is not told apart.
    fn read_back(&self) -> Duration {
        Duration::ZERO
    }

    /// Declares that positions `0..len` of `slot` stay; what was fed beyond is forgotten. Costs no forward work.
    fn keep(&mut self, slot: usize, len: usize);

    /// Forgets a slot's stream, drafter context included.
    fn release(&mut self, slot: usize);

    /// Copies the state of the first `len` positions, where `len` is what `keep` declared last.
    fn save(&mut self, slot: usize, len: usize) -> Result<SavedState, TargetError>;

    /// Makes `slot` hold `state`. After an error the slot must be released.
    fn restore(&mut self, slot: usize, state: &SavedState) -> Result<(), TargetError>;

    /// A hash of everything later positions of `slot` can depend on. For tests and for checking that nothing was left behind.
    fn state_hash(&mut self, slot: usize) -> Result<u64, TargetError>;

    /// A calibration begins: whatever watches or profiles launches is paused until [`Target::leave`]. One `enter` is
    /// followed by one `leave`, whatever happens between them.
    fn enter(&mut self);

    /// The calibration is over: what [`Target::enter`] paused goes on.
    fn leave(&mut self);

    /// Makes ready what the first window of `rows` rows would have to make ready, such as a recorded program, so that
    /// its time is that of every later one. No forward work, no change of state.
    fn prepare(&mut self, rows: usize) -> Result<(), TargetError>;

    /// Throws a dry window away: positions from `len` on are forgotten, in the drafter's context too. For calibration
    /// alone. Rows of the last call can still be ingested, and drafts asked for after them. It does not rewind the
    /// compressor carry, so [`Target::wipe`] must follow before the slot serves a stream.
    fn drop_window(&mut self, slot: usize, len: usize);

    /// Clears every field of a slot, exactly as in a model just made, a staged prompt piece included: no row of the
    /// last call can be ingested any more. The slot's [`Target::state_hash`] is that of one never used.
    fn wipe(&mut self, slot: usize);
}

/// Rows of the last `prefill` or `window` call whose taps become drafter context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ingest {
    /// The lane.
    pub slot: usize,
    /// Position of the first row.
    pub start: usize,
    /// Number of that row in the last call.
    pub row: usize,
    /// Number of rows.
    pub count: usize,
}

/// A stream that wants drafts.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The lane; its drafter context holds every position before `position`.
    pub slot: usize,
    /// Position of `token`; draft `j` is drawn for position `position + 1 + j`.
    pub position: usize,
    /// The pending token.
    pub token: u32,
    /// How the reply's tokens are drawn: drafts are drawn with the same keys.
    pub sampling: &'a Sampling,
}

/// What a drafter proposes for one ask.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Proposal {
    /// Drafts in order.
    pub tokens: Vec<u32>,
    /// Confidence logit of each draft, conditional on all drafts before it.
    pub confidence: Vec<f32>,
}

/// A drafter that shares the target's lanes.
pub trait Drafter {
    /// Adds context from rows of the last `prefill` or `window` call; called before the next one.
    fn ingest(&mut self, items: &[Ingest]) -> Result<(), TargetError>;

    /// Proposes `draft_block` drafts for each ask, in order.
    fn propose(&mut self, asks: &[Ask<'_>]) -> Result<Vec<Proposal>, TargetError>;

    /// Forgets a slot's context.
    fn reset(&mut self, slot: usize);
}
