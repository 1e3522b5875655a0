//! POST /v1/chat/completions.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use tokenfare_lanes::{Channel, Event, Report, TokenLogprob, Validated};

use crate::fields::{Fields, mismatch};
use crate::generation::{Defaults, Generation};
use crate::reply::{Collected, add_receipt, finish_reason, usage};
use crate::serve::{Body, Shared, apart, stamp};
use crate::stream::{self, Chunks, Usage};
use crate::{ApiError, Chat, Dialect, Prompt, Server};

const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "latest_reminder"];
const MOST_TOP_LOGPROBS: i64 = 20;

fn text_content(field: &str, content: &Value) -> Result<String, ApiError> {
    match content {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            let mut texts = Vec::with_capacity(parts.len());
            for (i, part) in parts.iter().enumerate() {
                let at = format!("{field}[{i}]");
                match (part.get("type").and_then(Value::as_str), part.get("text").and_then(Value::as_str)) {
                    (Some("text"), Some(text)) => texts.push(text),
                    (Some("text"), None) => {
                        return Err(ApiError::field(format!("{at}.text"), "expected a string"));
                    }
                    (Some(kind), _) => {
                        return Err(ApiError::field(
                            format!("{at}.type"),
                            format!("expected text, found {kind:?}"),
                        ));
                    }
                    (None, _) => return Err(ApiError::field(format!("{at}.type"), "missing")),
                }
            }
            Ok(texts.join("\n\n"))
        }
        other => Err(mismatch(field, "a string or an array of text parts", other)),
    }
}

fn message(index: usize, value: &Value) -> Result<Value, ApiError> {
    let at = |name: &str| format!("messages[{index}].{name}");
    let Value::Object(map) = value else {
        return Err(mismatch(&format!("messages[{index}]"), "an object", value));
    };
    let role = match map.get("role") {
        Some(Value::String(role)) if ROLES.contains(&role.as_str()) => role.as_str(),
        Some(Value::String(role)) => {
            return Err(ApiError::field(
                at("role"),
                format!("expected one of {}, found {role:?}", ROLES.join(", ")),
            ));
        }
        Some(other) => return Err(mismatch(&at("role"), "a string", other)),
        None => return Err(ApiError::field(at("role"), "missing")),
    };
    let mut out: Map<String, Value> = map.clone();
    out.insert("role".into(), json!(if role == "developer" { "system" } else { role }));
    let content = match map.get("content").filter(|c| !c.is_null()) {
        Some(content) => text_content(&at("content"), content)?,
        None if role == "assistant" => String::new(),
        None => return Err(ApiError::field(at("content"), "missing")),
    };
    out.insert("content".into(), json!(content));
    Ok(Value::Object(out))
}

fn thinking(fields: &Fields<'_>, default: bool) -> Result<bool, ApiError> {
    let template = fields.object("chat_template_kwargs")?;
    let in_template = |name| template.map(|t| t.flag(name)).transpose().map(Option::flatten);
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
    Ok(own.or(in_template("enable_thinking")?).or(in_template("thinking")?).unwrap_or(default))
}

fn parse_chat(fields: &Fields<'_>, defaults: &Defaults) -> Result<Chat, ApiError> {
    let Value::Array(list) = fields.require("messages")? else {
        return Err(mismatch("messages", "an array", fields.require("messages")?));
    };
    if list.is_empty() {
        return Err(ApiError::field("messages", "expected at least one message"));
    }
    let messages = list.iter().enumerate().map(|(i, m)| message(i, m)).collect::<Result<_, _>>()?;
    let template = fields.object("chat_template_kwargs")?;
    let effort = fields.get("reasoning_effort").or_else(|| template.and_then(|t| t.get("reasoning_effort")));
    Ok(Chat {
        messages,
        thinking: thinking(fields, defaults.thinking)?,
        effort: effort.or(defaults.effort.as_ref()).cloned(),
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

struct ChatChunks {
    frame: Value,
    shared: Shared,
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
}

impl Chunks for ChatChunks {
    fn event(&mut self, choice: usize, event: &Event) -> Result<Vec<Value>, ApiError> {
        let mut chunks = Vec::new();
        let delta = |channel, text: &str| match channel {
            Channel::Content => json!({"content": text}),
            Channel::Reasoning => json!({"reasoning_content": text}),
        };
        if !std::mem::replace(&mut self.opened[choice], true) {
            chunks.push(self.chunk(choice, json!({"role": "assistant", "content": ""}), None));
        }
        match event {
            Event::Prefilled { .. } => {}
            Event::Tokens(tokens) => {
                for token in tokens {
                    let first = chunks.len();
                    for piece in &token.pieces {
                        chunks.push(self.chunk(choice, delta(piece.channel, &piece.text), None));
                    }
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
                let reason = finish_reason(reason)?;
                chunks.extend(pieces.iter().map(|p| self.chunk(choice, delta(p.channel, &p.text), None)));
                chunks.push(self.chunk(choice, json!({}), Some(reason)));
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

/// A request ready for the lanes.
struct Prepared {
    generation: Generation,
    report: Report,
    with_ids: bool,
    prompt: Prompt,
    requests: Vec<Validated>,
}

fn prepare(server: &Server, body: &Value) -> Result<Prepared, ApiError> {
    let fields = Fields::of(body)?;
    let generation = Generation::parse(&fields, &server.defaults)?;
    let chat = parse_chat(&fields, &server.defaults)?;
    let top = fields.integer("top_logprobs", 0..=MOST_TOP_LOGPROBS)?;
    let wanted = fields.flag("logprobs")?.unwrap_or(false);
    if top.is_some() && !wanted {
        return Err(ApiError::field("top_logprobs", "expected logprobs: true beside it"));
    }
    let report = Report { logprobs: wanted.then_some(top.unwrap_or(0) as usize), prompt_logprobs: None };
    let with_ids = fields.flag("return_token_ids")?.unwrap_or(false);
    let prompt = server.dialect.encode_chat(&chat)?;
    let room = server.lanes.info().context.saturating_sub(prompt.ids.len());
    let max_new = generation.max_tokens.or(server.defaults.max_tokens).unwrap_or(room);
    let requests = generation.requests(&prompt, max_new, report, server)?;
    Ok(Prepared { generation, report, with_ids, prompt, requests })
}

/// The handler.
pub async fn chat_completions(State(shared): State<Shared>, Body(body): Body) -> Result<Response, ApiError> {
    let server = shared.clone();
    let Prepared { generation, report, with_ids, prompt, requests } =
        apart(move || prepare(&server, &body)).await?;
    let mut replies = requests.into_iter().map(|r| shared.lanes.submit(r)).collect::<Result<Vec<_>, _>>()?;
    let (id, created) = stamp("chatcmpl");
    if generation.stream {
        let frame = json!({"id": id, "object": "chat.completion.chunk", "created": created, "model": shared.name, "choices": []});
        let opened = vec![false; replies.len()];
        let closing = if generation.include_usage { Usage::Include } else { Usage::Omit };
        let chunks = ChatChunks { frame, shared: shared.clone(), opened, with_ids };
        return Ok(stream::respond(replies, chunks, closing, shared.keepalive));
    }
    let mut choices = Vec::with_capacity(replies.len());
    let mut all = Vec::with_capacity(replies.len());
    for (index, reply) in replies.iter_mut().enumerate() {
        let mut collected = Collected::default();
        while let Some(event) = reply.next().await {
            collected.take(event);
        }
        let (reason, stats) = collected.finish()?;
        let mut message = json!({"role": "assistant", "content": collected.content});
        if prompt.form.reasons() {
            message["reasoning_content"] = json!(collected.reasoning);
        }
        let mut choice =
            json!({"index": index, "message": message, "logprobs": null, "finish_reason": reason});
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
