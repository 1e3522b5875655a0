//! POST /v1/chat/completions.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokenfare_lanes::{Event, Piece, Report, TokenLogprob};

use crate::answer::Asked;
use crate::auth::Caller;
use crate::fields::{Fields, mismatch};
use crate::generation::{Defaults, Generation};
use crate::messages::messages;
use crate::openapi::{Busy, ChatChunk, ChatReply, ChatRequest, Refused};
use crate::reply::{Collected, Events, ReplyEvent, add_receipt, usage};
use crate::serve::{Body, Shared, apart, stamp};
use crate::stream::{self, Choices, Chunks, Usage};
use crate::tools::Tools;
use crate::turn::{Prepared, Thinking, Turn};
use crate::{ApiError, Dialect};

const MOST_TOP_LOGPROBS: i64 = 20;

fn thinking(fields: &Fields<'_>) -> Result<Thinking, ApiError> {
    let template = fields.object("chat_template_kwargs")?;
    let in_template = |name| fields.flag_in("chat_template_kwargs", name);
    let own = match fields.get("thinking") {
        None => None,
        Some(Value::Bool(on)) => Some(*on),
        Some(Value::Object(o)) => match o.get("type").and_then(Value::as_str) {
            Some("enabled") => Some(true),
            Some("disabled") => Some(false),
            _ => return Err(ApiError::field("thinking.type", "expected \"enabled\" or \"disabled\"")),
        },
        Some(other) => return Err(mismatch("thinking", "true, false or {\"type\": ...}", other)),
    };
    let effort = fields.get("reasoning_effort").or_else(|| template.and_then(|t| t.get("reasoning_effort")));
    Ok(Thinking {
        on: own.or(in_template("enable_thinking")?).or(in_template("thinking")?),
        effort: effort.cloned(),
    })
}

/// The turn that a body asks for.
pub(crate) fn turn(fields: &Fields<'_>, defaults: &Defaults) -> Result<Turn, ApiError> {
    let generation = Generation::parse(fields, defaults)?;
    let messages = messages(fields)?;
    let top = fields.integer("top_logprobs", 0..=MOST_TOP_LOGPROBS)?;
    let wanted = fields.flag("logprobs")?.unwrap_or(false);
    if top.is_some() && !wanted {
        return Err(ApiError::field("top_logprobs", "expected logprobs: true beside it"));
    }
    Ok(Turn {
        messages,
        tools: Tools::parse(fields)?,
        asked: Asked::parse(fields)?,
        thinking: thinking(fields)?,
        generation,
        report: Report { logprobs: wanted.then_some(top.unwrap_or(0) as usize), prompt_logprobs: None },
    })
}

fn entry(dialect: &dyn Dialect, id: u32, logprob: f32) -> Value {
    let token = dialect.decode(&[id]);
    json!({"token": token, "logprob": f64::from(logprob), "bytes": dialect.bytes(id)})
}

fn logprobs(dialect: &dyn Dialect, list: &[TokenLogprob]) -> Value {
    let content: Vec<Value> = list
        .iter()
        .map(|t| {
            let mut item = entry(dialect, t.id, t.logprob);
            item["top_logprobs"] = t.top.iter().map(|&(id, l)| entry(dialect, id, l)).collect();
            item
        })
        .collect();
    json!({"content": content})
}

/// A call's beginning, as a message or a chunk has it.
fn call(tools: &Tools, id: &str, written: &str, arguments: &str) -> Value {
    let (name, namespace) = tools.known(written);
    let mut call = json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    if let Some(namespace) = namespace {
        call["namespace"] = json!(namespace);
    }
    call
}

struct ChatChunks {
    frame: Value,
    shared: Shared,
    tools: Tools,
    replies: Vec<Events>,
    opened: Vec<bool>,
    with_ids: bool,
}

impl ChatChunks {
    fn chunk(&self, choice: usize, delta: Value, finish: Option<&str>) -> Value {
        let mut chunk = self.frame.clone();
        chunk["choices"] =
            json!([{"index": choice, "delta": delta, "logprobs": null, "finish_reason": finish}]);
        chunk
    }

    /// The delta of an event; the end of a call has none.
    fn delta(&self, event: &ReplyEvent) -> Option<Value> {
        Some(match event {
            ReplyEvent::Content(text) => json!({"content": text}),
            ReplyEvent::Reasoning(text) => json!({"reasoning_content": text}),
            ReplyEvent::CallStart { index, id, name } => {
                let mut call = call(&self.tools, id, name, "");
                call["index"] = json!(index);
                json!({"tool_calls": [call]})
            }
            ReplyEvent::Arguments { index, json } => {
                json!({"tool_calls": [{"index": index, "function": {"arguments": json}}]})
            }
            ReplyEvent::CallEnd { .. } => return None,
        })
    }

    fn pieces(&mut self, choice: usize, pieces: &[Piece]) -> Vec<Value> {
        let events = pieces.iter().map(|piece| self.replies[choice].piece(piece.clone()));
        let events: Vec<ReplyEvent> = events.collect();
        let deltas = events.iter().filter_map(|event| self.delta(event));
        deltas.map(|delta| self.chunk(choice, delta, None)).collect()
    }
}

impl Chunks for ChatChunks {
    fn event(&mut self, choice: usize, event: &Event) -> Result<Vec<Value>, ApiError> {
        let mut chunks = Vec::new();
        if !std::mem::replace(&mut self.opened[choice], true) {
            chunks.push(self.chunk(choice, json!({"role": "assistant", "content": ""}), None));
        }
        match event {
            Event::Prefilled { .. } => {}
            Event::Tokens(tokens) => {
                for token in tokens {
                    let first = chunks.len();
                    chunks.extend(self.pieces(choice, &token.pieces));
                    if chunks.len() == first && (token.logprob.is_some() || self.with_ids) {
                        chunks.push(self.chunk(choice, json!({}), None));
                    }
                    if let Some(logprob) = &token.logprob {
                        chunks[first]["choices"][0]["logprobs"] =
                            logprobs(&*self.shared.dialect, std::slice::from_ref(logprob));
                    }
                    if self.with_ids {
                        chunks[first]["choices"][0]["token_ids"] = json!([token.id]);
                    }
                }
            }
            Event::Finished { pieces, reason, .. } => {
                chunks.extend(self.pieces(choice, pieces));
                let reason = self.replies[choice].end(reason)?;
                chunks.push(self.chunk(choice, json!({}), Some(reason.word())));
            }
        }
        Ok(chunks)
    }

    fn frame(&self) -> Value {
        self.frame.clone()
    }

    fn choices_a_prompt(&self) -> usize {
        self.opened.len()
    }
}

/// The message of a collected reply.
fn message(collected: &Collected, tools: &Tools, reasons: bool) -> Value {
    let calls = collected.calls.iter().map(|c| call(tools, &c.id, &c.name, &c.arguments));
    let calls: Vec<Value> = calls.collect();
    let mut message = json!({"role": "assistant", "content": collected.content});
    if reasons {
        message["reasoning_content"] = json!(collected.reasoning);
    }
    if !calls.is_empty() {
        if collected.content.is_empty() {
            message["content"] = Value::Null;
        }
        message["tool_calls"] = json!(calls);
    }
    message
}

/// Replies to a conversation, whole or streamed.
#[utoipa::path(
    post,
    path = "/v1/chat/completions",
    request_body(content = ChatRequest, example = json!({"messages": [{"role": "user", "content": "What is a GPU?"}], "temperature": 0, "max_tokens": 16})),
    responses(
        (status = 200, description = "The reply", content((ChatReply = "application/json"), (ChatChunk = "text/event-stream"))),
        Refused,
        Busy
    )
)]
pub(crate) async fn chat_completions(
    State(shared): State<Shared>,
    caller: Caller,
    Body(body): Body,
) -> Result<Response, ApiError> {
    let server = shared.clone();
    let (turn, with_ids, Prepared { prompt, requests }) = apart(move || {
        let fields = Fields::of(&body)?;
        let turn = turn(&fields, &server.defaults)?;
        let with_ids = fields.flag("return_token_ids")?.unwrap_or(false);
        let prepared = turn.prepare(&server)?;
        Ok((turn, with_ids, prepared))
    })
    .await?;
    let Turn { generation, report, tools, .. } = turn;
    let mut replies = shared.submit(caller, requests)?;
    let (id, created) = stamp("chatcmpl-");
    let stem = id.trim_start_matches("chatcmpl-");
    let events = |choice: usize| Events::new(format!("{stem}_{choice}"));
    if generation.stream {
        let frame = json!({"id": id, "object": "chat.completion.chunk", "created": created, "model": shared.name, "choices": []});
        let opened = vec![false; replies.len()];
        let closing = if generation.include_usage { Usage::Include } else { Usage::Omit };
        let events = (0..replies.len()).map(events).collect();
        let chunks = ChatChunks { frame, shared: shared.clone(), tools, replies: events, opened, with_ids };
        return Ok(stream::respond(replies, Choices { chunks, closing }, shared.keepalive));
    }
    let mut choices = Vec::with_capacity(replies.len());
    let mut all = Vec::with_capacity(replies.len());
    for (index, reply) in replies.iter_mut().enumerate() {
        let mut collected = Collected::new(events(index));
        while let Some(event) = reply.next().await {
            collected.take(event);
        }
        let (reason, stats) = collected.finish()?;
        let message = message(&collected, &tools, prompt.form.reasons());
        let mut choice =
            json!({"index": index, "message": message, "logprobs": null, "finish_reason": reason.word()});
        if report.logprobs.is_some() {
            choice["logprobs"] = logprobs(&*shared.dialect, &collected.logprobs);
        }
        if with_ids {
            choice["token_ids"] = json!(collected.ids);
        }
        choices.push(choice);
        all.push(stats.clone());
    }
    let mut body = json!({"id": id, "object": "chat.completion", "created": created, "model": shared.name, "choices": choices});
    body["usage"] = usage(&all.iter().collect::<Vec<_>>(), generation.n);
    if with_ids {
        body["prompt_token_ids"] = json!(prompt.ids);
    }
    if let Some(stats) = all.first() {
        add_receipt(&mut body, stats);
    }
    Ok(Json(body).into_response())
}
