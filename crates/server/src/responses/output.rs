//! A reply as a response object.

use serde_json::{Map, Value, json};
use tokenfare_lanes::ReplyStats;

use crate::ApiError;
use crate::blocks::{Block, Blocks, Kind};
use crate::reply::{EndReason, add_receipt};
use crate::tools::Tools;
use crate::turn::Turn;

/// What the responses of one request have in common.
pub(super) struct Frame {
    /// The response's id.
    pub id: String,
    /// The id without its prefix.
    pub stem: String,
    /// The response before it has begun.
    empty: Value,
    tools: Tools,
}

/// A part of a message or of reasoning.
pub(super) fn part(kind: &Kind, text: &str) -> Value {
    match kind {
        Kind::Reasoning => json!({"type": "reasoning_text", "text": text}),
        _ => json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []}),
    }
}

fn usage(stats: &ReplyStats) -> Value {
    json!({
        "input_tokens": stats.prompt_tokens,
        // Keeping prompt states costs a client nothing.
        "input_tokens_details": {"cached_tokens": stats.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": stats.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": stats.reasoning_tokens},
        "total_tokens": stats.prompt_tokens + stats.completion_tokens,
    })
}

impl Frame {
    /// The frame of a request whose fields `repeated` come back.
    pub(super) fn new(
        (id, created): (String, u64),
        model: &str,
        turn: &Turn,
        repeated: Map<String, Value>,
    ) -> Self {
        let stem = id.trim_start_matches("resp_").to_owned();
        let sampling = &turn.generation.sampling;
        let mut empty = json!({
            "id": id, "object": "response", "created_at": created, "status": "in_progress", "model": model,
            "output": [], "error": null, "incomplete_details": null, "usage": null, "background": false,
            "instructions": null, "max_output_tokens": null, "metadata": {}, "previous_response_id": null,
            "tools": [], "tool_choice": "auto", "parallel_tool_calls": true,
            "temperature": sampling.temperature, "top_p": sampling.top_p, "truncation": "disabled",
        });
        for (name, value) in repeated {
            empty[name] = value;
        }
        Self { id, stem, empty, tools: turn.tools.clone() }
    }

    /// Tells whether the response is kept.
    pub(super) fn stored(&mut self, stored: bool) {
        self.empty["store"] = json!(stored);
    }

    /// The response before it has begun.
    pub(super) fn begun(&self) -> Value {
        self.empty.clone()
    }

    /// The id of an output item.
    pub(super) fn item_id(&self, place: usize, kind: &Kind) -> String {
        let prefix = match kind {
            Kind::Reasoning => "rs",
            Kind::Content => "msg",
            Kind::Call { .. } => "fc",
        };
        format!("{prefix}_{}_{place}", self.stem)
    }

    /// An output item in this state; one that has just begun has no text.
    pub(super) fn item(&self, place: usize, block: &Block, status: &str) -> Value {
        let id = self.item_id(place, &block.kind);
        let begun = status == "in_progress";
        let text = if begun { "" } else { block.text.as_str() };
        let content = if begun { json!([]) } else { json!([part(&block.kind, text)]) };
        match &block.kind {
            Kind::Reasoning => {
                json!({"id": id, "type": "reasoning", "status": status, "summary": [], "content": content})
            }
            Kind::Content => {
                json!({"id": id, "type": "message", "status": status, "role": "assistant", "content": content})
            }
            Kind::Call { id: call, name } => {
                let (name, namespace) = self.tools.known(name);
                let mut item = json!({
                    "id": id, "type": "function_call", "status": status, "call_id": call, "name": name, "arguments": text,
                });
                if let Some(namespace) = namespace {
                    item["namespace"] = json!(namespace);
                }
                item
            }
        }
    }

    /// An output item that is over.
    pub(super) fn finished_item(&self, place: usize, block: &Block) -> Value {
        self.item(place, block, if block.complete { "completed" } else { "incomplete" })
    }

    fn output(&self, blocks: &Blocks) -> Value {
        blocks.list().iter().enumerate().map(|(place, block)| self.finished_item(place, block)).collect()
    }

    /// The response of a reply that is over. One with a call that was broken off is incomplete, so that nobody acts on
    /// half of it.
    pub(super) fn ended(&self, blocks: &Blocks) -> Result<Value, ApiError> {
        let (reason, stats) = blocks.end()?;
        let mut response = self.begun();
        let broken = blocks.list().iter().any(|b| !b.complete && matches!(b.kind, Kind::Call { .. }));
        let cut = *reason == EndReason::Length;
        response["status"] = json!(if cut || broken { "incomplete" } else { "completed" });
        if cut {
            response["incomplete_details"] = json!({"reason": "max_output_tokens"});
        }
        response["output"] = self.output(blocks);
        response["usage"] = usage(stats);
        add_receipt(&mut response, stats);
        Ok(response)
    }

    /// The response of a reply that failed.
    pub(super) fn failed(&self, blocks: &Blocks, error: &ApiError) -> Value {
        let mut response = self.begun();
        response["status"] = json!("failed");
        response["error"] = json!({"code": "server_error", "message": error.message});
        response["output"] = self.output(blocks);
        response
    }
}
