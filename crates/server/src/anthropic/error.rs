//! Errors in the shape of Anthropic's API.

use axum::Json;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::ApiError;

/// The routes that answer in this shape, and all below.
const ROUTE: &str = "/v1/messages";

/// An error's body.
pub(super) fn body(error: &ApiError) -> Value {
    let kind = match error.status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::NOT_FOUND => "not_found_error",
        StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
        StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
        status if status.is_server_error() => "api_error",
        _ => "invalid_request_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": error.message}})
}

/// Writes the errors of these routes in their shape, wherever they arose.
pub(crate) async fn shape(request: Request, next: Next) -> Response {
    let below = request.uri().path().strip_prefix(ROUTE);
    let ours = below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let mut response = next.run(request).await;
    let Some(error) = response.extensions_mut().remove::<ApiError>().filter(|_| ours) else {
        return response;
    };
    let mut shaped = (error.status, Json(body(&error))).into_response();
    for (name, value) in response.headers() {
        if !shaped.headers().contains_key(name) && name != axum::http::header::CONTENT_LENGTH {
            shaped.headers_mut().insert(name.clone(), value.clone());
        }
    }
    shaped
}
