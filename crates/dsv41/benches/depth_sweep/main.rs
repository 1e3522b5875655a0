//! Fixed draft depths against the depth rule on the mini checkpoint, one stream.
//!
//! `cargo bench -p tokenfare-dsv41 --bench depth_sweep -- [--table FILE|default] [--save-table FILE]
//! [--trace FILE] [--tokens N] [--turns N] [--threads N] [--load NAME] [--scan on]`.
//!
//! A cell is a load (code, chat) and a way of drawing (greedy, sampled). The modelled figures need no clock: one run
//! writes down what the drafter proposes at every position of every reply, and because neither the reply nor the
//! drafts depend on depth, each rule is then played over these positions and priced with one table held fixed. With
//! `--trace` that run is kept in a file and read from it when it is there. With `--turns`, engines of all rules serve
//! the same requests beside it, taking turns prompt by prompt, and measured speeds are printed as well; every
//! reply must have the same tokens under all rules, and as many rounds as were modelled. `--scan on` prints instead how
//! the rule stands to the best fixed depth over a range of tables.

#[path = "../support/mod.rs"]
mod support;

mod clock;
mod options;
mod play;
mod scan;
mod timing;
mod trace;

use options::Options;
use support::median;
use tokenfare_lanes::{Drafts, Request, Sampling};
use tokenfare_pricing::{Joint, Rule, Skip};
use trace::Cell;

/// Deepest fixed depth, and the cap of the rule.
const CAP: usize = 5;

/// The sampling of a request by its number.
type Drawing = fn(usize) -> Sampling;

/// How replies are drawn.
const DRAWINGS: [(&str, Drawing); 2] = [("greedy", greedy), ("sampled", sampled)];

fn greedy(number: usize) -> Sampling {
    Sampling { seed: seed(number), ..Sampling::greedy() }
}

fn sampled(number: usize) -> Sampling {
    Sampling { temperature: 1.0, top_k: 20, top_p: 0.95, ..greedy(number) }
}

fn seed(number: usize) -> u64 {
    1234 + number as u64
}

/// Request `number` of a cell: its reply goes on past end tokens to its full length.
fn request(cell: &Cell, number: usize, length: usize) -> Request {
    let drawing = DRAWINGS.iter().find(|d| d.0 == cell.drawing).expect("a way of drawing");
    let mut request =
        Request::new(cell.replies[number].prompt.clone(), length, Box::new(tokenfare_lanes::NoText));
    request.sampling = drawing.1(number);
    request
}

fn rules() -> Vec<Rule> {
    let cost = Rule::Cost { cap: CAP, skip: Skip::On, joint: Joint::Together };
    (0..=CAP).map(|depth| Rule::Static { depth }).chain([cost]).collect()
}

fn main() {
    let options = Options::parse(std::env::args().skip(1)).unwrap_or_else(|error| {
        eprintln!("depth_sweep: {error}");
        std::process::exit(2);
    });
    if options.scan {
        return scan::print(&trace::cells(&options), &options);
    }
    let timed = || timing::table(&mut support::model(Drafts::On, options.threads));
    let table = options.table.clone().unwrap_or_else(timed);
    let ms = |rows: usize| format!("{:.3}", table.window_ms(rows));
    let rows: Vec<String> = (1..=6).chain([8, 16]).map(ms).collect();
    println!("verify 1..6, 8, 16 rows {} ms, pass {:.3} ms", rows.join(" / "), table.draft_ms());
    options.save(&table);
    let cells = trace::cells(&options);
    for cell in cells.iter().filter(|c| options.load.as_ref().is_none_or(|only| *only == c.load)) {
        let played: Vec<play::Tally> =
            rules().into_iter().map(|rule| play::play(cell, rule, &table, options.length(cell))).collect();
        let speeds = clock::speeds(cell, &table, &options, &played);
        print(cell, &played, &speeds);
    }
}

/// One row a rule. Speeds are those of each turn, by rule.
fn print(cell: &Cell, played: &[play::Tally], speeds: &[Vec<f64>]) {
    let best = played[..=CAP].iter().map(play::Tally::rate).fold(0.0, f64::max);
    let fastest = speeds.iter().take(CAP + 1).map(|s| median(s.clone())).fold(0.0, f64::max);
    println!("\n{}, {}: {} replies", cell.load, cell.drawing, cell.replies.len());
    println!(
        "| rule | tokens | rounds | mean k | tokens a round | ms a round | tok/s | of best fixed | measured tok/s | of best fixed |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for (i, (rule, t)) in rules().iter().zip(played).enumerate() {
        let rounds = t.rounds as f64;
        let measured = speeds.get(i).map_or("- | -".to_owned(), |speeds| {
            let speed = median(speeds.clone());
            format!("{speed:.1} | {:.3}", speed / fastest)
        });
        println!(
            "| {rule} | {} | {} | {:.2} | {:.3} | {:.3} | {:.1} | {:.3} | {measured} |",
            t.tokens,
            t.rounds,
            t.drafted as f64 / rounds,
            t.tokens as f64 / rounds,
            t.ms / rounds,
            1e3 * t.rate(),
            t.rate() / best,
        );
    }
}
