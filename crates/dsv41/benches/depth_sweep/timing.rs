//! A table of costs timed on the model itself.

use std::time::Instant;

use tokenfare_cpu::Cpu;
use tokenfare_dsv41::model::Model;
use tokenfare_lanes::{Ask, Drafter, Ingest, Logits, Sampling, Segment, Target, Want};
use tokenfare_pricing::{CostTable, Shape, Timings};

/// Runs of every window; the fastest counts.
const RUNS: usize = 60;
/// Window lengths that are timed; those between are joined.
const ROWS: [usize; 8] = [1, 2, 3, 4, 5, 6, 8, 16];

fn ms(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    1e3 * began.elapsed().as_secs_f64()
}

/// Times windows of a lone stream and drafter passes with their ingest, and clears the slot.
pub fn table(model: &mut Model<Cpu>) -> CostTable {
    let text =
        crate::support::prompts("heldout.json").into_iter().map(|p| p.prompt_ids).find(|ids| ids.len() > 100);
    let text = text.expect("a prompt of 100 tokens");
    let mut logits = Logits::default();
    model.prefill(0, 0, &text[..2], Want::Nothing, &mut logits).expect("a prompt");
    model.ingest(&[Ingest { slot: 0, start: 0, row: 0, count: 2 }]).expect("context");
    model.keep(0, 2);

    let mut best = [f64::INFINITY; ROWS.len()];
    // The first turn records the windows and counts for nothing.
    for turn in 0..=RUNS {
        for (rows, best) in ROWS.into_iter().zip(&mut best) {
            let segments = [Segment { slot: 0, start: 2, tokens: &text[2..2 + rows] }];
            let took = ms(|| model.window(&segments, &mut logits).expect("a window"));
            model.keep(0, 2);
            *best = if turn > 0 { best.min(took) } else { *best };
        }
    }

    let sampling = Sampling::greedy();
    let mut draft = f64::INFINITY;
    for (turn, position) in (0..=RUNS).zip(2..) {
        let token = [text[position]];
        model.window(&[Segment { slot: 0, start: position, tokens: &token }], &mut logits).expect("a window");
        model.keep(0, position + 1);
        let took = ms(|| {
            model.ingest(&[Ingest { slot: 0, start: position, row: 0, count: 1 }]).expect("context");
            let ask = Ask { slot: 0, position: position + 1, token: text[position + 1], sampling: &sampling };
            model.propose(&[ask]).expect("drafts");
        });
        draft = if turn > 0 { draft.min(took) } else { draft };
    }
    model.release(0);
    let rows = ROWS.into_iter().zip(best).collect();
    let launch_bound = model.info().launch_bound;
    let timings = Timings { rows, pair: None, draft, launch_bound, shape: Shape::Raw };
    timings.table().expect("a plausible table")
}
