//! OpenAI's Responses: POST /v1/responses, GET and DELETE /v1/responses/{id}.

mod events;
mod items;
mod output;
mod request;
mod store;

pub(crate) use store::Store;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::ApiError;
use crate::auth::{Caller, Owner};
use crate::blocks::Blocks;
use crate::openapi::{Busy, Closed, ErrorBody, Refused, ResponseEvent, ResponseReply, ResponseRequest};
use crate::serve::{Body, Shared, apart, stamp};
use crate::stream;
use events::ResponseEvents;
use output::Frame;
use request::Asked;

/// Keeps a response once it is whole.
struct Keeper {
    server: Shared,
    owner: Owner,
    items: Vec<Value>,
}

impl Keeper {
    fn keep(self, id: &str, response: Value) {
        self.server.responses.keep(self.owner, id, response, self.items);
    }
}

/// Replies to a conversation of items, whole or streamed.
#[utoipa::path(
    post,
    path = "/v1/responses",
    request_body(content = ResponseRequest, example = json!({"input": "What is a GPU?", "temperature": 0, "max_output_tokens": 16})),
    responses(
        (status = 200, description = "The reply", content((ResponseReply = "application/json"), (ResponseEvent = "text/event-stream"))),
        Refused,
        Busy
    )
)]
pub(crate) async fn create(
    State(shared): State<Shared>,
    caller: Caller,
    Body(body): Body,
) -> Result<Response, ApiError> {
    let (server, owner) = (shared.clone(), caller.owner());
    let (Asked { items, store, repeated, .. }, turn, requests) = apart(move || {
        let asked = request::read(&body, &server.responses, owner)?;
        let (turn, prepared) = asked.chat.prepare(&server)?;
        Ok((asked, turn, prepared.requests))
    })
    .await?;
    let replies = shared.submit(caller, requests)?;
    let mut frame = Frame::new(stamp("resp_"), &shared.name, &turn, repeated);
    let store = store && Store::takes(&items);
    frame.stored(store);
    let keeper = store.then(|| Keeper { server: shared.clone(), owner, items });
    if turn.generation.stream {
        return Ok(stream::respond(replies, ResponseEvents::new(frame, keeper), shared.keepalive));
    }
    let blocks = Blocks::of(replies, frame.stem.clone()).await?;
    let response = frame.ended(&blocks)?;
    if let Some(keeper) = keeper {
        keeper.keep(&frame.id, response.clone());
    }
    Ok(Json(response).into_response())
}

/// The id that an address ends with, as it was written.
fn id(uri: &Uri) -> &str {
    uri.path().rsplit('/').next().unwrap_or_default()
}

/// A response that is kept.
#[utoipa::path(
    get,
    path = "/v1/responses/{id}",
    params(("id" = String, Path, description = "The response's id")),
    responses(
        (status = 200, body = ResponseReply),
        (status = 400, description = "A stream was asked for", body = ErrorBody),
        (status = 404, description = "No response of this id is kept for this key", body = ErrorBody),
        Closed
    )
)]
pub(crate) async fn retrieve(
    State(server): State<Shared>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Value>, ApiError> {
    let asked = uri.query().unwrap_or_default();
    if asked.split('&').any(|field| field == "stream=true") {
        return Err(ApiError::field("stream", "not supported, a kept response comes whole"));
    }
    server.responses.reply(caller.owner(), id(&uri)).map(Json)
}

/// That a response has been forgotten.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Deleted {
    id: String,
    /// `response`.
    object: &'static str,
    deleted: bool,
}

/// Forgets a response that is kept.
#[utoipa::path(
    delete,
    path = "/v1/responses/{id}",
    params(("id" = String, Path, description = "The response's id")),
    responses(
        (status = 200, body = Deleted),
        (status = 404, description = "No response of this id is kept for this key", body = ErrorBody),
        Closed
    )
)]
pub(crate) async fn delete(
    State(server): State<Shared>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Deleted>, ApiError> {
    let id = id(&uri);
    server.responses.forget(caller.owner(), id)?;
    Ok(Json(Deleted { id: id.to_owned(), object: "response", deleted: true }))
}
