//! Bodies and answers of /v1/responses.
#![allow(dead_code, reason = "describes bodies and answers")]

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::replies::Receipt;
use super::requests::{Effort, Extensions, Namespace, ToolChoiceWord};

#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
enum Input {
    /// One message of the user.
    Text(String),
    /// At least one item.
    Items(Vec<InputItem>),
}

/// A part of a message or of a tool's output.
#[derive(Deserialize, ToSchema)]
struct InputPart {
    /// `input_text` or `output_text`.
    r#type: String,
    text: String,
}

#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
enum InputContent {
    Text(String),
    Parts(Vec<InputPart>),
}

/// An item of the conversation: a message, reasoning, a call or the output of one, with the fields of its type.
#[derive(Deserialize, ToSchema)]
struct InputItem {
    /// `message` (if left out), `reasoning`, `function_call` or `function_call_output`.
    r#type: Option<String>,
    /// Of a message: `user`, `assistant`, `system` or `developer`.
    role: Option<String>,
    /// Of a message; or parts of earlier reasoning.
    content: Option<InputContent>,
    /// Of reasoning: read where it has no content.
    summary: Option<Vec<InputPart>>,
    /// Of a call and its output.
    call_id: Option<String>,
    /// Of a call.
    name: Option<String>,
    /// Of a call.
    namespace: Option<Namespace>,
    /// Of a call: the text of a JSON object.
    arguments: Option<String>,
    /// Of a call's output.
    output: Option<InputContent>,
}

/// A tool, or a namespace of tools.
#[derive(Deserialize, ToSchema)]
struct ResponseTool {
    /// `function` or `namespace`.
    r#type: String,
    name: String,
    description: Option<String>,
    /// Of a function: a JSON schema of an object.
    #[schema(value_type = Option<Object>)]
    parameters: Option<Value>,
    /// Of a namespace: its functions.
    tools: Option<Vec<NamespacedFunction>>,
}

/// A function of a namespace.
#[derive(Deserialize, ToSchema)]
struct NamespacedFunction {
    /// `function`.
    r#type: String,
    name: String,
    description: Option<String>,
    /// A JSON schema of an object.
    #[schema(value_type = Option<Object>)]
    parameters: Option<Value>,
}

/// The function that is called, once.
#[derive(Deserialize, ToSchema)]
struct ResponseChosenTool {
    /// `function`.
    r#type: String,
    name: String,
}

#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
enum ResponseToolChoice {
    Word(ToolChoiceWord),
    Tool(ResponseChosenTool),
}

/// What the answer must be.
#[derive(Deserialize, ToSchema)]
struct TextFormat {
    /// `text`, `json_object` or `json_schema`.
    r#type: String,
    /// Of a schema.
    name: Option<String>,
    /// A JSON schema that bounds the answer, told to the model too.
    #[schema(value_type = Option<Object>)]
    schema: Option<Value>,
    /// The answer is bounded in any case.
    strict: Option<bool>,
}

#[derive(Deserialize, ToSchema)]
struct TextOptions {
    format: Option<TextFormat>,
}

#[derive(Deserialize, ToSchema)]
struct ReasoningOptions {
    /// `none` for no reasoning; another level or a number asks for it.
    effort: Option<Effort>,
}

/// A body of /v1/responses. What it shares with chat completions means the same.
#[derive(Deserialize, ToSchema)]
pub(crate) struct ResponseRequest {
    /// Any name: one model is served.
    model: Option<String>,
    input: Input,
    /// A system message before the conversation, of this request alone.
    instructions: Option<String>,
    /// A kept response whose conversation goes on.
    previous_response_id: Option<String>,
    /// Whether the response is kept; true if left out.
    store: Option<bool>,
    /// Most tokens of the reply, reasoning included.
    #[schema(minimum = 0)]
    max_output_tokens: Option<i32>,
    reasoning: Option<ReasoningOptions>,
    text: Option<TextOptions>,
    tools: Option<Vec<ResponseTool>>,
    tool_choice: Option<ResponseToolChoice>,
    /// False ends the reply with its first complete call.
    parallel_tool_calls: Option<bool>,
    /// Comes back in the response.
    metadata: Option<BTreeMap<String, String>>,
    /// Comes back in the response.
    user: Option<String>,
    /// Only `disabled`.
    truncation: Option<String>,
    /// Log-probabilities of the output are not served; the rest has no effect.
    include: Option<Vec<String>>,
    /// Strings that end the reply, at most 16.
    stop: Option<super::requests::Stop>,
    #[serde(flatten)]
    extensions: Extensions,
}

/// `in_progress`, `completed`, `incomplete` or `failed`.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ResponseState {
    InProgress,
    Completed,
    Incomplete,
    Failed,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct CachedInput {
    cached_tokens: u64,
    /// 0: keeping prompt states costs a client nothing.
    cache_write_tokens: u64,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ReasoningOutput {
    reasoning_tokens: u64,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ResponseUsage {
    input_tokens: u64,
    input_tokens_details: CachedInput,
    output_tokens: u64,
    output_tokens_details: ReasoningOutput,
    total_tokens: u64,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ResponseFailure {
    /// `server_error`.
    code: String,
    message: String,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Incomplete {
    /// `max_output_tokens`.
    reason: String,
}

#[derive(Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum OutputPart {
    OutputText {
        text: String,
        /// Empty.
        annotations: Vec<Value>,
        /// Empty.
        logprobs: Vec<Value>,
    },
    ReasoningText {
        text: String,
    },
}

#[derive(Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum OutputItem {
    Reasoning {
        id: String,
        status: ResponseState,
        /// Empty: reasoning is shown as it is.
        summary: Vec<Value>,
        content: Vec<OutputPart>,
    },
    Message {
        id: String,
        status: ResponseState,
        /// `assistant`.
        role: String,
        content: Vec<OutputPart>,
    },
    FunctionCall {
        id: String,
        /// `incomplete`: the call was broken off.
        status: ResponseState,
        call_id: String,
        name: String,
        /// Where the tool is of one.
        namespace: Option<String>,
        /// The text of a JSON object; of a part of one where the call was broken off.
        arguments: String,
    },
}

/// A response.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResponseReply {
    id: String,
    /// `response`.
    object: String,
    created_at: u64,
    status: ResponseState,
    error: Option<ResponseFailure>,
    incomplete_details: Option<Incomplete>,
    model: String,
    output: Vec<OutputItem>,
    usage: Option<ResponseUsage>,
    /// False.
    background: bool,
    instructions: Option<String>,
    max_output_tokens: Option<i64>,
    #[schema(value_type = Object)]
    metadata: Value,
    parallel_tool_calls: bool,
    previous_response_id: Option<String>,
    /// As it was given.
    #[schema(value_type = Object)]
    reasoning: Value,
    /// Whether the response is kept.
    store: bool,
    temperature: f64,
    /// As it was given.
    #[schema(value_type = Object)]
    text: Value,
    /// As it was given.
    #[schema(value_type = ResponseToolChoice)]
    tool_choice: Value,
    /// As they were given.
    #[schema(value_type = Vec<Object>)]
    tools: Vec<Value>,
    top_p: f64,
    /// `disabled`.
    truncation: String,
    user: Option<String>,
    /// When the response is over.
    tokenfare: Option<Receipt>,
    /// The same as `tokenfare`.
    tensorfold: Option<Receipt>,
}

/// An event of a response's stream, under the name of its type. The last one has the whole response with the receipt.
#[derive(Deserialize, ToSchema)]
#[serde(tag = "type", deny_unknown_fields)]
pub(crate) enum ResponseEvent {
    #[serde(rename = "response.created")]
    Created { sequence_number: u64, response: ResponseReply },
    #[serde(rename = "response.in_progress")]
    InProgress { sequence_number: u64, response: ResponseReply },
    #[serde(rename = "response.output_item.added")]
    ItemAdded { sequence_number: u64, output_index: u64, item: OutputItem },
    #[serde(rename = "response.content_part.added")]
    PartAdded {
        sequence_number: u64,
        item_id: String,
        output_index: u64,
        content_index: u64,
        part: OutputPart,
    },
    #[serde(rename = "response.reasoning_text.delta")]
    ReasoningDelta {
        sequence_number: u64,
        item_id: String,
        output_index: u64,
        content_index: u64,
        delta: String,
    },
    #[serde(rename = "response.reasoning_text.done")]
    ReasoningDone {
        sequence_number: u64,
        item_id: String,
        output_index: u64,
        content_index: u64,
        text: String,
    },
    #[serde(rename = "response.output_text.delta")]
    TextDelta {
        sequence_number: u64,
        item_id: String,
        output_index: u64,
        content_index: u64,
        delta: String,
        /// Empty.
        logprobs: Vec<Value>,
    },
    #[serde(rename = "response.output_text.done")]
    TextDone {
        sequence_number: u64,
        item_id: String,
        output_index: u64,
        content_index: u64,
        text: String,
        /// Empty.
        logprobs: Vec<Value>,
    },
    #[serde(rename = "response.content_part.done")]
    PartDone {
        sequence_number: u64,
        item_id: String,
        output_index: u64,
        content_index: u64,
        part: OutputPart,
    },
    #[serde(rename = "response.function_call_arguments.delta")]
    ArgumentsDelta { sequence_number: u64, item_id: String, output_index: u64, delta: String },
    #[serde(rename = "response.function_call_arguments.done")]
    ArgumentsDone {
        sequence_number: u64,
        item_id: String,
        output_index: u64,
        name: String,
        arguments: String,
    },
    #[serde(rename = "response.output_item.done")]
    ItemDone { sequence_number: u64, output_index: u64, item: OutputItem },
    #[serde(rename = "response.completed")]
    Completed { sequence_number: u64, response: ResponseReply },
    #[serde(rename = "response.incomplete")]
    Incomplete { sequence_number: u64, response: ResponseReply },
    #[serde(rename = "response.failed")]
    Failed { sequence_number: u64, response: ResponseReply },
}
