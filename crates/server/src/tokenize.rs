//! POST /tokenize and /detokenize.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::chat::turn;
use crate::fields::{Fields, mismatch};
use crate::openapi::{DetokenizeRequest, Refused, TokenizeRequest};
use crate::serve::{Body, Shared, apart};
use crate::{ApiError, Server};

/// Tokens of a text or a conversation.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Tokens {
    /// Number of tokens.
    count: usize,
    /// Most tokens of prompt and reply together.
    max_model_len: usize,
    /// Token ids.
    tokens: Vec<u32>,
    /// The text of each token, if asked for; what is no UTF-8 by itself shows U+FFFD.
    token_strs: Option<Vec<String>>,
}

/// Text of tokens.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Text {
    /// The text.
    prompt: String,
}

fn encoded(server: &Server, fields: &Fields<'_>) -> Result<Vec<u32>, ApiError> {
    match (fields.get("prompt"), fields.get("messages")) {
        (Some(Value::String(text)), None) => Ok(server.dialect.encode(text)?),
        (Some(other), None) => Err(mismatch("prompt", "a string", other)),
        (None, Some(_)) => {
            let chat = turn(fields, &server.defaults)?.chat(&server.defaults);
            Ok(server.dialect.encode_chat(&chat)?.ids)
        }
        (Some(_), Some(_)) => Err(ApiError::field("messages", "expected no prompt beside them")),
        (None, None) => Err(ApiError::field("prompt", "missing, and no messages either")),
    }
}

fn tokens(server: &Server, body: &Value) -> Result<Tokens, ApiError> {
    let fields = Fields::of(body)?;
    let shown = fields.flag("return_token_strs")?.unwrap_or(false);
    let tokens = encoded(server, &fields)?;
    let text = |&id: &u32| server.dialect.decode(&[id]);
    Ok(Tokens {
        count: tokens.len(),
        max_model_len: server.lanes.info().context,
        token_strs: shown.then(|| tokens.iter().map(text).collect()),
        tokens,
    })
}

/// Token ids of a text or a conversation, as a completion or a chat would be fed.
#[utoipa::path(
    post,
    path = "/tokenize",
    request_body = TokenizeRequest,
    responses((status = 200, body = Tokens), Refused)
)]
pub(crate) async fn tokenize(
    State(server): State<Shared>,
    Body(body): Body,
) -> Result<Json<Tokens>, ApiError> {
    apart(move || tokens(&server, &body)).await.map(Json)
}

fn ids(fields: &Fields<'_>, vocab: usize) -> Result<Vec<u32>, ApiError> {
    let list = match fields.require("tokens")? {
        Value::Array(list) => list,
        other => return Err(mismatch("tokens", "an array of token ids", other)),
    };
    list.iter()
        .map(|value| {
            let id = value.as_u64().filter(|&id| id < vocab as u64).and_then(|id| u32::try_from(id).ok());
            id.ok_or_else(|| ApiError::field("tokens", format!("expected ids below {vocab}, found {value}")))
        })
        .collect()
}

/// Text of token ids, control tokens included.
#[utoipa::path(
    post,
    path = "/detokenize",
    request_body = DetokenizeRequest,
    responses((status = 200, body = Text), Refused)
)]
pub(crate) async fn detokenize(
    State(server): State<Shared>,
    Body(body): Body,
) -> Result<Json<Text>, ApiError> {
    apart(move || {
        let ids = ids(&Fields::of(&body)?, server.lanes.info().vocab)?;
        Ok(Text { prompt: server.dialect.decode(&ids) })
    })
    .await
    .map(Json)
}
