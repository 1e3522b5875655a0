//! What bodies may hold. Handlers read fields one by one to name what is wrong; these types say the same to readers.
#![allow(dead_code, reason = "describes bodies")]

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

/// How tokens are drawn, in every protocol. What is left out has the server's default.
#[derive(Deserialize, ToSchema)]
pub(super) struct Sampling {
    /// 0 is greedy.
    #[schema(minimum = 0, maximum = 100)]
    temperature: Option<f64>,
    /// Nucleus mass.
    #[schema(exclusive_minimum = 0, maximum = 1)]
    top_p: Option<f64>,
    /// Likeliest tokens kept; 0 or less keeps all.
    top_k: Option<i32>,
    /// Least probability relative to the likeliest.
    #[schema(minimum = 0, maximum = 1)]
    min_p: Option<f64>,
    /// Key of the draws; without one it follows from the prompt.
    seed: Option<i64>,
    /// Bias by token id, from -10000 to 10000.
    logit_bias: Option<BTreeMap<String, f64>>,
    /// Tokens that end the reply.
    stop_token_ids: Option<Vec<u32>>,
    /// Whether end tokens end nothing.
    ignore_eos: Option<bool>,
    /// Whether the reply is streamed as server-sent events.
    stream: Option<bool>,
    /// False verifies no drafts: one token a round, the same tokens.
    draft: Option<bool>,
    /// Above 0 waits until nothing else does.
    priority: Option<i32>,
    /// Most tokens of the reasoning.
    #[schema(minimum = 0)]
    thinking_budget: Option<i32>,
    /// Only 0.
    frequency_penalty: Option<f64>,
    /// Only 0.
    presence_penalty: Option<f64>,
    /// Only 1.
    repetition_penalty: Option<f64>,
    /// Only 0.
    min_tokens: Option<i32>,
}

/// What chat completions have beside protocols that have their own words for the rest.
#[derive(Deserialize, ToSchema)]
pub(super) struct Extensions {
    #[serde(flatten)]
    sampling: Sampling,
    #[serde(flatten)]
    answer: GuidedAnswer,
    chat_template_kwargs: Option<TemplateOptions>,
    /// Only 1.
    #[schema(minimum = 1, maximum = 1)]
    n: Option<u32>,
    /// Only false.
    logprobs: Option<bool>,
    /// Only 0.
    #[schema(minimum = 0, maximum = 0)]
    top_logprobs: Option<u8>,
}

/// How tokens are drawn and when a reply ends.
#[derive(Deserialize, ToSchema)]
struct Parameters {
    #[serde(flatten)]
    sampling: Sampling,
    /// Most tokens of a reply.
    #[schema(minimum = 0)]
    max_tokens: Option<i32>,
    /// The same, and wins.
    #[schema(minimum = 0)]
    max_completion_tokens: Option<i32>,
    /// Strings that end the reply, at most 16.
    stop: Option<Stop>,
    /// Replies to one prompt.
    #[schema(minimum = 1, maximum = 16)]
    n: Option<u32>,
    /// A stream's last event is `[DONE]`.
    stream_options: Option<StreamOptions>,
    /// Whether the reply shows its token ids.
    return_token_ids: Option<bool>,
}

#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
pub(super) enum Stop {
    One(String),
    Several(Vec<String>),
}

#[derive(Deserialize, ToSchema)]
struct StreamOptions {
    /// Whether usage comes in an event of its own.
    include_usage: Option<bool>,
}

/// A JSON schema that bounds the answer, told to the model too.
#[derive(Deserialize, ToSchema)]
struct NamedSchema {
    name: Option<String>,
    #[schema(value_type = Object)]
    schema: Value,
    /// The answer is bounded in any case.
    strict: Option<bool>,
}

#[derive(Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponseFormat {
    /// Any text.
    Text,
    /// A JSON object.
    JsonObject,
    /// What the schema describes.
    JsonSchema { json_schema: NamedSchema },
}

/// A JSON schema, or its JSON text.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
enum Schema {
    #[schema(value_type = Object)]
    Parsed(Value),
    Text(String),
}

#[derive(Deserialize, ToSchema)]
struct StructuredOutputs {
    json: Option<Schema>,
    regex: Option<String>,
    choice: Option<Vec<String>>,
    grammar: Option<String>,
    /// Whether the answer is a JSON object.
    json_object: Option<bool>,
}

/// What the answer must be, in one of these fields at most.
#[derive(Deserialize, ToSchema)]
struct AnswerForm {
    response_format: Option<ResponseFormat>,
    #[serde(flatten)]
    guided: GuidedAnswer,
}

/// What the answer must be, in the words of other servers.
#[derive(Deserialize, ToSchema)]
struct GuidedAnswer {
    /// What the schema describes.
    guided_json: Option<Schema>,
    /// What the regular expression matches as a whole.
    guided_regex: Option<String>,
    /// One of these texts.
    guided_choice: Option<Vec<String>>,
    /// A text of the grammar, in Lark's form or in EBNF.
    guided_grammar: Option<String>,
    structured_outputs: Option<StructuredOutputs>,
}

#[derive(Deserialize, ToSchema)]
struct ToolFunction {
    name: String,
    description: Option<String>,
    /// A JSON schema of an object.
    #[schema(value_type = Option<Object>)]
    parameters: Option<Value>,
}

/// A tool that the reply may call.
#[derive(Deserialize, ToSchema)]
struct Tool {
    /// `function`.
    r#type: Option<String>,
    function: ToolFunction,
    namespace: Option<Namespace>,
}

#[derive(Deserialize, ToSchema)]
pub(super) struct NamedSpace {
    name: String,
    description: Option<String>,
}

#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
pub(super) enum Namespace {
    Name(String),
    Named(NamedSpace),
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToolChoiceWord {
    /// As the model sees fit.
    Auto,
    /// No tool is called, and the model is told of none.
    None,
    /// At least one is called.
    Required,
}

#[derive(Deserialize, ToSchema)]
struct ChosenFunction {
    name: String,
}

/// The tool that is called, once.
#[derive(Deserialize, ToSchema)]
struct ChosenTool {
    /// `function`.
    r#type: String,
    function: ChosenFunction,
}

#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
enum ToolChoice {
    Word(ToolChoiceWord),
    Tool(ChosenTool),
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Role {
    System,
    Developer,
    User,
    Assistant,
    Tool,
    LatestReminder,
}

#[derive(Deserialize, ToSchema)]
struct TextPart {
    /// `text`.
    r#type: String,
    text: String,
}

#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<TextPart>),
}

#[derive(Deserialize, ToSchema)]
struct EarlierFunction {
    name: String,
    /// The text of a JSON object.
    arguments: String,
}

/// A call of an earlier turn.
#[derive(Deserialize, ToSchema)]
struct EarlierCall {
    id: Option<String>,
    /// `function`.
    r#type: Option<String>,
    function: EarlierFunction,
    namespace: Option<Namespace>,
}

#[derive(Deserialize, ToSchema)]
struct Message {
    role: Role,
    /// May be missing in a turn of the assistant.
    content: Option<Content>,
    /// Earlier reasoning of the assistant; may be left out.
    reasoning_content: Option<String>,
    /// Calls in a turn of the assistant.
    tool_calls: Option<Vec<EarlierCall>>,
    /// The call that a message of a tool answers.
    tool_call_id: Option<String>,
}

#[derive(Deserialize, ToSchema)]
struct ThinkingKind {
    /// `enabled` or `disabled`.
    r#type: String,
}

#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
enum Thinking {
    Flag(bool),
    Kind(ThinkingKind),
}

#[derive(Deserialize, ToSchema)]
struct TemplateOptions {
    enable_thinking: Option<bool>,
    thinking: Option<bool>,
    /// A level's name or a number.
    #[schema(value_type = Option<Object>)]
    reasoning_effort: Option<Value>,
}

/// A conversation, as it becomes a prompt.
#[derive(Deserialize, ToSchema)]
struct Conversation {
    /// The last one is of the user or a tool.
    #[schema(min_items = 1, max_items = 4096)]
    messages: Vec<Message>,
    /// Whether the model reasons first.
    thinking: Option<Thinking>,
    /// `none`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max` or 1 to 100.
    #[schema(value_type = Option<Effort>)]
    reasoning_effort: Option<Effort>,
    chat_template_kwargs: Option<TemplateOptions>,
    /// Tools that the reply may call.
    tools: Option<Vec<Tool>>,
    /// Whether tools are called; `auto` if left out.
    tool_choice: Option<ToolChoice>,
    /// False ends the reply with its first complete call.
    parallel_tool_calls: Option<bool>,
}

#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
pub(super) enum Effort {
    Level(String),
    Number(u8),
}

/// A body of /v1/chat/completions.
#[derive(Deserialize, ToSchema)]
pub(crate) struct ChatRequest {
    /// Any name: one model is served.
    model: Option<String>,
    #[serde(flatten)]
    conversation: Conversation,
    #[serde(flatten)]
    form: AnswerForm,
    #[serde(flatten)]
    parameters: Parameters,
    /// Whether tokens come with their log-probabilities.
    logprobs: Option<bool>,
    /// Alternatives beside each token.
    #[schema(minimum = 0, maximum = 20)]
    top_logprobs: Option<u8>,
}

#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
enum PromptItem {
    Text(String),
    Ids(Vec<u32>),
}

#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
enum CompletionPrompt {
    Text(String),
    Ids(Vec<u32>),
    Several(Vec<PromptItem>),
}

/// A body of /v1/completions.
#[derive(Deserialize, ToSchema)]
pub(crate) struct CompletionRequest {
    /// Any name: one model is served.
    model: Option<String>,
    /// Text or token ids, or at most 64 of them.
    prompt: CompletionPrompt,
    #[serde(flatten)]
    form: AnswerForm,
    #[serde(flatten)]
    parameters: Parameters,
    /// Whether the prompt is repeated.
    echo: Option<bool>,
    /// Alternatives beside each token; also gives log-probabilities of the prompt under `echo`.
    #[schema(minimum = 0)]
    logprobs: Option<u32>,
    /// Only the same number as `n`.
    #[schema(minimum = 1)]
    best_of: Option<u32>,
    /// Whether log-probabilities name tokens by their ids.
    return_tokens_as_token_ids: Option<bool>,
}

#[derive(Deserialize, ToSchema)]
pub(crate) struct TextToTokenize {
    /// Text, in which control tokens are control tokens.
    prompt: String,
    /// Whether each token's text is shown.
    return_token_strs: Option<bool>,
}

#[derive(Deserialize, ToSchema)]
pub(crate) struct ChatToTokenize {
    #[serde(flatten)]
    chat: ChatRequest,
    /// Whether each token's text is shown.
    return_token_strs: Option<bool>,
}

/// A body of /tokenize.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum TokenizeRequest {
    /// A completion's prompt.
    Text(TextToTokenize),
    /// A chat's body, as /v1/chat/completions takes it.
    Chat(Box<ChatToTokenize>),
}

/// A body of /detokenize.
#[derive(Deserialize, ToSchema)]
pub(crate) struct DetokenizeRequest {
    /// Token ids.
    tokens: Vec<u32>,
}
