//! POST /v1/completions.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use tokenfare_lanes::{Event, Piece, Report, TokenLogprob, Validated};

use crate::answer::Asked;
use crate::auth::Caller;
use crate::fields::{Fields, mismatch};
use crate::generation::{Generation, Wanted};
use crate::openapi::{Busy, CompletionChunk, CompletionReply, CompletionRequest, Refused};
use crate::reply::{Collected, Events, add_receipt, usage};
use crate::serve::{Body, Shared, apart, stamp};
use crate::stream::{self, Choices, Chunks, Usage};
use crate::{ApiError, Calls, Dialect, Form, Prompt, Server};

const DEFAULT_MAX_TOKENS: usize = 16;
const MOST_PROMPTS: usize = 64;

fn ids(value: &[Value]) -> Result<Vec<u32>, ApiError> {
    value
        .iter()
        .map(|v| {
            v.as_u64()
                .and_then(|id| u32::try_from(id).ok())
                .ok_or_else(|| ApiError::field("prompt", format!("expected token ids, found {v}")))
        })
        .collect()
}

fn prompts(fields: &Fields<'_>, server: &Server) -> Result<Vec<Vec<u32>>, ApiError> {
    let expected = "a string, an array of token ids, or an array of these";
    let encode = |text: &str| Ok::<_, ApiError>(server.dialect.encode(text)?);
    let list = match fields.require("prompt")? {
        Value::String(text) => vec![encode(text)?],
        Value::Array(items) => match items.first() {
            None => vec![Vec::new()],
            Some(Value::Number(_)) => vec![ids(items)?],
            Some(Value::String(_) | Value::Array(_)) => items
                .iter()
                .map(|item| match item {
                    Value::String(text) => encode(text),
                    Value::Array(inner) => ids(inner),
                    other => Err(mismatch("prompt", expected, other)),
                })
                .collect::<Result<_, _>>()?,
            Some(other) => return Err(mismatch("prompt", expected, other)),
        },
        other => return Err(mismatch("prompt", expected, other)),
    };
    if list.len() > MOST_PROMPTS {
        return Err(ApiError::field(
            "prompt",
            format!("expected at most {MOST_PROMPTS} prompts, found {}", list.len()),
        ));
    }
    Ok(list)
}

/// How tokens are written in `logprobs`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TokenNames {
    Text,
    Ids,
}

/// What the reply shows beside its text.
#[derive(Clone, Copy)]
struct Shown {
    echo: bool,
    token_ids: bool,
    names: TokenNames,
}

struct LogprobLists {
    tokens: Vec<Value>,
    logprobs: Vec<Value>,
    top: Vec<Value>,
    offsets: Vec<Value>,
    offset: usize,
}

/// A token's text, or its bytes where they are no text by themselves, as OpenAI writes them.
fn name(dialect: &dyn Dialect, names: TokenNames, id: u32) -> String {
    match (names, std::str::from_utf8(dialect.bytes(id))) {
        (TokenNames::Ids, _) => format!("token_id:{id}"),
        (TokenNames::Text, Ok(text)) => text.to_owned(),
        (TokenNames::Text, Err(_)) => {
            dialect.bytes(id).iter().fold("bytes:".to_owned(), |name, byte| format!("{name}\\x{byte:02x}"))
        }
    }
}

impl LogprobLists {
    fn new() -> Self {
        Self { tokens: vec![], logprobs: vec![], top: vec![], offsets: vec![], offset: 0 }
    }

    fn push(&mut self, shared: &Shared, names: TokenNames, id: u32, known: Option<&TokenLogprob>) {
        let name = |id| name(&*shared.dialect, names, id);
        self.tokens.push(json!(name(id)));
        self.logprobs.push(known.map_or(Value::Null, |t| json!(f64::from(t.logprob))));
        self.top.push(known.map_or(Value::Null, |t| {
            let mut map = Map::new();
            for &(id, l) in &t.top {
                map.entry(name(id)).or_insert_with(|| json!(f64::from(l)));
            }
            Value::Object(map)
        }));
        self.offsets.push(json!(self.offset));
        self.offset += shared.dialect.decode(&[id]).chars().count();
    }

    fn json(self) -> Value {
        json!({"tokens": self.tokens, "token_logprobs": self.logprobs, "top_logprobs": self.top, "text_offset": self.offsets})
    }
}

fn echoed(
    shared: &Shared,
    shown: Shown,
    prompt: &[u32],
    known: Option<&[TokenLogprob]>,
    lists: &mut LogprobLists,
) {
    for (i, &id) in prompt.iter().enumerate() {
        let logprob = i.checked_sub(1).and_then(|i| known.and_then(|k| k.get(i)));
        lists.push(shared, shown.names, id, logprob);
    }
}

struct CompletionChunks {
    frame: Value,
    shared: Shared,
    shown: Shown,
    logprobs: bool,
    prompts: Vec<Vec<u32>>,
    n: usize,
    offset: Vec<usize>,
}

impl CompletionChunks {
    fn chunk(&self, choice: usize, text: &str, lists: Option<LogprobLists>, finish: Option<&str>) -> Value {
        let mut chunk = self.frame.clone();
        let logprobs = lists.map_or(Value::Null, LogprobLists::json);
        chunk["choices"] =
            json!([{"index": choice, "text": text, "logprobs": logprobs, "finish_reason": finish}]);
        chunk
    }
}

fn joined(pieces: &[Piece]) -> String {
    let text = |piece: &Piece| match piece {
        Piece::Text { text, .. } => text.clone(),
        // A raw completion is not told apart: calls are text.
        Piece::Call(_) | Piece::Arguments(_) | Piece::CallEnd => String::new(),
    };
    pieces.iter().map(text).collect()
}

impl Chunks for CompletionChunks {
    fn event(&mut self, choice: usize, event: &Event) -> Result<Vec<Value>, ApiError> {
        let prompt = &self.prompts[choice / self.n];
        match event {
            Event::Prefilled { prompt_logprobs, .. } if self.shown.echo => {
                let mut lists = LogprobLists::new();
                echoed(&self.shared, self.shown, prompt, prompt_logprobs.as_deref(), &mut lists);
                let text = self.shared.dialect.decode(prompt);
                self.offset[choice] = lists.offset;
                Ok(vec![self.chunk(choice, &text, self.logprobs.then_some(lists), None)])
            }
            Event::Prefilled { .. } => Ok(vec![]),
            Event::Tokens(tokens) => {
                let mut chunks = Vec::new();
                for token in tokens {
                    let text = joined(&token.pieces);
                    let lists = self.logprobs.then(|| {
                        let mut lists = LogprobLists { offset: self.offset[choice], ..LogprobLists::new() };
                        lists.push(&self.shared, self.shown.names, token.id, token.logprob.as_ref());
                        self.offset[choice] = lists.offset;
                        lists
                    });
                    if text.is_empty() && lists.is_none() && !self.shown.token_ids {
                        continue;
                    }
                    let mut chunk = self.chunk(choice, &text, lists, None);
                    if self.shown.token_ids {
                        chunk["choices"][0]["token_ids"] = json!([token.id]);
                    }
                    chunks.push(chunk);
                }
                Ok(chunks)
            }
            Event::Finished { pieces, reason, .. } => {
                let reason = Events::default().end(reason)?;
                Ok(vec![self.chunk(choice, &joined(pieces), None, Some(reason.word()))])
            }
        }
    }

    fn frame(&self) -> Value {
        self.frame.clone()
    }

    fn choices_a_prompt(&self) -> usize {
        self.n
    }
}

/// A request ready for the lanes.
struct Prepared {
    generation: Generation,
    logprobs: bool,
    shown: Shown,
    prompts: Vec<Vec<u32>>,
    requests: Vec<Validated>,
}

fn prepare(server: &Server, body: &Value) -> Result<Prepared, ApiError> {
    let fields = Fields::of(body)?;
    let generation = Generation::parse(&fields, &server.defaults)?;
    let vocab = server.lanes.info().vocab as i64;
    let logprobs = fields.integer("logprobs", 0..=vocab)?.map(|n| n as usize);
    let best_of = fields.integer("best_of", 1..=i64::MAX)?;
    if best_of.is_some_and(|b| b as usize != generation.n) {
        return Err(ApiError::field("best_of", format!("expected the same number as n ({})", generation.n)));
    }
    let names = match fields.flag("return_tokens_as_token_ids")? {
        Some(true) => TokenNames::Ids,
        _ => TokenNames::Text,
    };
    let shown = Shown {
        echo: fields.flag("echo")?.unwrap_or(false),
        token_ids: fields.flag("return_token_ids")?.unwrap_or(false),
        names,
    };
    let report = Report { logprobs, prompt_logprobs: logprobs.filter(|_| shown.echo) };
    let prompts = prompts(&fields, server)?;
    let max_new = generation.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS);
    if fields.get("tools").is_some_and(|tools| *tools != json!([])) {
        return Err(ApiError::field("tools", "not supported"));
    }
    let guide = Asked::parse(&fields)?.map(Asked::guide);
    let mut requests = Vec::new();
    for ids in &prompts {
        let prompt = Prompt { ids: ids.clone(), marks: vec![], form: Form::Raw };
        let (prompt, guide) = (&prompt, guide.as_ref());
        let wanted = Wanted { prompt, max_new, report, calls: Calls::Any, guide };
        requests.extend(generation.requests(&wanted, server)?);
    }
    Ok(Prepared { generation, logprobs: logprobs.is_some(), shown, prompts, requests })
}

/// Continues prompts, whole or streamed.
#[utoipa::path(
    post,
    path = "/v1/completions",
    request_body(content = CompletionRequest, example = json!({"prompt": "The sea is", "temperature": 0, "max_tokens": 16, "logprobs": 1})),
    responses(
        (status = 200, description = "The reply", content((CompletionReply = "application/json"), (CompletionChunk = "text/event-stream"))),
        Refused,
        Busy
    )
)]
pub(crate) async fn completions(
    State(shared): State<Shared>,
    caller: Caller,
    Body(body): Body,
) -> Result<Response, ApiError> {
    let server = shared.clone();
    let Prepared { generation, logprobs, shown, prompts, requests } =
        apart(move || prepare(&server, &body)).await?;
    let mut replies = shared.submit(caller, requests)?;
    let (id, created) = stamp("cmpl-");
    let frame = json!({"id": id, "object": "text_completion", "created": created, "model": shared.name, "choices": []});
    if generation.stream {
        let closing = if generation.include_usage { Usage::Include } else { Usage::Omit };
        let offset = vec![0; replies.len()];
        let chunks = CompletionChunks {
            frame,
            shared: shared.clone(),
            shown,
            logprobs,
            prompts,
            n: generation.n,
            offset,
        };
        return Ok(stream::respond(replies, Choices { chunks, closing }, shared.keepalive));
    }
    let mut choices = Vec::new();
    let mut all = Vec::new();
    for (index, reply) in replies.iter_mut().enumerate() {
        let mut collected = Collected::default();
        while let Some(event) = reply.next().await {
            collected.take(event);
        }
        let (reason, stats) = collected.finish()?;
        let prompt = &prompts[index / generation.n];
        let mut text = if shown.echo { shared.dialect.decode(prompt) } else { String::new() };
        text.push_str(&collected.content);
        let mut choice =
            json!({"index": index, "text": text, "logprobs": null, "finish_reason": reason.word()});
        if logprobs {
            let mut lists = LogprobLists::new();
            if shown.echo {
                echoed(&shared, shown, prompt, collected.prompt_logprobs.as_deref(), &mut lists);
            }
            for (i, &id) in collected.ids.iter().enumerate() {
                lists.push(&shared, shown.names, id, collected.logprobs.get(i));
            }
            choice["logprobs"] = lists.json();
        }
        if shown.token_ids {
            choice["token_ids"] = json!(collected.ids);
            choice["prompt_token_ids"] = json!(prompt);
        }
        choices.push(choice);
        all.push(stats.clone());
    }
    let mut body = frame;
    body["choices"] = json!(choices);
    body["usage"] = usage(&all.iter().collect::<Vec<_>>(), generation.n);
    if let Some(stats) = all.first() {
        add_receipt(&mut body, stats);
    }
    Ok(Json(body).into_response())
}
