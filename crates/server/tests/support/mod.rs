//! A client of a router.
#![allow(dead_code, reason = "each test file uses a part")]

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use serde_json::Value;
use tokenfare_server::{Server, router};
use tower::ServiceExt;

pub const CHAT: &str = "/v1/chat/completions";
pub const PLAIN: &str = "/v1/completions";
pub const RESPONSES: &str = "/v1/responses";
pub const MESSAGES: &str = "/v1/messages";

/// An answer.
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }

    /// Status, `param`, `code` and message of an error.
    pub fn error(&self) -> (u16, Value, Value, String) {
        let error = self.json()["error"].clone();
        let message = error["message"].as_str().unwrap().to_owned();
        (self.status.as_u16(), error["param"].clone(), error["code"].clone(), message)
    }

    /// The events of a stream without its end, which must be `[DONE]`.
    pub fn events(&self) -> Vec<Value> {
        assert_eq!(self.status, 200, "{}", self.text);
        let mut data: Vec<&str> = self.text.lines().filter_map(|l| l.strip_prefix("data: ")).collect();
        assert_eq!(data.pop(), Some("[DONE]"));
        data.into_iter().map(|d| serde_json::from_str(d).unwrap()).collect()
    }
}

/// The events of a stream that names each by its type.
pub fn named(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text);
    let blocks = answer.text.split("\n\n").filter(|block| !block.is_empty());
    let event = |block: &str| {
        let (name, data) = block.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["type"], name, "{block}");
        data
    };
    blocks.map(event).collect()
}

/// A body with more fields.
pub fn with(mut body: Value, more: &Value) -> Value {
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// Sends a request with these headers.
pub async fn send(
    server: &Arc<Server>,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::from(body)).unwrap();
    let response = router(server.clone()).oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.unwrap();
    Answer { status: head.status, headers: head.headers, text: String::from_utf8(bytes.to_vec()).unwrap() }
}

/// GETs a path.
pub async fn get(server: &Arc<Server>, path: &str) -> Answer {
    send(server, "GET", path, &[], Vec::new()).await
}

/// POSTs JSON.
pub async fn post(server: &Arc<Server>, path: &str, body: &Value) -> Answer {
    send(server, "POST", path, &[], body.to_string().into_bytes()).await
}
