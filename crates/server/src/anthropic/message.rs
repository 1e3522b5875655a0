//! A reply as a message of content blocks.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tokenfare_lanes::ReplyStats;

use crate::ApiError;
use crate::blocks::{Block, Blocks, Kind};
use crate::reply::{EndReason, add_receipt};

/// What the messages of one request have in common.
pub(super) struct Frame {
    /// The message's id.
    pub id: String,
    /// The name of the model.
    pub model: String,
}

/// Prompt tokens of a message; those of a kept prompt state are counted apart.
pub(super) fn prompt_usage(prompt: usize, cached: usize) -> Value {
    json!({
        "input_tokens": prompt.saturating_sub(cached),
        // Keeping prompt states costs a client nothing.
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": 0,
    })
}

/// All tokens of a message.
pub(super) fn usage(stats: &ReplyStats) -> Value {
    let mut usage = prompt_usage(stats.prompt_tokens, stats.cached_tokens);
    usage["output_tokens"] = json!(stats.completion_tokens);
    usage["output_tokens_details"] = json!({"thinking_tokens": stats.reasoning_tokens});
    usage
}

/// Why the message ended, and the stop sequence if one did it.
pub(super) fn stop(reason: &EndReason) -> Value {
    let (word, sequence) = match reason {
        EndReason::Stop => ("end_turn", None),
        EndReason::StopString(sequence) => ("stop_sequence", Some(sequence)),
        EndReason::Length => ("max_tokens", None),
        EndReason::ToolCalls => ("tool_use", None),
    };
    json!({"stop_reason": word, "stop_sequence": sequence})
}

/// What stands where Anthropic signs reasoning: its hash.
pub(super) fn signature(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Arguments as an object; text that is none, as a call that was broken off has, is one argument.
fn input(arguments: &str) -> Value {
    let parsed: Option<Map<String, Value>> = serde_json::from_str(arguments).ok();
    parsed.map_or_else(|| json!({"arguments": arguments}), Value::Object)
}

/// A block before its text.
pub(super) fn begun(kind: &Kind) -> Value {
    match kind {
        Kind::Reasoning => json!({"type": "thinking", "thinking": "", "signature": ""}),
        Kind::Content => json!({"type": "text", "text": ""}),
        Kind::Call { id, name } => json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
    }
}

fn block(block: &Block) -> Value {
    let mut whole = begun(&block.kind);
    match block.kind {
        Kind::Reasoning => {
            whole["thinking"] = json!(block.text);
            whole["signature"] = json!(signature(&block.text));
        }
        Kind::Content => whole["text"] = json!(block.text),
        Kind::Call { .. } => whole["input"] = input(&block.text),
    }
    whole
}

impl Frame {
    /// The message before its content.
    pub(super) fn begun(&self, usage: Value) -> Value {
        json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": usage,
        })
    }

    /// The message of a reply that is over.
    pub(super) fn ended(&self, blocks: &Blocks) -> Result<Value, ApiError> {
        let (reason, stats) = blocks.end()?;
        let mut message = self.begun(usage(stats));
        message["content"] = blocks.list().iter().map(block).collect();
        for (name, value) in stop(reason).as_object().into_iter().flatten() {
            message[name] = value.clone();
        }
        add_receipt(&mut message, stats);
        Ok(message)
    }
}
