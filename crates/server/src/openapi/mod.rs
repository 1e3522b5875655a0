//! GET /openapi.json: the document, made from the handlers and these types of what they read and write.

mod messages;
mod replies;
mod requests;
mod responses;

pub(crate) use messages::{
    CountRequest, MessageEvent, MessageReply, MessageRequest, MessagesBusy, MessagesRefused,
};
pub(crate) use replies::{ChatChunk, ChatReply, CompletionChunk, CompletionReply};
pub(crate) use requests::{ChatRequest, CompletionRequest, DetokenizeRequest, TokenizeRequest};
pub(crate) use responses::{ResponseEvent, ResponseReply, ResponseRequest};

use serde::Serialize;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{IntoResponses, Modify, OpenApi, ToSchema};

/// An error in OpenAI's shape.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ErrorBody {
    error: ErrorDetail,
}

/// What was expected and found.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ErrorDetail {
    message: String,
    /// `invalid_request_error`, `overloaded_error` or `server_error`.
    r#type: String,
    /// The field at fault.
    param: Option<String>,
    /// A stable word for programs, such as `context_length_exceeded` or `invalid_api_key`.
    code: Option<String>,
}

/// What every route but /health may answer.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "describes answers")]
pub(crate) enum Closed {
    /// No API key, or a wrong one
    #[response(status = 401)]
    Unauthorized(ErrorBody),
    /// The method is not taken here
    #[response(status = 405)]
    Method(ErrorBody),
    /// Address and headers are too long
    #[response(status = 431)]
    Head(ErrorBody),
}

/// What routes that read a body may answer.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "describes answers")]
pub(crate) enum Refused {
    /// A malformed body, or a schema or grammar that does not compile; the field at fault is named
    #[response(status = 400)]
    Field(ErrorBody),
    /// No API key, or a wrong one
    #[response(status = 401)]
    Unauthorized(ErrorBody),
    /// The method is not taken here
    #[response(status = 405)]
    Method(ErrorBody),
    /// The body did not come
    #[response(status = 408)]
    Slow(ErrorBody),
    /// The body is too large
    #[response(status = 413)]
    Large(ErrorBody),
    /// Address and headers are too long
    #[response(status = 431)]
    Head(ErrorBody),
    /// The server failed
    #[response(status = 500)]
    Failed(ErrorBody),
}

/// What routes that generate may answer beside [`Refused`].
#[derive(IntoResponses)]
#[allow(dead_code, reason = "describes answers")]
pub(crate) enum Busy {
    /// The queue is full, the server drains, or the engine has stopped; see the header Retry-After
    #[response(status = 503)]
    Unavailable(ErrorBody),
}

struct Keys;

impl Modify for Keys {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        let components = api.components.get_or_insert_default();
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
        let header = ApiKey::Header(ApiKeyValue::new("x-api-key"));
        components.add_security_scheme("x-api-key", SecurityScheme::ApiKey(header));
    }
}

/// The document of every route.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tokenfare",
        description = "An inference server for DeepSeek-V4.1 with exact, priced speculative decoding. A key is needed only if \
                       the server was given one. Fields that are not listed are ignored."
    ),
    paths(
        crate::chat::chat_completions,
        crate::completions::completions,
        crate::responses::create,
        crate::responses::retrieve,
        crate::responses::delete,
        crate::anthropic::messages,
        crate::anthropic::count_tokens,
        crate::tokenize::tokenize,
        crate::tokenize::detokenize,
        crate::router::models,
        crate::router::health,
        crate::router::openapi,
        crate::pricing::pricing,
        crate::metrics::metrics
    ),
    components(schemas(ErrorBody, messages::MessagesError, ChatChunk, CompletionChunk, ResponseEvent, MessageEvent)),
    security(("bearer" = []), ("x-api-key" = [])),
    modifiers(&Keys)
)]
struct Document;

/// The document.
pub(crate) fn document() -> utoipa::openapi::OpenApi {
    Document::openapi()
}
