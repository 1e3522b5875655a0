//! GET /v1/pricing: what rounds cost and how drafts fare.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use tokenfare_lanes::Drafts;
use utoipa::ToSchema;

use crate::openapi::Closed;
use crate::serve::Shared;

/// What the server knows of costs beside the engine's own numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Costs {
    /// Where the table comes from, in one word.
    pub source: String,
    /// Whether drafts are priced at all.
    pub drafts: Drafts,
    /// Memory for kept prompt states, in bytes; 0 keeps none.
    pub prompt_cache_bytes: usize,
}

/// What a round costs by its rows, and how often drafts are kept.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Pricing {
    /// `on` or `off`; without drafts nothing is priced.
    drafts: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<Table>,
    /// Draft positions of a drafter's window, first to last.
    positions: Vec<Position>,
}

/// The cost table.
#[derive(Debug, Serialize, ToSchema)]
struct Table {
    /// Where it comes from.
    source: String,
    /// Milliseconds of a verify window by its rows, from one row on.
    verify_ms: Vec<f64>,
    /// Milliseconds of a drafter pass.
    draft_ms: f64,
    /// Milliseconds of each further stream in a launch.
    slot_ms: f64,
}

/// Drafts at one position.
#[derive(Debug, Serialize, ToSchema)]
struct Position {
    /// Counted from 1.
    position: usize,
    /// Drafts that stood here with all drafts before them kept.
    reached: u64,
    /// Those of them that were kept.
    kept: u64,
    /// Their share; null before the first.
    acceptance: Option<f64>,
    /// What confidences at this position are multiplied by.
    factor: f64,
}

/// The cost table in force and the acceptance by draft position.
#[utoipa::path(get, path = "/v1/pricing", responses((status = 200, body = Pricing), Closed))]
pub(crate) async fn pricing(State(server): State<Shared>) -> Json<Pricing> {
    if server.costs.drafts == Drafts::Off {
        return Json(Pricing { drafts: "off", table: None, positions: Vec::new() });
    }
    let (prices, stats) = (server.lanes.prices(), server.lanes.stats());
    let table = Table {
        source: server.costs.source.clone(),
        verify_ms: prices.table.verify().to_vec(),
        draft_ms: prices.table.draft_ms(),
        slot_ms: prices.table.slot_ms(),
    };
    let position = |(j, &factor): (usize, &f64)| {
        let count = stats.positions.get(j).copied().unwrap_or_default();
        let acceptance = (count.reached > 0).then(|| count.kept as f64 / count.reached as f64);
        Position { position: j + 1, reached: count.reached, kept: count.kept, acceptance, factor }
    };
    let positions = prices.factors.iter().enumerate().map(position).collect();
    Json(Pricing { drafts: "on", table: Some(table), positions })
}
