//! A reply as a list of blocks, for protocols of output items or content blocks.

use tokenfare_lanes::{Event, Piece, ReplyStats};

use crate::ApiError;
use crate::admission::Reply;
use crate::reply::{EndReason, Events, ReplyEvent, unfinished};

/// What a block holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Reasoning.
    Reasoning,
    /// The answer.
    Content,
    /// A tool call, whose text is its arguments.
    Call {
        /// Its id, unique among replies.
        id: String,
        /// The tool, with its namespace as the model writes it.
        name: String,
    },
}

/// Neighbouring parts of a reply that are of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// What it holds.
    pub kind: Kind,
    /// Its text so far.
    pub text: String,
    /// Whether it came to its own end: a call by its closing tag, text unless no more tokens were allowed.
    pub complete: bool,
}

/// A change to the block of a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It begins.
    Open(usize),
    /// It has more text.
    More(usize, String),
    /// It is over.
    Close(usize),
}

/// Follows one reply.
#[derive(Debug, Default)]
pub struct Blocks {
    events: Events,
    list: Vec<Block>,
    /// Whether the last block is not over.
    open: bool,
    end: Option<(EndReason, ReplyStats)>,
}

impl Blocks {
    /// The blocks of a reply whose calls have ids that begin with `stem`.
    pub fn new(stem: String) -> Self {
        Self { events: Events::new(stem), ..Self::default() }
    }

    /// The blocks of a whole reply, the only one of `replies`; one that failed is an error.
    pub(crate) async fn of(replies: Vec<Reply>, stem: String) -> Result<Self, ApiError> {
        let mut blocks = Self::new(stem);
        for mut reply in replies {
            while let Some(event) = reply.next().await {
                blocks.take(&event)?;
            }
        }
        Ok(blocks)
    }

    /// What an event changes; the end of a reply that failed is an error.
    pub fn take(&mut self, event: &Event) -> Result<Vec<Change>, ApiError> {
        let mut changes = Vec::new();
        match event {
            Event::Prefilled { .. } => {}
            Event::Tokens(tokens) => {
                let pieces = tokens.iter().flat_map(|token| &token.pieces);
                pieces.for_each(|piece| self.piece(piece, &mut changes));
            }
            Event::Finished { pieces, reason, stats } => {
                pieces.iter().for_each(|piece| self.piece(piece, &mut changes));
                let reason = self.events.end(reason)?;
                self.close(reason != EndReason::Length, &mut changes);
                self.end = Some((reason, (**stats).clone()));
            }
        }
        Ok(changes)
    }

    /// The blocks so far.
    pub fn list(&self) -> &[Block] {
        &self.list
    }

    /// The end of a complete reply.
    pub fn end(&self) -> Result<(&EndReason, &ReplyStats), ApiError> {
        self.end.as_ref().map(|(reason, stats)| (reason, stats)).ok_or_else(unfinished)
    }

    fn piece(&mut self, piece: &Piece, changes: &mut Vec<Change>) {
        match self.events.piece(piece.clone()) {
            ReplyEvent::Reasoning(text) => self.text(Kind::Reasoning, text, changes),
            ReplyEvent::Content(text) => self.text(Kind::Content, text, changes),
            ReplyEvent::CallStart { id, name, .. } => self.begin(Kind::Call { id, name }, changes),
            ReplyEvent::Arguments { json, .. } => self.more(json, changes),
            ReplyEvent::CallEnd { .. } => {
                if let Some(call) = self.list.last_mut().filter(|_| self.open) {
                    call.complete = true;
                }
                self.close(true, changes);
            }
        }
    }

    fn text(&mut self, kind: Kind, text: String, changes: &mut Vec<Change>) {
        if text.is_empty() {
            return;
        }
        if !self.open || self.list.last().is_none_or(|last| last.kind != kind) {
            self.begin(kind, changes);
        }
        self.more(text, changes);
    }

    fn begin(&mut self, kind: Kind, changes: &mut Vec<Change>) {
        self.close(true, changes);
        changes.push(Change::Open(self.list.len()));
        self.list.push(Block { kind, text: String::new(), complete: false });
        self.open = true;
    }

    fn more(&mut self, text: String, changes: &mut Vec<Change>) {
        let place = self.list.len().saturating_sub(1);
        if let Some(last) = self.list.last_mut().filter(|_| self.open && !text.is_empty()) {
            last.text.push_str(&text);
            changes.push(Change::More(place, text));
        }
    }

    /// Ends the last block. A call is complete by its closing tag alone.
    fn close(&mut self, complete: bool, changes: &mut Vec<Change>) {
        let place = self.list.len().saturating_sub(1);
        if let Some(last) = self.list.last_mut().filter(|_| self.open) {
            last.complete |= complete && !matches!(last.kind, Kind::Call { .. });
            changes.push(Change::Close(place));
        }
        self.open = false;
    }
}

#[cfg(test)]
mod tests {
    use tokenfare_lanes::{Channel, Finish, TokenEvent};

    use super::*;

    fn text(channel: Channel, text: &str) -> Piece {
        Piece::Text { channel, text: text.to_owned() }
    }

    fn tokens(pieces: Vec<Piece>) -> Event {
        Event::Tokens(vec![TokenEvent { id: 0, pieces, logprob: None }])
    }

    fn finished(reason: Finish) -> Event {
        Event::Finished { pieces: vec![], reason, stats: Box::default() }
    }

    fn states(blocks: &Blocks) -> Vec<(&str, bool)> {
        blocks.list().iter().map(|b| (b.text.as_str(), b.complete)).collect()
    }

    #[test]
    fn neighbouring_text_of_one_kind_is_one_block() {
        let mut blocks = Blocks::new("a".to_owned());
        let (reasoning, content) = (Channel::Reasoning, Channel::Content);
        let pieces = vec![text(reasoning, "x"), text(reasoning, "y"), text(content, ""), text(content, "z")];
        let changes = blocks.take(&tokens(pieces)).unwrap();
        let more = |place, text: &str| Change::More(place, text.to_owned());
        let opened =
            [Change::Open(0), more(0, "x"), more(0, "y"), Change::Close(0), Change::Open(1), more(1, "z")];
        assert_eq!(changes, opened);
        assert!(blocks.end().is_err());
        assert_eq!(blocks.take(&finished(Finish::Stop)).unwrap(), [Change::Close(1)]);
        assert_eq!(states(&blocks), [("xy", true), ("z", true)]);
        assert_eq!(blocks.end().unwrap().0, &EndReason::Stop);
    }

    #[test]
    fn a_call_is_complete_by_its_closing_tag_alone() {
        let mut blocks = Blocks::new("a".to_owned());
        let call = |name: &str| Piece::Call(name.to_owned());
        let arguments = |json: &str| Piece::Arguments(json.to_owned());
        let pieces = vec![call("f"), arguments("{}"), Piece::CallEnd, call("g"), arguments("{"), call("h")];
        blocks.take(&tokens(pieces)).unwrap();
        assert_eq!(blocks.take(&finished(Finish::Stop)).unwrap(), [Change::Close(2)]);
        assert_eq!(states(&blocks), [("{}", true), ("{", false), ("", false)]);
        let id =
            |block: &Block| if let Kind::Call { id, .. } = &block.kind { id.clone() } else { String::new() };
        assert_eq!(blocks.list().iter().map(id).collect::<Vec<_>>(), ["call_a_0", "call_a_1", "call_a_2"]);
    }

    #[test]
    fn text_that_is_cut_is_not_complete_and_a_failure_is_an_error() {
        let mut blocks = Blocks::new("a".to_owned());
        blocks.take(&tokens(vec![text(Channel::Content, "x")])).unwrap();
        blocks.take(&finished(Finish::Length)).unwrap();
        assert_eq!(states(&blocks), [("x", false)]);
        let failed = Blocks::default().take(&finished(Finish::Failed("why".into())));
        assert_eq!(failed.unwrap_err().message, "why");
    }
}
