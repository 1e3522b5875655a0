//! The words of the format that tool calls are written in.

/// The mark that opens a tag; one of [`CALLS`], [`INVOKE`] and [`ARGUMENT`] follows. Up to two line breaks before it
/// belong to it.
pub(super) const OPEN: &str = "<｜DSML｜";
/// The mark that closes a tag; one of [`CALLS`], [`INVOKE_END`] and [`ARGUMENT_END`] follows.
pub(super) const CLOSE: &str = "</｜DSML｜";
/// All calls, after either mark.
pub(super) const CALLS: &str = " calls>";
/// A call; its name and [`NAME_END`] follow.
pub(super) const INVOKE: &str = " invoke name=\"";
/// The end of a call.
pub(super) const INVOKE_END: &str = " invoke>";
/// An argument; its name, [`KIND`], its kind, [`NAME_END`] and its value follow.
pub(super) const ARGUMENT: &str = " parameter name=\"";
/// The end of an argument.
pub(super) const ARGUMENT_END: &str = " parameter>";
/// Between the name of an argument and its kind: `true` for a string, `false` for JSON.
pub(super) const KIND: &str = "\" string=\"";
/// Closes an opening tag.
pub(super) const NAME_END: &str = "\">";
