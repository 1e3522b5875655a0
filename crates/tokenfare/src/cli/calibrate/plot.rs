//! A cost table as a picture: milliseconds by rows, beside the built-in table's shape.

use anyhow::Result;
use plotters::prelude::*;
use tokenfare_pricing::CostTable;

/// Size of the picture.
const SVG_SIZE: (u32, u32) = (800, 480);
/// Columns of the longest bar in the terminal.
const BAR: usize = 60;

/// Rows and milliseconds of a table.
fn measured(table: &CostTable) -> Vec<(f32, f32)> {
    (1..=table.verify().len()).map(|rows| (rows as f32, table.window_ms(rows) as f32)).collect()
}

/// Milliseconds of the built-in table at `rows`, scaled to the same one-row window as `table`.
pub fn scaled(table: &CostTable, rows: usize) -> f64 {
    let built_in = CostTable::built_in();
    built_in.rows_ms(rows) * table.window_ms(1) / built_in.window_ms(1)
}

fn built_in(table: &CostTable) -> Vec<(f32, f32)> {
    (1..=table.verify().len()).map(|rows| (rows as f32, scaled(table, rows) as f32)).collect()
}

fn top(lines: [&[(f32, f32)]; 2]) -> f32 {
    1.05 * lines.iter().flat_map(|line| line.iter()).map(|point| point.1).fold(0.0, f32::max)
}

/// The plot for a terminal, one line a row count: a bar for the measured time, and a mark where the built-in table,
/// scaled, would end.
pub fn terminal(table: &CostTable) -> Vec<String> {
    let (bars, marks) = (measured(table), built_in(table));
    let scale = BAR as f32 / top([&bars, &marks]);
    let cell = |ms: f32| (ms * scale) as usize;
    let line = |(bar, mark): (&(f32, f32), &(f32, f32))| {
        let (bar, mark) = (cell(bar.1), cell(mark.1));
        (0..=bar.max(mark))
            .map(|at| {
                if at == mark {
                    '+'
                } else if at < bar {
                    '#'
                } else {
                    ' '
                }
            })
            .collect::<String>()
    };
    bars.iter().zip(&marks).map(line).map(|line| line.trim_end().to_owned()).collect()
}

/// The plot as SVG.
///
/// # Errors
/// What the drawing library says.
pub fn svg(table: &CostTable) -> Result<String> {
    let (line, points) = (measured(table), built_in(table));
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SVG_SIZE).into_drawing_area();
        let drawn = |e: DrawingAreaErrorKind<_>| anyhow::anyhow!("drawing the plot: {e}");
        area.fill(&WHITE).map_err(drawn)?;
        let mut chart = ChartBuilder::on(&area)
            .caption("Cost of a verify window", ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(60)
            .build_cartesian_2d(1.0..line.len() as f32, 0.0..top([&line, &points]))
            .map_err(drawn)?;
        chart.configure_mesh().x_desc("rows").y_desc("ms").draw().map_err(drawn)?;
        chart
            .draw_series(LineSeries::new(line.iter().copied(), BLUE.stroke_width(2)))
            .map_err(drawn)?
            .label("measured")
            .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], BLUE.stroke_width(2)));
        chart
            .draw_series(points.iter().map(|&point| Circle::new(point, 3, RED.filled())))
            .map_err(drawn)?
            .label("built-in, scaled to the same 1-row window")
            .legend(|(x, y)| Circle::new((x + 8, y), 3, RED.filled()));
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE)
            .border_style(BLACK)
            .draw()
            .map_err(drawn)?;
        area.present().map_err(drawn)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> CostTable {
        CostTable::new(&[21.0, 22.0, 26.0, 30.0], 3.0, 0.0).unwrap()
    }

    #[test]
    fn the_built_in_table_is_scaled_to_the_same_first_row() {
        assert_eq!((scaled(&table(), 1), scaled(&table(), 3)), (21.0, 26.0));
    }

    #[test]
    fn both_tables_are_drawn() {
        let lines = terminal(&CostTable::new(&[10.0, 20.0], 3.0, 0.0).unwrap());
        // The longest bar takes 60 columns less the margin; the built-in table says 47/42 of the first row.
        assert_eq!(lines, [format!("{}+", "#".repeat(28)), format!("{}+{}", "#".repeat(31), "#".repeat(25))]);
        let picture = svg(&table()).unwrap();
        assert!(picture.starts_with("<svg ") && picture.trim_end().ends_with("</svg>"));
        assert_eq!(picture.matches("<circle ").count(), 4 + 1);
        for words in ["rows", "ms", "measured", "built-in, scaled to the same 1-row window"] {
            assert!(picture.contains(words), "{words}");
        }
    }
}
