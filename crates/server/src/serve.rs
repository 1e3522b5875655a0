//! The router and the server's life.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::{Bytes, HttpBody};
use axum::extract::{FromRequest, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokenfare_lanes::LanesHandle;
use tokio::net::TcpListener;

use crate::chat::chat_completions;
use crate::completions::completions;
use crate::connections;
use crate::{ApiError, Defaults, Dialect};

/// Most bytes of a request body.
const BODY_LIMIT: usize = 16 << 20;
/// How often a draining server looks whether it is done.
const POLL: Duration = Duration::from_millis(20);
/// Time for the last bytes of replies after the drain.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How the API behaves.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The model's name in replies and in /v1/models.
    pub name: String,
    /// What a request gets where it says nothing.
    pub defaults: Defaults,
    /// Interval of comment lines on a silent stream; `None`: no such lines.
    pub keepalive: Option<Duration>,
    /// Grace for running replies at shutdown.
    pub drain: Duration,
}

/// What all handlers share.
pub struct Server {
    pub(crate) lanes: LanesHandle,
    pub(crate) dialect: Box<dyn Dialect>,
    pub(crate) name: String,
    pub(crate) defaults: Defaults,
    pub(crate) keepalive: Option<Duration>,
    drain: Duration,
    draining: AtomicBool,
    /// Requests admitted whose answer has not begun.
    admitted: AtomicUsize,
    created: u64,
}

pub(crate) type Shared = Arc<Server>;

/// A JSON body with refusals in the API's own shape.
pub(crate) struct Body(pub Value);

fn too_large() -> ApiError {
    ApiError::status(StatusCode::PAYLOAD_TOO_LARGE, format!("body: expected at most {BODY_LIMIT} bytes"))
}

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        // A client that announces too much is told before it sends it.
        if request.body().size_hint().lower() > BODY_LIMIT as u64 {
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

/// Runs work that may take seconds, such as encoding megabytes of text, where it holds up no other request.
pub(crate) async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|e| Err(ApiError::status(StatusCode::INTERNAL_SERVER_ERROR, e.to_string())))
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// A reply's id and creation time.
pub(crate) fn stamp(kind: &str) -> (String, u64) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let created = seconds();
    (format!("{kind}-{created:x}{:06x}", NEXT.fetch_add(1, Ordering::Relaxed)), created)
}

async fn models(State(server): State<Shared>) -> Json<Value> {
    let model = json!({
        "id": server.name,
        "object": "model",
        "created": server.created,
        "owned_by": "tokenfare",
        "max_model_len": server.lanes.info().context,
    });
    Json(json!({"object": "list", "data": [model]}))
}

async fn health(State(server): State<Shared>) -> Response {
    let stats = server.lanes.stats();
    let body = |status| Json(json!({"status": status, "running": stats.running, "waiting": stats.waiting}));
    if server.draining.load(Ordering::SeqCst) {
        (StatusCode::SERVICE_UNAVAILABLE, body("draining")).into_response()
    } else {
        body("ok").into_response()
    }
}

async fn unknown(request: Request) -> ApiError {
    ApiError::status(
        StatusCode::NOT_FOUND,
        format!(
            "no route {} {}; there are POST /v1/chat/completions, POST /v1/completions, GET /v1/models and GET /health",
            request.method(),
            request.uri().path()
        ),
    )
}

async fn wrong_method(request: Request) -> ApiError {
    ApiError::status(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{} does not accept {}", request.uri().path(), request.method()),
    )
}

/// Counts a request from its admission until its answer begins or its client leaves.
struct Admission(Shared);

impl Admission {
    fn of(server: Shared) -> Self {
        server.admitted.fetch_add(1, Ordering::SeqCst);
        Self(server)
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.0.admitted.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn admit(State(server): State<Shared>, request: Request, next: axum::middleware::Next) -> Response {
    // Counted before the look at the flag, so that a drain that begins meanwhile waits for it.
    let admission = Admission::of(server);
    if admission.0.draining.load(Ordering::SeqCst) {
        return ApiError::status(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down")
            .into_response();
    }
    next.run(request).await
}

/// The routes.
pub fn router(server: Arc<Server>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat_completions))
        .route("/v1/completions", post(completions))
        .route_layer(axum::middleware::from_fn_with_state(server.clone(), admit))
        .route("/v1/models", get(models))
        .route("/health", get(health))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(axum::extract::DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(server)
}

impl Server {
    /// A server of one model.
    pub fn new(lanes: LanesHandle, dialect: Box<dyn Dialect>, options: ServerOptions) -> Arc<Self> {
        Arc::new(Self {
            lanes,
            dialect,
            name: options.name,
            defaults: options.defaults,
            keepalive: options.keepalive,
            drain: options.drain,
            draining: AtomicBool::new(false),
            admitted: AtomicUsize::new(0),
            created: seconds(),
        })
    }

    /// Waits until no lane works, nothing waits for one and no request is on its way to them.
    async fn idle(&self) {
        loop {
            // First those on their way: they may be in a lane by the second look.
            let admitted = self.admitted.load(Ordering::SeqCst);
            let stats = self.lanes.stats();
            if admitted + stats.waiting + stats.running == 0 {
                return;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Serves until `stop` resolves. From then on it refuses new work with 503, and ends when running replies have
    /// ended, the drain time is over or `hurry` resolves; replies that still run then end with an error.
    pub async fn run(
        self: Arc<Self>,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send + 'static,
        hurry: impl Future<Output = ()> + Send + 'static,
    ) {
        let (closing, closed) = tokio::sync::oneshot::channel::<()>();
        let server = self.clone();
        let drained = async move {
            stop.await;
            server.draining.store(true, Ordering::SeqCst);
            tokio::select! {
                () = server.idle() => {}
                () = tokio::time::sleep(server.drain) => {}
                () = hurry => {}
            }
            // What still runs ends with an error that its client sees.
            server.lanes.stop();
            let _ = closing.send(());
        };
        let serving = connections::serve(listener, router(self), drained);
        let cut = async {
            let _ = closed.await;
            tokio::time::sleep(LAST_WORDS).await;
        };
        tokio::select! {
            () = serving => {}
            () = cut => {}
        }
    }
}
