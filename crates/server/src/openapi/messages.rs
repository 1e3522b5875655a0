//! Bodies and answers of /v1/messages.
#![allow(dead_code, reason = "describes bodies and answers")]

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoResponses, ToSchema};

use super::replies::Receipt;
use super::requests::Extensions;

/// An error in Anthropic's shape.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessagesError {
    /// `error`.
    r#type: String,
    error: MessagesErrorDetail,
}

/// What was expected and found.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessagesErrorDetail {
    /// `invalid_request_error`, `authentication_error`, `not_found_error`, `request_too_large`, `overloaded_error` or
    /// `api_error`.
    r#type: String,
    /// Begins with the field at fault, if one is.
    message: String,
}

/// What routes of messages may answer.
#[derive(IntoResponses)]
pub(crate) enum MessagesRefused {
    /// A malformed body, or a schema that does not compile; the field at fault is named
    #[response(status = 400)]
    Field(MessagesError),
    /// No API key, or a wrong one
    #[response(status = 401)]
    Unauthorized(MessagesError),
    /// The method is not taken here
    #[response(status = 405)]
    Method(MessagesError),
    /// The body did not come
    #[response(status = 408)]
    Slow(MessagesError),
    /// The body is too large
    #[response(status = 413)]
    Large(MessagesError),
    /// Address and headers are too long
    #[response(status = 431)]
    Head(MessagesError),
    /// The server failed
    #[response(status = 500)]
    Failed(MessagesError),
}

/// What a route of messages that generates may answer beside [`MessagesRefused`].
#[derive(IntoResponses)]
pub(crate) enum MessagesBusy {
    /// The queue is full, the server drains, or the engine has stopped; see the header Retry-After
    #[response(status = 503)]
    Unavailable(MessagesError),
}

#[derive(Deserialize, ToSchema)]
struct TextBlock {
    /// `text`.
    r#type: String,
    text: String,
}

#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
enum TextBlocks {
    Text(String),
    Blocks(Vec<TextBlock>),
}

/// A block of an earlier message.
#[derive(Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
enum InputBlock {
    Text {
        text: String,
    },
    /// Of the assistant.
    Thinking {
        thinking: String,
        /// Not checked.
        signature: Option<String>,
    },
    /// Of the assistant; left out.
    RedactedThinking {
        data: Option<String>,
    },
    /// Of the assistant.
    ToolUse {
        id: String,
        name: String,
        #[schema(value_type = Object)]
        input: Value,
    },
    /// Of the user.
    ToolResult {
        tool_use_id: String,
        content: Option<TextBlocks>,
        /// Has no effect: the content tells it.
        is_error: Option<bool>,
    },
}

#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
enum InputBlocks {
    Text(String),
    Blocks(Vec<InputBlock>),
}

#[derive(Deserialize, ToSchema)]
struct InputMessage {
    /// `user`, `assistant` or `system`.
    role: String,
    content: InputBlocks,
}

/// A tool that the reply may call.
#[derive(Deserialize, ToSchema)]
struct MessagesTool {
    /// `custom`.
    r#type: Option<String>,
    name: String,
    description: Option<String>,
    /// A JSON schema of an object.
    #[schema(value_type = Object)]
    input_schema: Value,
}

#[derive(Deserialize, ToSchema)]
struct MessagesToolChoice {
    /// `auto`, `any`, `tool` or `none`.
    r#type: String,
    /// Of `tool`: the tool that is called, once.
    name: Option<String>,
    /// Whether the reply ends with its first complete call.
    disable_parallel_tool_use: Option<bool>,
}

#[derive(Deserialize, ToSchema)]
struct MessagesThinking {
    /// `enabled`, `adaptive` (the same) or `disabled`; if all is left out, the server's default.
    r#type: String,
    /// Most tokens of the reasoning.
    #[schema(minimum = 0)]
    budget_tokens: Option<i32>,
}

/// A JSON schema that bounds the answer, told to the model too.
#[derive(Deserialize, ToSchema)]
struct OutputFormat {
    /// `json_schema`.
    r#type: String,
    #[schema(value_type = Object)]
    schema: Value,
}

#[derive(Deserialize, ToSchema)]
struct OutputConfig {
    /// A level's name.
    effort: Option<String>,
    format: Option<OutputFormat>,
}

/// A body of /v1/messages/count_tokens.
#[derive(Deserialize, ToSchema)]
pub(crate) struct CountRequest {
    /// Any name: one model is served.
    model: Option<String>,
    /// The last one is of the user.
    #[schema(min_items = 1, max_items = 4096)]
    messages: Vec<InputMessage>,
    system: Option<TextBlocks>,
    tools: Option<Vec<MessagesTool>>,
    tool_choice: Option<MessagesToolChoice>,
    thinking: Option<MessagesThinking>,
    output_config: Option<OutputConfig>,
}

/// A body of /v1/messages. What it shares with chat completions means the same.
#[derive(Deserialize, ToSchema)]
pub(crate) struct MessageRequest {
    /// Most tokens of the reply, reasoning included.
    #[schema(minimum = 0)]
    max_tokens: i32,
    /// Strings that end the reply, at most 16.
    stop_sequences: Option<Vec<String>>,
    #[serde(flatten)]
    conversation: CountRequest,
    #[serde(flatten)]
    extensions: Extensions,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum StopReason {
    EndTurn,
    MaxTokens,
    StopSequence,
    ToolUse,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ThinkingOutput {
    thinking_tokens: u64,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageUsage {
    /// Without the tokens of a kept prompt state.
    input_tokens: u64,
    /// 0: keeping prompt states costs a client nothing.
    cache_creation_input_tokens: u64,
    /// Tokens resumed from a kept prompt state.
    cache_read_input_tokens: u64,
    output_tokens: u64,
    /// When the message is over.
    output_tokens_details: Option<ThinkingOutput>,
}

#[derive(Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum OutputBlock {
    Thinking {
        thinking: String,
        /// The SHA-256 of the reasoning in hex; it signs nothing.
        signature: String,
    },
    Text {
        text: String,
    },
    ToolUse {
        id: String,
        name: String,
        /// Arguments; `{"arguments": text}` where the text is no JSON object, as in a call that was broken off.
        #[schema(value_type = Object)]
        input: Value,
    },
}

/// A message.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageReply {
    id: String,
    /// `message`.
    r#type: String,
    /// `assistant`.
    role: String,
    model: String,
    content: Vec<OutputBlock>,
    stop_reason: Option<StopReason>,
    stop_sequence: Option<String>,
    usage: MessageUsage,
    /// When the message is over and whole.
    tokenfare: Option<Receipt>,
    /// The same as `tokenfare`.
    tensorfold: Option<Receipt>,
}

#[derive(Deserialize, ToSchema)]
#[serde(tag = "type", deny_unknown_fields)]
pub(crate) enum BlockDelta {
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(rename = "signature_delta")]
    Signature { signature: String },
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "input_json_delta")]
    Json { partial_json: String },
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageDelta {
    stop_reason: StopReason,
    stop_sequence: Option<String>,
}

/// An event of a message's stream, under the name of its type. The last one has the receipt.
#[derive(Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum MessageEvent {
    MessageStart { message: MessageReply },
    Ping {},
    ContentBlockStart { index: u64, content_block: OutputBlock },
    ContentBlockDelta { index: u64, delta: BlockDelta },
    ContentBlockStop { index: u64 },
    MessageDelta { delta: MessageDelta, usage: MessageUsage },
    MessageStop { tokenfare: Receipt, tensorfold: Receipt },
    Error { error: MessagesErrorDetail },
}
