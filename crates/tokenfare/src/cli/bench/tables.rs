//! Acceptance as Markdown tables and as JSON.

use serde_json::{Value, json};
use tokenfare_pricing::{CONFIDENCE_BINS, CONFIDENCE_EDGES, DraftCount};

use super::acceptance::Domain;

fn share(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |v| format!("{v:.2}"))
}

fn row(cells: impl IntoIterator<Item = String>) -> String {
    let mut line = String::from("|");
    for cell in cells {
        line += &format!(" {cell} |");
    }
    line + "\n"
}

fn header(cells: Vec<String>) -> String {
    let rule = "|---".repeat(cells.len()) + "|\n";
    row(cells) + &rule
}

/// Drafts kept by position: one row a domain.
pub fn kept(temperature: f64, block: usize, domains: &[Domain]) -> String {
    let mut head = vec![
        format!("T {temperature}"),
        "rounds".to_owned(),
        "tokens a round".to_owned(),
        "drafts kept a round".to_owned(),
    ];
    head.extend((1..=block).map(|k| format!("P(>= {k})")));
    head.extend((1..=block).map(|j| format!("draft {j} kept if reached")));
    let mut table = header(head);
    for Domain { name, counts, .. } in domains {
        let number = |v: Option<f64>| v.map_or("-".to_owned(), |v| format!("{v:.3}"));
        let mut cells = vec![
            name.clone(),
            counts.rounds().to_string(),
            number(counts.mean_kept().map(|kept| kept + 1.0)),
            number(counts.mean_kept()),
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
pub fn reliability(temperature: f64, domains: &[Domain]) -> String {
    let bins = || 0..CONFIDENCE_BINS;
    let head = [format!("T {temperature}"), "confidence".to_owned()];
    let mut table = header(head.into_iter().chain(bins().map(bin_name)).collect());
    let kinds: [(&str, fn(&DraftCount) -> Option<f64>); 2] = [
        ("kept with all before it", DraftCount::kept_of_verified),
        ("kept if reached", DraftCount::kept_of_reached),
    ];
    for domain in domains {
        for (kind, rate) in kinds {
            let cells = bins().map(|bin| share(rate(&domain.counts.bin(bin))));
            table += &row([domain.name.clone(), kind.to_owned()].into_iter().chain(cells));
        }
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
pub fn json(temperature: f64, block: usize, domain: &Domain) -> Value {
    let counts = &domain.counts;
    let cells =
        |position| (0..CONFIDENCE_BINS).map(|bin| count(&counts.cell(position, bin))).collect::<Vec<_>>();
    json!({
        "temperature": temperature,
        "domain": domain.name,
        "prompts": domain.prompts,
        "rounds": counts.rounds(),
        "drafts_kept": counts.kept(),
        "drafts_kept_a_round": counts.mean_kept(),
        "at_least": (1..=block).map(|k| counts.at_least(k)).collect::<Vec<_>>(),
        "positions": (0..block).map(|j| count(&counts.position(j))).collect::<Vec<_>>(),
        "confidence_bins": (0..CONFIDENCE_BINS).map(|b| count(&counts.bin(b))).collect::<Vec<_>>(),
        "positions_by_confidence_bin": (0..block).map(cells).collect::<Vec<_>>(),
    })
}
