//! What a request may hold at most, and reading it.

use axum::body::{Bytes, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use crate::ApiError;

/// Most bytes of a request body.
pub(crate) const BODY: usize = 16 << 20;
/// Most bytes of a request's address and headers.
const HEAD: usize = 32 << 10;
/// Most messages of one conversation.
const MESSAGES: usize = 4096;

/// A JSON body with refusals in the API's own shape. Values nest at most 127 deep.
pub(crate) struct Body(pub Value);

fn too_large() -> ApiError {
    ApiError::status(StatusCode::PAYLOAD_TOO_LARGE, format!("body: expected at most {BODY} bytes"))
}

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        // A client that announces too much is told before it sends it.
        if request.body().size_hint().lower() > BODY as u64 {
            return Err(too_large());
        }
        let bytes = Bytes::from_request(request, state).await.map_err(|rejection| {
            match rejection.into_response().status() {
                StatusCode::PAYLOAD_TOO_LARGE => too_large(),
                _ => ApiError::field("body", "the connection ended before the whole body came"),
            }
        })?;
        let text = std::str::from_utf8(&bytes).map_err(|e| {
            ApiError::field("body", format!("expected UTF-8, found an invalid byte at {}", e.valid_up_to()))
        })?;
        serde_json::from_str(text)
            .map(Self)
            .map_err(|e| ApiError::field("body", format!("expected JSON: {e}")))
    }
}

/// Refuses a request whose address and headers are too long.
pub(crate) async fn head(request: Request, next: Next) -> Response {
    let headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len());
    let uri = request.uri();
    let address = uri.path().len() + uri.query().map_or(0, str::len);
    if address + headers.sum::<usize>() > HEAD {
        let problem = format!("address and headers: expected at most {HEAD} bytes");
        return ApiError::status(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, problem).into_response();
    }
    next.run(request).await
}

/// Refuses a conversation of too many messages.
pub(crate) fn messages(count: usize) -> Result<(), ApiError> {
    if count > MESSAGES {
        return Err(ApiError::field("messages", format!("expected at most {MESSAGES}, found {count}")));
    }
    Ok(())
}
