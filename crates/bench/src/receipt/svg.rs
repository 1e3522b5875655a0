//! Plots as SVG.

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::BenchError;

const WIDTH: u32 = 860;
const HEIGHT: u32 = 460;
/// Height of a bar, and of the space below a group of bars.
const BAR: i32 = 9;
const GAP: i32 = 10;
/// Columns before the bars and behind the longest.
const LABELS: i32 = 250;
const NUMBERS: i32 = 70;
const HEAD: i32 = 52;
const COLOURS: [RGBColor; 4] =
    [RGBColor(31, 119, 180), RGBColor(255, 127, 14), RGBColor(44, 160, 44), RGBColor(148, 103, 189)];

fn failed(cause: impl ToString) -> BenchError {
    BenchError::Plot(cause.to_string())
}

/// Bars of one cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The cell's name.
    pub label: String,
    /// One value a kind of run; a missing one has no bar.
    pub values: Vec<Option<f64>>,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn put(area: &Area<'_>, text: &str, at: (i32, i32), size: i32) -> Result<(), BenchError> {
    area.draw(&Text::new(text.to_owned(), at, ("sans-serif", size).into_font())).map_err(failed)
}

fn bar(area: &Area<'_>, from: (i32, i32), width: i32, colour: RGBColor) -> Result<(), BenchError> {
    let to = (from.0 + width, from.1 + BAR - 1);
    area.draw(&Rectangle::new([from, to], colour.filled())).map_err(failed)
}

/// Lying bars, a group a cell and a colour a kind of run, with the value behind each.
///
/// # Errors
/// What the drawing library says.
pub fn bars(title: &str, kinds: &[&str], groups: &[Group]) -> Result<String, BenchError> {
    let rows = groups.iter().map(|g| g.values.len() as i32 * BAR + GAP).sum::<i32>();
    let height = (HEAD + rows + GAP).cast_unsigned();
    let top =
        groups.iter().flat_map(|g| g.values.iter().flatten()).copied().fold(f64::MIN_POSITIVE, f64::max);
    let room = f64::from(WIDTH.cast_signed() - LABELS - NUMBERS);
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        put(&area, title, (12, 8), 18)?;
        for (number, kind) in kinds.iter().enumerate() {
            let x = LABELS + 110 * number as i32;
            bar(&area, (x, 36), 14, COLOURS[number % COLOURS.len()])?;
            put(&area, kind, (x + 20, 33), 13)?;
        }
        let mut y = HEAD;
        for group in groups {
            let middle = y + (group.values.len() as i32 * BAR - 14) / 2;
            put(&area, &group.label, (12, middle), 13)?;
            for (number, value) in group.values.iter().enumerate() {
                if let Some(value) = value {
                    let width = (value / top * room) as i32;
                    bar(&area, (LABELS, y), width, COLOURS[number % COLOURS.len()])?;
                    put(&area, &format!("{value:.1}"), (LABELS + width + 4, y - 1), 10)?;
                }
                y += BAR;
            }
            y += GAP;
        }
        area.present().map_err(failed)?;
    }
    Ok(text)
}

/// A line of a plot.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its name.
    pub label: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// Lines with their points over one axis.
///
/// # Errors
/// Lines without points; what the drawing library says.
pub fn lines(title: &str, x: &str, y: &str, lines: &[Line]) -> Result<String, BenchError> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let right = points().map(|p| p.0).fold(f64::MIN, f64::max);
    let left = points().map(|p| p.0).fold(f64::MAX, f64::min);
    let top = points().map(|p| p.1).fold(0.0, f64::max) * 1.08;
    if left >= right || top <= 0.0 {
        return Err(failed("expected at least two points"));
    }
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH, HEIGHT)).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(60)
            .build_cartesian_2d(left..right, 0.0..top)
            .map_err(failed)?;
        chart.configure_mesh().x_desc(x).y_desc(y).draw().map_err(failed)?;
        for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
            let stroke = colour.stroke_width(2);
            chart
                .draw_series(LineSeries::new(line.points.iter().copied(), stroke))
                .map_err(failed)?
                .label(line.label.as_str())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], stroke));
            chart
                .draw_series(line.points.iter().map(|&point| Circle::new(point, 3, colour.filled())))
                .map_err(failed)?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE)
            .border_style(BLACK)
            .draw()
            .map_err(failed)?;
        area.present().map_err(failed)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_a_bar_and_every_point_a_mark() {
        let groups = [
            Group { label: "code x1".into(), values: vec![Some(10.0), Some(20.0)] },
            Group { label: "chat x1".into(), values: vec![None, Some(5.0)] },
        ];
        let picture = bars("tok/s", &["base", "this"], &groups).unwrap();
        // The page, two legend marks, three values.
        assert_eq!(picture.matches("<rect ").count(), 1 + 2 + 3);
        for words in ["tok/s", "code x1", "chat x1", "10.0", "20.0", "5.0"] {
            assert!(picture.contains(words), "{words}");
        }
        let line = Line { label: "rule".into(), points: vec![(0.0, 1.0), (1.0, 3.0)] };
        let picture =
            lines("depth", "k", "tok/s", &[line.clone(), Line { label: "fixed".into(), ..line }]).unwrap();
        assert_eq!(picture.matches("<circle ").count(), 4);
        assert!(lines("none", "k", "tok/s", &[]).is_err());
    }
}
