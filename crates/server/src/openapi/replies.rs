//! What generating routes answer. Handlers write fields one by one; tests read real answers back as these types.
#![allow(dead_code, reason = "describes answers")]

use std::collections::BTreeMap;

use serde::Deserialize;
use utoipa::ToSchema;

/// Why a chat's reply ended.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum FinishReason {
    /// An end token, a stop string or the end of its grammar.
    Stop,
    /// Its most tokens.
    Length,
    /// It calls tools, and every call is complete.
    ToolCalls,
}

/// Why a completion ended.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum CompletionFinishReason {
    /// An end token, a stop string or the end of its grammar.
    Stop,
    /// Its most tokens.
    Length,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PromptDetails {
    /// Tokens resumed from a kept prompt state.
    cached_tokens: u64,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct CompletionDetails {
    /// Tokens inside the reasoning.
    reasoning_tokens: u64,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Usage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
}

/// The first choice's hash and how it was decoded. A rate without a base is null.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Receipt {
    /// SHA-256 of the decimal token ids joined by commas, in hex.
    token_sha256: String,
    /// Its first 12 digits.
    token_sha: String,
    /// The seed in force.
    seed: u64,
    /// Verify rounds.
    rounds: u64,
    /// Drafts verified.
    drafted: u64,
    /// Drafts kept.
    accepted: u64,
    acceptance_rate: Option<f64>,
    tokens_per_round: Option<f64>,
    ms_per_round: Option<f64>,
    tokens_per_second: Option<f64>,
    /// Seconds.
    time_to_first_token: f64,
    prefill_seconds: f64,
    decode_seconds: f64,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Alternative {
    token: String,
    logprob: f64,
    bytes: Vec<u8>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct TokenLogprob {
    token: String,
    logprob: f64,
    bytes: Vec<u8>,
    top_logprobs: Vec<Alternative>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ChatLogprobs {
    content: Vec<TokenLogprob>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct CalledFunction {
    name: String,
    /// The text of a JSON object; of a part of one where the call was broken off.
    arguments: String,
}

/// A tool call.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ToolCall {
    id: String,
    /// `function`.
    r#type: String,
    function: CalledFunction,
    /// Where the tool was given one beside its name.
    namespace: Option<String>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ReplyMessage {
    /// `assistant`.
    role: String,
    /// Null if the reply has calls and no text.
    content: Option<String>,
    /// Present when the reply reasons.
    reasoning_content: Option<String>,
    /// Present when the reply calls tools.
    tool_calls: Option<Vec<ToolCall>>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ChatChoice {
    index: u64,
    message: ReplyMessage,
    logprobs: Option<ChatLogprobs>,
    finish_reason: FinishReason,
    /// If asked for.
    token_ids: Option<Vec<u32>>,
}

/// A chat's reply.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChatReply {
    id: String,
    /// `chat.completion`.
    object: String,
    created: u64,
    model: String,
    choices: Vec<ChatChoice>,
    usage: Usage,
    /// If token ids were asked for.
    prompt_token_ids: Option<Vec<u32>>,
    tokenfare: Receipt,
    /// The same as `tokenfare`.
    tensorfold: Receipt,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct CalledFunctionPart {
    /// In the first part of a call.
    name: Option<String>,
    /// More of the text of a JSON object.
    arguments: String,
}

/// A part of a tool call.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ToolCallPart {
    /// The call's place among the calls of its choice.
    index: u64,
    /// In the first part of a call.
    id: Option<String>,
    /// `function`, in the first part of a call.
    r#type: Option<String>,
    function: CalledFunctionPart,
    /// In the first part of a call, where the tool was given one beside its name.
    namespace: Option<String>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Delta {
    role: Option<String>,
    content: Option<String>,
    reasoning_content: Option<String>,
    tool_calls: Option<Vec<ToolCallPart>>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ChatChunkChoice {
    index: u64,
    delta: Delta,
    logprobs: Option<ChatLogprobs>,
    finish_reason: Option<FinishReason>,
    token_ids: Option<Vec<u32>>,
}

/// An event of a chat's stream; the one before `[DONE]` has no choices and holds the receipt.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChatChunk {
    id: String,
    /// `chat.completion.chunk`.
    object: String,
    created: u64,
    model: String,
    choices: Vec<ChatChunkChoice>,
    usage: Option<Usage>,
    tokenfare: Option<Receipt>,
    tensorfold: Option<Receipt>,
}

/// Lists of one entry a token. The first token of a prompt has no log-probability.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct CompletionLogprobs {
    tokens: Vec<String>,
    token_logprobs: Vec<Option<f64>>,
    top_logprobs: Vec<Option<BTreeMap<String, f64>>>,
    /// In characters.
    text_offset: Vec<u64>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct CompletionChoice {
    index: u64,
    text: String,
    logprobs: Option<CompletionLogprobs>,
    finish_reason: CompletionFinishReason,
    token_ids: Option<Vec<u32>>,
    prompt_token_ids: Option<Vec<u32>>,
}

/// A completion's reply.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompletionReply {
    id: String,
    /// `text_completion`.
    object: String,
    created: u64,
    model: String,
    choices: Vec<CompletionChoice>,
    usage: Usage,
    tokenfare: Receipt,
    /// The same as `tokenfare`.
    tensorfold: Receipt,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct CompletionChunkChoice {
    index: u64,
    text: String,
    logprobs: Option<CompletionLogprobs>,
    finish_reason: Option<CompletionFinishReason>,
    token_ids: Option<Vec<u32>>,
}

/// An event of a completion's stream; the one before `[DONE]` has no choices and holds the receipt.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompletionChunk {
    id: String,
    /// `text_completion`.
    object: String,
    created: u64,
    model: String,
    choices: Vec<CompletionChunkChoice>,
    usage: Option<Usage>,
    tokenfare: Option<Receipt>,
    tensorfold: Option<Receipt>,
}
