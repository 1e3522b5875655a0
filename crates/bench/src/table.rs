//! Tables in Markdown, for terminals and receipts alike.

use comfy_table::{Table, presets};

use crate::run::CellRun;
use crate::verdict::Measured;

/// A table of `head` and `rows`.
pub fn markdown(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(head.iter().copied());
    for row in rows {
        table.add_row(row.into_iter().map(|cell| cell.replace('|', "\\|")));
    }
    format!("{table}\n")
}

/// A number with so many decimals, or a dash.
pub fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".into(), |v| format!("{v:.decimals$}"))
}

/// What is to be known of a cell's run beside its numbers.
pub fn remark(run: &CellRun) -> String {
    match (run.measured(), &run.failure) {
        (_, Some(failure)) => format!("failed: {failure}"),
        (Measured::TooShort, _) => "unmeasured: under 4 pieces".into(),
        _ => String::new(),
    }
}
