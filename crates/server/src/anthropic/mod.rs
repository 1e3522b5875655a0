//! Anthropic's messages: POST /v1/messages and /v1/messages/count_tokens.

mod conversation;
mod error;
mod events;
mod message;
mod request;

pub(crate) use error::shape;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::ApiError;
use crate::auth::Caller;
use crate::blocks::Blocks;
use crate::openapi::{
    CountRequest, MessageEvent, MessageReply, MessageRequest, MessagesBusy, MessagesRefused,
};
use crate::serve::{Body, Shared, apart, stamp};
use crate::stream;
use events::MessageEvents;
use message::Frame;
use request::{Purpose, read};

/// Replies to a conversation of content blocks, whole or streamed.
#[utoipa::path(
    post,
    path = "/v1/messages",
    request_body(content = MessageRequest, example = json!({"messages": [{"role": "user", "content": "What is a GPU?"}], "temperature": 0, "max_tokens": 16})),
    responses(
        (status = 200, description = "The reply", content((MessageReply = "application/json"), (MessageEvent = "text/event-stream"))),
        MessagesRefused,
        MessagesBusy
    )
)]
pub(crate) async fn messages(
    State(shared): State<Shared>,
    caller: Caller,
    Body(body): Body,
) -> Result<Response, ApiError> {
    let server = shared.clone();
    let (turn, prepared) = apart(move || read(&body, Purpose::Reply)?.prepare(&server)).await?;
    let replies = shared.submit(caller, prepared.requests)?;
    let (id, _) = stamp("msg_");
    let stem = id.trim_start_matches("msg_").to_owned();
    let frame = Frame { id, model: shared.name.clone() };
    if turn.generation.stream {
        let events = MessageEvents::new(frame, stem, prepared.prompt.ids.len());
        return Ok(stream::respond(replies, events, shared.keepalive));
    }
    let blocks = Blocks::of(replies, stem).await?;
    Ok(Json(frame.ended(&blocks)?).into_response())
}

/// Length of a prompt.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Counted {
    input_tokens: usize,
}

/// The number of tokens that a conversation has as a prompt.
#[utoipa::path(
    post,
    path = "/v1/messages/count_tokens",
    request_body(content = CountRequest, example = json!({"messages": [{"role": "user", "content": "What is a GPU?"}]})),
    responses((status = 200, body = Counted), MessagesRefused)
)]
pub(crate) async fn count_tokens(
    State(server): State<Shared>,
    Body(body): Body,
) -> Result<Json<Counted>, ApiError> {
    let count = apart(move || read(&body, Purpose::Count)?.count(&server));
    Ok(Json(Counted { input_tokens: count.await? }))
}
