//! The routes, and the small handlers about the server itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Serialize;
use utoipa::ToSchema;

use crate::admission::admit;
use crate::anthropic;
use crate::auth::authenticate;
use crate::chat::chat_completions;
use crate::completions::completions;
use crate::connections::patience;
use crate::openapi::{Closed, ErrorBody, document};
use crate::pricing::pricing;
use crate::serve::Shared;
use crate::tokenize::{detokenize, tokenize};
use crate::{ApiError, Server, limits, metrics, responses};

/// The models served.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Models {
    /// `list`.
    object: &'static str,
    data: Vec<ModelEntry>,
}

/// A model that is served.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ModelEntry {
    id: String,
    /// `model`.
    object: &'static str,
    /// Start of the server, in seconds since 1970.
    created: u64,
    owned_by: &'static str,
    /// Most tokens of prompt and reply together.
    max_model_len: usize,
}

#[utoipa::path(get, path = "/v1/models", responses((status = 200, body = Models), Closed))]
pub(crate) async fn models(State(server): State<Shared>) -> Json<Models> {
    let entry = ModelEntry {
        id: server.name.clone(),
        object: "model",
        created: server.created,
        owned_by: "tokenfare",
        max_model_len: server.lanes.info().context,
    };
    Json(Models { object: "list", data: vec![entry] })
}

/// Whether the server takes requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// It does.
    Ok,
    /// It finishes what it has and ends.
    Draining,
    /// The engine makes no progress.
    Stalled,
    /// The engine has stopped.
    Failed,
}

/// How the server is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    status: Status,
    /// Requests in lanes.
    running: usize,
    /// Requests waiting for a lane.
    waiting: usize,
}

#[utoipa::path(
    get,
    path = "/health",
    security(()),
    responses(
        (status = 200, body = Health),
        (status = 405, description = "The method is not taken here", body = ErrorBody),
        (status = 431, description = "Address and headers are too long", body = ErrorBody),
        (status = 503, description = "Draining, stalled or failed", body = Health)
    )
)]
pub(crate) async fn health(State(server): State<Shared>) -> Response {
    let stats = server.lanes.stats();
    let status = if server.lanes.has_ended() {
        Status::Failed
    } else if server.draining.load(Ordering::SeqCst) {
        Status::Draining
    } else if server.stalled.borrow().is_some() {
        Status::Stalled
    } else {
        Status::Ok
    };
    let code = if status == Status::Ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(Health { status, running: stats.running, waiting: stats.waiting })).into_response()
}

#[utoipa::path(get, path = "/openapi.json", responses((status = 200, description = "This document"), Closed))]
pub(crate) async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    Json(document())
}

/// Every route with its method, as hints name them.
const ROUTES: &str = "POST /v1/chat/completions, POST /v1/completions, POST /v1/responses, GET and DELETE \
                      /v1/responses/{id}, POST /v1/messages, POST /v1/messages/count_tokens, POST /tokenize, POST /detokenize, GET /v1/models, \
                      GET /v1/pricing, GET /metrics, GET /openapi.json and GET /health";

async fn unknown(request: Request) -> ApiError {
    let problem = format!("no route {} {}; there are {ROUTES}", request.method(), request.uri().path());
    ApiError::status(StatusCode::NOT_FOUND, problem)
}

async fn wrong_method(request: Request) -> ApiError {
    ApiError::status(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{} does not accept {}", request.uri().path(), request.method()),
    )
}

/// The routes.
pub fn router(server: Arc<Server>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat_completions))
        .route("/v1/completions", post(completions))
        .route("/v1/responses", post(responses::create))
        .route("/v1/messages", post(anthropic::messages))
        .route_layer(from_fn_with_state(server.clone(), admit))
        .route("/v1/responses/{id}", get(responses::retrieve).delete(responses::delete))
        .route("/v1/messages/count_tokens", post(anthropic::count_tokens))
        .route("/tokenize", post(tokenize))
        .route("/detokenize", post(detokenize))
        .route("/v1/models", get(models))
        .route("/v1/pricing", get(pricing))
        .route("/metrics", get(metrics::metrics))
        .route("/openapi.json", get(openapi))
        .route("/health", get(health))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(server.clone(), authenticate))
        .layer(DefaultBodyLimit::max(limits::BODY))
        .layer(from_fn(patience))
        .layer(from_fn(limits::head))
        .layer(from_fn(anthropic::shape))
        .layer(from_fn_with_state(server.clone(), metrics::count))
        .with_state(server)
}
