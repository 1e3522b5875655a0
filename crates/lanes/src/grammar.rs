//! Which tokens may come next: grammars that bound a reply.

/// A grammar that cannot go on: it became too complex, or a token came that it does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the grammar failed: {0}")]
pub struct GrammarError(pub String);

/// The state of a grammar inside one reply.
///
/// What it allows depends on the tokens accepted so far and on nothing else, so that it is the same token by token and
/// in rounds of several tokens.
pub trait Grammar: Send {
    /// Clears `allowed` bits (token `t` is bit `t % 32` of word `t / 32`) of tokens that cannot come next.
    ///
    /// # Errors
    /// The state became too complex.
    fn mask(&mut self, allowed: &mut [u32]) -> Result<(), GrammarError>;

    /// Moves past `token`.
    ///
    /// # Errors
    /// A token that the mask forbids, or a state that became too complex.
    fn accept(&mut self, token: u32) -> Result<(), GrammarError>;

    /// How many of `drafts`, from the first, could come next in this order. Leaves the state unchanged.
    fn admits(&mut self, drafts: &[u32]) -> usize;

    /// Whether nothing can follow.
    fn is_complete(&self) -> bool;

    /// A grammar in the same state that shares no memory with this one.
    fn fork(&self) -> Box<dyn Grammar>;
}
