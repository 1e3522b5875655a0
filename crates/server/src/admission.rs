//! The way of a request into the lanes, and of its events out of them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokenfare_lanes::{Event, Finish, ReplyStats, Validated};
use tokio::sync::watch;

use crate::auth::Caller;
use crate::serve::Shared;
use crate::{ApiError, Server};

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

fn unavailable(problem: impl Into<String>) -> ApiError {
    ApiError::status(StatusCode::SERVICE_UNAVAILABLE, problem)
}

/// Takes no more requests while the server drains.
pub(crate) async fn admit(State(server): State<Shared>, request: Request, next: Next) -> Response {
    // Counted before the look at the flag, so that a drain that begins meanwhile waits for it.
    let admission = Admission::of(server);
    if admission.0.draining.load(Ordering::SeqCst) {
        return unavailable("the server is shutting down").into_response();
    }
    next.run(request).await
}

impl Server {
    /// Queues the requests of one body for `caller`.
    ///
    /// # Errors
    /// 503 when the queue is full, or the engine has stopped or makes no progress.
    pub(crate) fn submit(&self, caller: Caller, requests: Vec<Validated>) -> Result<Vec<Reply>, ApiError> {
        if let Some(time) = *self.stalled.borrow() {
            return Err(unavailable(no_progress(time)));
        }
        requests
            .into_iter()
            .map(|request| {
                let events = self.lanes.submit_for(caller.client, request)?;
                Ok(Reply { events, stalled: self.stalled.subscribe(), over: false })
            })
            .collect()
    }
}

fn no_progress(time: Duration) -> String {
    format!("the engine made no progress for {} seconds", time.as_secs())
}

/// The events of one request; a hanging engine ends it as failed. Dropping it cancels the request.
pub(crate) struct Reply {
    events: tokenfare_lanes::Reply,
    stalled: watch::Receiver<Option<Duration>>,
    over: bool,
}

impl Reply {
    /// The next event; `None` after the last.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        if self.over {
            return None;
        }
        tokio::select! {
            biased;
            event = self.events.next() => event,
            time = stall(&mut self.stalled) => {
                self.over = true;
                self.events.cancel();
                let reason = Finish::Failed(no_progress(time));
                let stats = Box::new(ReplyStats::default());
                Some(Event::Finished { pieces: Vec::new(), reason, stats })
            }
        }
    }
}

/// Resolves once the engine hangs.
async fn stall(stalled: &mut watch::Receiver<Option<Duration>>) -> Duration {
    loop {
        if let Some(time) = *stalled.borrow_and_update() {
            return time;
        }
        if stalled.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
