//! Errors as clients see them.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokenfare_lanes::{RequestError, SubmitError};

use crate::DialectError;

/// An error answer in OpenAI's shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// HTTP status.
    pub status: StatusCode,
    /// What was expected and found.
    pub message: String,
    /// The field, if one is at fault.
    pub param: Option<String>,
    /// A stable word for programs.
    pub code: Option<&'static str>,
}

impl ApiError {
    /// 400 about one field; the message starts with its name.
    pub fn field(field: impl Into<String>, problem: impl std::fmt::Display) -> Self {
        let field = field.into();
        let message = format!("{field}: {problem}");
        Self { status: StatusCode::BAD_REQUEST, message, param: Some(field), code: None }
    }

    /// An error of a status without a field.
    pub fn status(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), param: None, code: None }
    }

    /// The body.
    pub fn body(&self) -> Value {
        let kind = match self.status {
            StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
            s if s.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        json!({"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}})
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        // Another protocol's routes write it in their own shape.
        response.extensions_mut().insert(self);
        response
    }
}

impl From<RequestError> for ApiError {
    fn from(error: RequestError) -> Self {
        let message = error.to_string();
        let (param, code) = match &error {
            RequestError::EmptyPrompt => ("prompt", None),
            RequestError::ContextLength { .. } => ("prompt", Some("context_length_exceeded")),
            RequestError::Token { field, .. } | RequestError::Range { field, .. } => (*field, None),
        };
        Self { status: StatusCode::BAD_REQUEST, message, param: Some(param.to_owned()), code }
    }
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> Self {
        Self::status(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
    }
}

impl From<DialectError> for ApiError {
    fn from(error: DialectError) -> Self {
        Self::field(error.field, error.message)
    }
}
