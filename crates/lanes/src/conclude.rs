//! What a verified window commits.

use crate::generation::{Drawer, Generation};
use crate::{Clock, Finish, TokenEvent};
use std::time::Duration;

/// The outcome of one stream's window.
#[derive(Debug)]
pub(crate) struct Conclusion {
    /// Committed tokens; none only if the reply failed at its first.
    pub(crate) tokens: Vec<TokenEvent>,
    /// Tokens of the window after the pending one that equalled the target's choices.
    pub(crate) accepted: usize,
    /// Why the reply ends with the last token, if it does.
    pub(crate) finish: Option<Finish>,
    /// Time spent drawing.
    pub(crate) drawing: Duration,
}

impl Conclusion {
    /// Whether the reply ended before the target had judged every token of a window of `rows` rows that it would have reached.
    pub(crate) fn is_cut(&self, rows: usize) -> bool {
        self.finish.is_some() && self.accepted == self.tokens.len() && self.accepted + 1 < rows
    }
}

/// Follows `window` (the pending token, then drafts) as long as each draft equals the target's choice at the row before
/// it, and ends where serial decoding would end. `row(r)` gives the logits of row `r`, `position` is that of the
/// pending token. Only rows on the accepted path are drawn. A token that cannot be decided fails the reply after those
/// before it, as it would serially.
pub(crate) fn conclude<'a>(
    generation: &mut Generation,
    window: &[u32],
    position: usize,
    row: impl Fn(usize) -> &'a [f32],
    drawer: &mut Drawer,
    clock: &dyn Clock,
) -> Conclusion {
    let tokens = Vec::with_capacity(window.len());
    let mut done = Conclusion { tokens, accepted: 0, finish: None, drawing: Duration::ZERO };
    for r in 0..window.len() {
        let began = clock.now();
        let chosen = generation.choose(row(r), position + r + 1, drawer);
        done.drawing += clock.now().saturating_sub(began);
        let id = match chosen {
            Ok(id) => id,
            Err(error) => {
                done.finish = Some(Finish::Failed(error.to_string()));
                break;
            }
        };
        let (token, finish) = generation.commit(id, row(r));
        done.tokens.push(token);
        done.finish = finish;
        let matches = window.get(r + 1) == Some(&id);
        done.accepted += usize::from(matches);
        if done.finish.is_some() || !matches {
            break;
        }
    }
    done
}
