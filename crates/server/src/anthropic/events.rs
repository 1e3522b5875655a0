//! The events of a streamed message.

use serde_json::{Value, json};
use tokenfare_lanes::{Event, ReplyStats};

use super::error;
use super::message::{Frame, begun, prompt_usage, signature, stop, usage};
use crate::ApiError;
use crate::blocks::{Blocks, Change, Kind};
use crate::reply::add_receipt;
use crate::stream::{Line, Writer};

/// Writes one message's events.
pub(super) struct MessageEvents {
    frame: Frame,
    /// Tokens of the prompt.
    prompt: usize,
    blocks: Blocks,
}

fn line(name: &'static str, mut data: Value) -> Line {
    data["type"] = json!(name);
    Line::named(name, &data)
}

fn delta(index: usize, delta: Value) -> Line {
    line("content_block_delta", json!({"index": index, "delta": delta}))
}

impl MessageEvents {
    pub(super) fn new(frame: Frame, stem: String, prompt: usize) -> Self {
        Self { frame, prompt, blocks: Blocks::new(stem) }
    }

    fn change(&self, change: Change) -> Vec<Line> {
        let (Change::Open(index) | Change::More(index, _) | Change::Close(index)) = change;
        let block = &self.blocks.list()[index];
        match (change, &block.kind) {
            (Change::Open(_), kind) => {
                vec![line("content_block_start", json!({"index": index, "content_block": begun(kind)}))]
            }
            (Change::More(_, text), Kind::Reasoning) => {
                vec![delta(index, json!({"type": "thinking_delta", "thinking": text}))]
            }
            (Change::More(_, text), Kind::Content) => {
                vec![delta(index, json!({"type": "text_delta", "text": text}))]
            }
            (Change::More(_, text), Kind::Call { .. }) => {
                vec![delta(index, json!({"type": "input_json_delta", "partial_json": text}))]
            }
            (Change::Close(_), kind) => {
                let mut lines = Vec::new();
                if *kind == Kind::Reasoning {
                    let signed = json!({"type": "signature_delta", "signature": signature(&block.text)});
                    lines.push(delta(index, signed));
                }
                lines.push(line("content_block_stop", json!({"index": index})));
                lines
            }
        }
    }

    fn end(&self) -> Result<Vec<Line>, ApiError> {
        let (reason, stats) = self.blocks.end()?;
        let mut last = json!({});
        add_receipt(&mut last, stats);
        let delta = json!({"delta": stop(reason), "usage": usage(stats)});
        Ok(vec![line("message_delta", delta), line("message_stop", last)])
    }
}

impl Writer for MessageEvents {
    fn event(&mut self, _: usize, event: &Event) -> Result<Vec<Line>, ApiError> {
        let changes = self.blocks.take(event)?;
        let mut lines = Vec::new();
        if let Event::Prefilled { cached, .. } = event {
            let message = self.frame.begun(prompt_usage(self.prompt, *cached));
            lines.push(line("message_start", json!({"message": message})));
            lines.extend(self.ping());
        }
        lines.extend(changes.into_iter().flat_map(|change| self.change(change)));
        Ok(lines)
    }

    fn close(&mut self, _: &[ReplyStats]) -> Vec<Line> {
        self.end().unwrap_or_else(|error| self.fail(&error))
    }

    fn fail(&mut self, error: &ApiError) -> Vec<Line> {
        vec![Line::named("error", &error::body(error))]
    }

    fn ping(&self) -> Option<Line> {
        Some(line("ping", json!({})))
    }
}
