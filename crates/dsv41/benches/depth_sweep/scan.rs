//! The rule against the best fixed depth over a range of tables.

use tokenfare_pricing::CostTable;

use crate::options::Options;
use crate::play::{Tally, play};
use crate::trace::Cell;
use crate::{CAP, rules};

/// Each further row, as a share of the first.
const ROWS: [f64; 5] = [0.05, 0.15, 0.3, 0.5, 0.8];
/// A pass, as a share of the first row.
const PASSES: [f64; 3] = [0.1, 0.5, 1.0];
/// Milliseconds of a one-row window; only shares of it matter.
const FIRST: f64 = 10.0;

/// Prints one row a table, one column a cell: the rule's rate over that of the best fixed depth, and which one that is.
pub fn print(cells: &[Cell], options: &Options) {
    let names: Vec<String> = cells.iter().map(|c| format!("{}, {}", c.load, c.drawing)).collect();
    println!("| further row | pass | {} |", names.join(" | "));
    println!("|---|---|{}", "---|".repeat(cells.len()));
    for row in ROWS {
        for pass in PASSES {
            let verify: Vec<f64> = (0..16).map(|r| FIRST * (1.0 + row * f64::from(r))).collect();
            let table = CostTable::new(&verify, FIRST * pass, 0.0).expect("a plausible table");
            let column = |cell: &Cell| {
                let rates: Vec<f64> = rules()
                    .into_iter()
                    .map(|rule| play(cell, rule, &table, options.length(cell)))
                    .map(|tally: Tally| tally.rate())
                    .collect();
                let best = (0..=CAP).max_by(|&a, &b| rates[a].total_cmp(&rates[b])).unwrap_or(0);
                format!("{:.3} (k = {best})", rates[CAP + 1] / rates[best])
            };
            let columns: Vec<String> = cells.iter().map(column).collect();
            println!("| {row} | {pass} | {} |", columns.join(" | "));
        }
    }
}
