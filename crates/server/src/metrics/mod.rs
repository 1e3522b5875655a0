//! GET /metrics: counts and times for Prometheus. A count that the server cannot keep is left out, never zero.

mod lanes;
mod times;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tokenfare_lanes::{LanesHandle, Observer};

use self::lanes::LanesCounts;
use self::times::{RoundWatch, Times};
use crate::ApiError;
use crate::openapi::{Closed, ErrorBody};
use crate::pricing::Costs;
use crate::serve::Shared;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    route: String,
    method: String,
    status: u16,
}

struct Inner {
    registry: Mutex<Registry>,
    answered: Family<Answered, Counter>,
    times: Times,
}

/// Counts and times of one server; clones share them.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("tokenfare");
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The server's version", build);
        let answered = Family::<Answered, Counter>::default();
        registry.register("http_requests", "Answers by route, method and status", answered.clone());
        let times = Times::register(&mut registry);
        Self(Arc::new(Inner { registry: Mutex::new(registry), answered, times }))
    }
}

impl Metrics {
    /// Watches an engine's rounds; to be handed to the engine whose handle the server gets.
    pub fn observer(&self) -> Box<dyn Observer> {
        Box::new(RoundWatch::new(self.0.times.clone()))
    }

    /// Shows the counts of an engine from now on.
    pub(crate) fn watch_lanes(&self, lanes: &LanesHandle, costs: &Costs) {
        let counts = LanesCounts::new(lanes.clone(), costs);
        let mut registry = self.0.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.register_collector(Box::new(counts));
    }

    fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.0.registry.lock().unwrap_or_else(PoisonError::into_inner))?;
        Ok(text)
    }
}

/// Counts and times in the OpenMetrics text format.
#[utoipa::path(
    get,
    path = "/metrics",
    responses((status = 200, description = "OpenMetrics text", body = String, content_type = CONTENT_TYPE),
        (status = 500, description = "The server failed", body = ErrorBody),
        Closed
    )
)]
pub(crate) async fn metrics(State(server): State<Shared>) -> Result<Response, ApiError> {
    let text = server.metrics.text();
    let text = text.map_err(|e| ApiError::status(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()))?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response())
}

/// Counts an answer once its head is known.
pub(crate) async fn count(State(server): State<Shared>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    // Any word may stand as a method, so those that no route takes share one label.
    let method = match request.method().as_str() {
        known @ ("GET" | "POST" | "HEAD" | "PUT" | "DELETE" | "OPTIONS" | "PATCH") => known,
        _ => "other",
    };
    let method = method.to_owned();
    let response = next.run(request).await;
    let status = response.status().as_u16();
    server.metrics.0.answered.get_or_create(&Answered { route, method, status }).inc();
    response
}
