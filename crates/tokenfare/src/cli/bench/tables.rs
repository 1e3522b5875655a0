//! Acceptance as Markdown tables and as JSON.

use serde_json::{Value, json};
use tokenfare_lanes::MeasuredReply;
use tokenfare_pricing::{CONFIDENCE_BINS, CONFIDENCE_EDGES, DraftCount, mean_kept_error};

use super::acceptance::Domain;

fn share(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |v| format!("{v:.2}"))
}

/// One row.
pub fn row(cells: impl IntoIterator<Item = String>) -> String {
    let mut line = String::from("|");
    for cell in cells {
        line += &format!(" {cell} |");
    }
    line + "\n"
}

/// The first row and its rule.
pub fn header(cells: Vec<String>) -> String {
    let rule = "|---".repeat(cells.len()) + "|\n";
    row(cells) + &rule
}

fn error(domain: &Domain<'_>) -> Option<f64> {
    mean_kept_error(domain.replies.iter().map(|reply| &reply.counts))
}

/// Drafts kept by position: one row a domain.
pub fn kept(temperature: f64, block: usize, domains: &[Domain<'_>]) -> String {
    let mut head = vec![
        format!("T {temperature}"),
        "rounds".to_owned(),
        "tokens a round".to_owned(),
        "drafts kept a round".to_owned(),
        "standard error".to_owned(),
    ];
    head.extend((1..=block).map(|k| format!("P(>= {k})")));
    head.extend((1..=block).map(|j| format!("{j} kept if reached")));
    let mut table = header(head);
    for domain @ Domain { name, counts, .. } in domains {
        let number = |v: Option<f64>| v.map_or("-".to_owned(), |v| format!("{v:.3}"));
        let mut cells = vec![
            (*name).to_owned(),
            counts.rounds().to_string(),
            number(counts.mean_kept().map(|kept| kept + 1.0)),
            number(counts.mean_kept()),
            number(error(domain)),
        ];
        cells.extend((1..=block).map(|k| share(counts.at_least(k))));
        cells.extend((0..block).map(|j| share(counts.position(j).kept_of_reached())));
        table += &row(cells);
    }
    table
}

fn bin_name(bin: usize) -> String {
    let edge = |bin: usize| CONFIDENCE_EDGES[bin];
    match bin {
        0 => format!("< {}", edge(0)),
        b if b + 1 == CONFIDENCE_BINS => format!("{} up", edge(b - 1)),
        b => format!("{}-{}", edge(b - 1), edge(b)),
    }
}

/// What became of drafts by their confidence: two rows a domain.
pub fn reliability(temperature: f64, domains: &[Domain<'_>]) -> String {
    let bins = || 0..CONFIDENCE_BINS;
    let head = [format!("T {temperature}"), "confidence".to_owned()];
    let mut table = header(head.into_iter().chain(bins().map(bin_name)).collect());
    for domain in domains {
        let name = || domain.name.to_owned();
        let all = bins().map(|bin| share(domain.counts.bin(bin).kept_of_verified()));
        table += &row([name(), "kept with all before it".to_owned()].into_iter().chain(all));
        let reached = bins().map(|bin| share(domain.counts.bin(bin).kept_of_reached()));
        table += &row([name(), "kept if reached".to_owned()].into_iter().chain(reached));
    }
    table
}

fn count(c: &DraftCount) -> Value {
    json!({
        "verified": c.verified,
        "reached": c.reached,
        "kept": c.kept,
        "mean_confidence_of_reached": c.mean_confidence(),
    })
}

/// Every count of one domain at one temperature.
pub fn json(temperature: f64, block: usize, domain: &Domain<'_>) -> Value {
    let counts = &domain.counts;
    let cells =
        |position| (0..CONFIDENCE_BINS).map(|bin| count(&counts.cell(position, bin))).collect::<Vec<_>>();
    let reply = |r: &&MeasuredReply| json!({"rounds": r.counts.rounds(), "drafts_kept": r.counts.kept(), "token_sha256": r.token_sha256});
    json!({
        "temperature": temperature,
        "domain": domain.name,
        "rounds": counts.rounds(),
        "drafts_kept": counts.kept(),
        "drafts_kept_a_round": counts.mean_kept(),
        "standard_error": error(domain),
        "at_least": (1..=block).map(|k| counts.at_least(k)).collect::<Vec<_>>(),
        "positions": (0..block).map(|j| count(&counts.position(j))).collect::<Vec<_>>(),
        "confidence_bins": (0..CONFIDENCE_BINS).map(|b| count(&counts.bin(b))).collect::<Vec<_>>(),
        "positions_by_confidence_bin": (0..block).map(cells).collect::<Vec<_>>(),
        "replies": domain.replies.iter().map(reply).collect::<Vec<_>>(),
    })
}
