//! The typed events of a streamed response.

use serde_json::{Value, json};
use tokenfare_lanes::{Event, ReplyStats};

use super::Keeper;
use super::output::{Frame, part};
use crate::ApiError;
use crate::blocks::{Blocks, Change, Kind};
use crate::stream::{Line, Writer};

/// Writes one response's events.
pub(super) struct ResponseEvents {
    frame: Frame,
    keeper: Option<Keeper>,
    blocks: Blocks,
    /// Events written.
    written: u64,
}

impl ResponseEvents {
    pub(super) fn new(frame: Frame, keeper: Option<Keeper>) -> Self {
        let blocks = Blocks::new(frame.stem.clone());
        Self { frame, keeper, blocks, written: 0 }
    }

    fn line(&mut self, name: &'static str, mut data: Value) -> Line {
        data["type"] = json!(name);
        data["sequence_number"] = json!(self.written);
        self.written += 1;
        Line::named(name, &data)
    }

    fn change(&mut self, change: Change) -> Vec<Line> {
        let (Change::Open(place) | Change::More(place, _) | Change::Close(place)) = change;
        let block = self.blocks.list()[place].clone();
        let id = self.frame.item_id(place, &block.kind);
        let at = json!({"item_id": id, "output_index": place});
        // A part's events tell its place in the item too.
        let in_part = |field: &str, value: Value| {
            let mut data = at.clone();
            data["content_index"] = json!(0);
            data[field] = value;
            data
        };
        match (change, &block.kind) {
            (Change::Open(_), kind) => {
                let item = self.frame.item(place, &block, "in_progress");
                let mut lines = vec![
                    self.line("response.output_item.added", json!({"output_index": place, "item": item})),
                ];
                if !matches!(kind, Kind::Call { .. }) {
                    lines.push(self.line("response.content_part.added", in_part("part", part(kind, ""))));
                }
                lines
            }
            (Change::More(_, text), Kind::Reasoning) => {
                vec![self.line("response.reasoning_text.delta", in_part("delta", json!(text)))]
            }
            (Change::More(_, text), Kind::Content) => {
                let mut data = in_part("delta", json!(text));
                data["logprobs"] = json!([]);
                vec![self.line("response.output_text.delta", data)]
            }
            (Change::More(_, text), Kind::Call { .. }) => {
                let mut data = at;
                data["delta"] = json!(text);
                vec![self.line("response.function_call_arguments.delta", data)]
            }
            (Change::Close(_), kind) => {
                let text = json!(block.text);
                let mut lines = match kind {
                    Kind::Reasoning => vec![self.line("response.reasoning_text.done", in_part("text", text))],
                    Kind::Content => {
                        let mut data = in_part("text", text);
                        data["logprobs"] = json!([]);
                        vec![self.line("response.output_text.done", data)]
                    }
                    Kind::Call { .. } => {
                        let item = self.frame.finished_item(place, &block);
                        let mut data = at.clone();
                        data["arguments"] = text;
                        data["name"] = item["name"].clone();
                        vec![self.line("response.function_call_arguments.done", data)]
                    }
                };
                if !matches!(kind, Kind::Call { .. }) {
                    let data = in_part("part", part(kind, &block.text));
                    lines.push(self.line("response.content_part.done", data));
                }
                let item = self.frame.finished_item(place, &block);
                lines.push(
                    self.line("response.output_item.done", json!({"output_index": place, "item": item})),
                );
                lines
            }
        }
    }
}

impl Writer for ResponseEvents {
    fn open(&mut self) -> Vec<Line> {
        let begun = json!({"response": self.frame.begun()});
        vec![self.line("response.created", begun.clone()), self.line("response.in_progress", begun)]
    }

    fn event(&mut self, _: usize, event: &Event) -> Result<Vec<Line>, ApiError> {
        let changes = self.blocks.take(event)?;
        Ok(changes.into_iter().flat_map(|change| self.change(change)).collect())
    }

    fn close(&mut self, _: &[ReplyStats]) -> Vec<Line> {
        let response = match self.frame.ended(&self.blocks) {
            Ok(response) => response,
            Err(error) => return self.fail(&error),
        };
        if let Some(keeper) = self.keeper.take() {
            keeper.keep(&self.frame.id, response.clone());
        }
        let name =
            if response["status"] == "completed" { "response.completed" } else { "response.incomplete" };
        vec![self.line(name, json!({"response": response}))]
    }

    fn fail(&mut self, error: &ApiError) -> Vec<Line> {
        let response = self.frame.failed(&self.blocks, error);
        vec![self.line("response.failed", json!({"response": response}))]
    }
}
