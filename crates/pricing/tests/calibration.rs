//! The order and the rules of a measurement, with times that are handed in.

use rstest::rstest;
use std::time::Duration;
use tokenfare_pricing::{
    Calibration, CalibrationOptions, Launch, Measurement, NoRoom, Room, Shape, Statistic, Step, TableError,
    Tally, TimingsError, Took, Use, calibration_line, method_line,
};

const ROOM: Room = Room { slots: 4, context: 4096, window_rows: 64, launch_bound: 16 };

fn options() -> CalibrationOptions {
    CalibrationOptions { budget: Duration::from_secs(60), ..CalibrationOptions::default() }
}

fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// Microseconds of a window by its rows, and of the pair.
fn window_us(launch: Launch) -> u64 {
    match launch {
        Launch::Rows(rows) => 20_000 + 1000 * rows as u64,
        Launch::Pair => 29_500,
    }
}

/// Runs a measurement in which step number `n` takes what `took` says, and gives its steps.
fn run(
    options: CalibrationOptions,
    room: Room,
    took: impl Fn(usize, &Step) -> Took,
) -> (Vec<Step>, Calibration) {
    let mut calibration = Calibration::new(options, room).expect("room");
    let (mut steps, mut elapsed) = (Vec::new(), Duration::ZERO);
    while let Some(step) = calibration.next(elapsed) {
        let took = took(steps.len(), &step);
        elapsed += took.whole;
        calibration.record(&step, took);
        steps.push(step);
    }
    (steps, calibration)
}

fn steady(_: usize, step: &Step) -> Took {
    let whole = match *step {
        Step::Window { launch, .. } => window_us(launch),
        Step::FirstIngest => 430,
        Step::Pass { .. } | Step::WarmPass => 4700,
        Step::Prefill { .. } => 10_000,
    };
    Took { whole: us(whole), ingest: us(390) }
}

fn measured(options: CalibrationOptions, room: Room) -> Measurement {
    run(options, room, steady).1.finish().expect("a table")
}

/// Steps in short: `p0` a prompt, `u6` untimed windows, `6` timed ones, `r6` rechecked ones, `i` the first ingest, `w`
/// the pass after the prompt, `ud` and `d` passes.
fn short(steps: &[Step]) -> String {
    let word = |step: &Step| match *step {
        Step::Prefill { slot } => format!("p{slot}"),
        Step::Window { launch, used } => {
            let mark = [(Use::Untimed, "u"), (Use::Timed, ""), (Use::Recheck, "r")];
            let mark = mark.iter().find(|m| m.0 == used).expect("a use").1;
            format!("{mark}{launch}")
        }
        Step::WarmPass => "w".into(),
        Step::FirstIngest => "i".into(),
        Step::Pass { used: Use::Untimed } => "ud".into(),
        Step::Pass { .. } => "d".into(),
    };
    steps.iter().map(word).collect::<Vec<_>>().join(" ")
}

const MANDATORY: &str = "p0 p1 u6 w 1 2 3 4 5 6 8 16 4+4 17 32 i ud d d d d d 8 4+4 8 4+4";

#[test]
fn the_order_is_fixed_and_repeats_go_in_turns() {
    let (steps, calibration) = run(options(), ROOM, steady);
    let repeats = "1 2 3 4 5 5 6 6 1 2 3 4 16 16 16 16 17 17 17 17 32 32 32 32";
    assert_eq!(short(&steps), format!("{MANDATORY} {repeats}"));
    let runs = calibration.finish().expect("a table").runs;
    assert_eq!((runs.planned, runs.timed), (45, 45));
}

#[rstest]
#[case(CalibrationOptions { cycle: 0, reps: 2, deep_reps: 1, ..options() }, "1 2 3 4 5 6")]
#[case(CalibrationOptions { cycle: 8, reps: 4, deep_reps: 1, ..options() }, "1 2 3 4 5 6 8 1 2 3 4 5 6 1 2 3 4 5 6")]
#[case(CalibrationOptions { cycle: 2, deep_reps: 1, ..options() }, "1 2 3 3 4 4 5 5 6 6 1 2")]
#[case(CalibrationOptions { recheck: 8, reps: 1, deep_reps: 1, ..options() }, "r1 r2 r3 r4 r5 r6 r8")]
#[case(CalibrationOptions { recheck: 2, reps: 1, deep_reps: 2, ..options() }, "16 17 32 r1 r2")]
#[case(CalibrationOptions { reps: 1, deep_reps: 1, ..options() }, "")]
fn repeats_follow_the_settings(#[case] options: CalibrationOptions, #[case] repeats: &str) {
    let (steps, _) = run(options, ROOM, steady);
    assert_eq!(short(&steps), format!("{MANDATORY} {repeats}").trim_end());
}

#[rstest]
#[case(Room { slots: 1, ..ROOM }, "p0 u6 w 1 2 3 4 5 6 8 16 i ud d d d d d")]
#[case(Room { launch_bound: 8, ..ROOM }, "p0 p1 u6 w 1 2 3 4 5 6 8 9 16 4+4 17 32 i ud d d d d d 8 4+4 8 4+4")]
#[case(Room { slots: 1, context: 4, ..ROOM }, "p0 u2 w 1 2 i ud d d d d d")]
fn the_room_bounds_the_windows(#[case] room: Room, #[case] expected: &str) {
    let none = CalibrationOptions { budget: Duration::ZERO, ..options() };
    assert_eq!(short(&run(none, room, steady).0), expected);
}

#[test]
fn warm_ups_are_as_many_as_set() {
    for (warm, start) in [(0, "p0 p1 w 1"), (3, "p0 p1 u6 u6 u6 w 1")] {
        let (steps, _) = run(CalibrationOptions { warm, ..options() }, ROOM, steady);
        assert!(short(&steps).starts_with(start));
    }
}

#[test]
fn without_room_for_two_rows_nothing_is_measured() {
    for room in [Room { context: 3, ..ROOM }, Room { window_rows: 1, ..ROOM }] {
        let NoRoom { context, window_rows } = Calibration::new(options(), room).expect_err("no room");
        assert_eq!((context, window_rows), (room.context, room.window_rows));
    }
    let words = NoRoom { context: 3, window_rows: 64 }.to_string();
    assert_eq!(
        words,
        "a context of 3 and windows of 64 rows, expected place for a prompt of 2 rows and a window of 2"
    );
}

#[test]
fn a_spent_budget_drops_repeats_and_nothing_else() {
    let slow = |_: usize, step: &Step| Took {
        whole: Duration::from_millis(match step {
            Step::Window { .. } => 150,
            _ => 1,
        }),
        ingest: Duration::ZERO,
    };
    let default = CalibrationOptions::default();
    assert_eq!(default.budget, Duration::from_secs(2));
    let (steps, calibration) = run(default, ROOM, slow);
    assert_eq!(short(&steps), MANDATORY);
    let runs = calibration.finish().expect("a table").runs;
    assert_eq!((runs.planned, runs.timed), (45, 21));
}

#[test]
fn the_budget_ends_among_the_repeats() {
    let options = CalibrationOptions { budget: Duration::from_millis(2600), ..options() };
    let slow = |_: usize, step: &Step| Took {
        whole: Duration::from_millis(if matches!(step, Step::Window { .. }) { 150 } else { 0 }),
        ingest: Duration::ZERO,
    };
    // Sixteen windows are mandatory; two repeats begin before the budget ends.
    assert_eq!(short(&run(options, ROOM, slow).0), format!("{MANDATORY} 1 2"));
}

#[test]
fn a_cold_first_ingest_is_told_and_prices_nothing() {
    let cold = |n: usize, step: &Step| match step {
        Step::FirstIngest => Took { whole: us(11 * 4700), ingest: us(11 * 4700) },
        Step::Pass { used: Use::Untimed } => Took { whole: us(9 * 4700), ingest: us(8 * 4700) },
        _ => steady(n, step),
    };
    let measured = run(options(), ROOM, cold).1.finish().expect("a table");
    assert_eq!((measured.table.draft_ms(), measured.ingest_ms, measured.first_ms), (4.7, 0.39, 51.7));
    let steady = self::measured(options(), ROOM);
    assert_eq!(measured.table, steady.table);
}

#[test]
fn the_fastest_pass_is_kept_with_its_own_ingest() {
    let varied = |n: usize, step: &Step| match step {
        Step::Pass { .. } => Took { whole: us(5000 - 10 * (n as u64 % 4)), ingest: us(n as u64) },
        _ => steady(n, step),
    };
    let (steps, calibration) = run(options(), ROOM, varied);
    let timed = steps.iter().enumerate().filter(|(_, s)| matches!(s, Step::Pass { used: Use::Timed }));
    let fastest = timed.map(|(n, _)| n).find(|n| n % 4 == 3).expect("five in a row");
    let measured = calibration.finish().expect("a table");
    assert_eq!((measured.table.draft_ms(), measured.ingest_ms), (4.97, fastest as f64 / 1e3));
}

#[test]
fn a_pass_dearer_than_two_windows_is_refused() {
    let dear = |n: usize, step: &Step| match step {
        Step::Pass { .. } => Took { whole: us(42_001), ingest: us(1) },
        _ => steady(n, step),
    };
    let refused = run(options(), ROOM, dear).1.finish().expect_err("implausible");
    assert_eq!(refused, TimingsError::Table(TableError::Implausible { draft: 42.001, row: 21.0 }));
    assert_eq!(
        refused.to_string(),
        "a pass of 42.001 ms is dearer than twice its own 1-row window of 21.000 ms"
    );
}

#[rstest]
#[case(Statistic::Min, 0)]
#[case(Statistic::Median, 1)]
fn windows_keep_their_statistic_and_rechecks_only_lower_it(
    #[case] statistic: Statistic,
    #[case] kept: usize,
) {
    let later = |n: usize, step: &Step| match *step {
        Step::Window { launch: Launch::Rows(1), used: Use::Recheck } => {
            Took { whole: us(20_500), ..Took::default() }
        }
        Step::Window { used: Use::Recheck, .. } => Took { whole: us(99_000), ..Took::default() },
        Step::Window { launch, .. } => Took { whole: us(window_us(launch) + n as u64), ..Took::default() },
        _ => steady(n, step),
    };
    let (steps, calibration) = run(CalibrationOptions { statistic, recheck: 2, ..options() }, ROOM, later);
    let timings = calibration.finish().expect("a table").timings;
    let second = Step::Window { launch: Launch::Rows(2), used: Use::Timed };
    let mut runs = steps.iter().enumerate().filter(|(_, step)| **step == second).map(|(n, _)| n);
    let expected = (22_000 + runs.nth(kept).expect("three runs") as u64) as f64 / 1e3;
    assert_eq!(timings.rows[..2], [(1, 20.5), (2, expected)]);
}

/// What step number `n` takes at start `start` of a quiet machine: up to 6 % more than its time, and once in 50 steps
/// three times as long.
fn quiet(start: u64, n: usize, step: &Step) -> Took {
    let mut bits = (start << 32 | n as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits ^= bits >> 27;
    let Took { whole, ingest } = steady(n, step);
    let slower =
        if bits.is_multiple_of(50) { 3.0 } else { 1.0 + 0.06 * (bits >> 11) as f64 / (1u64 << 53) as f64 };
    Took { whole: whole.mul_f64(slower), ingest }
}

#[test]
fn three_starts_on_a_quiet_machine_move_no_entry_by_a_tenth() {
    for machine in 0..300 {
        let starts = [0, 1, 2].map(|start| {
            let (_, calibration) = run(options(), ROOM, |n, step| quiet(3 * machine + start, n, step));
            let table = calibration.finish().expect("a table").table;
            let mut entries = table.verify().to_vec();
            entries.push(table.draft_ms());
            entries
        });
        let [first, second, third] = &starts;
        for (entry, ((&a, &b), &c)) in first.iter().zip(second).zip(third).enumerate() {
            let (least, most) = (a.min(b).min(c), a.max(b).max(c));
            assert!(most <= 1.1 * least, "machine {machine}, entry {entry}: {least} to {most} ms");
        }
    }
}

#[test]
fn the_slot_term_is_the_pair_over_the_window_of_as_many_rows() {
    let measured = self::measured(options(), ROOM);
    assert_eq!(measured.timings.pair, Some(29.5));
    assert_eq!((measured.table.slot_ms(), measured.table.verify().len(), measured.slots), (1.5, 32, 2));
    let lone = self::measured(options(), Room { slots: 1, ..ROOM });
    assert_eq!((lone.table.slot_ms(), lone.table.verify().len(), lone.slots), (0.0, 16, 1));
}

#[test]
fn the_lines_of_a_measurement() {
    let tally = Tally {
        text: 220,
        text_time: Duration::from_millis(30),
        prompt_rows: 4,
        prompt_time: Duration::from_millis(840),
        launches: 24,
        launch_time: Duration::from_millis(1250),
        whole: Duration::from_millis(2094),
    };
    let measured = self::measured(CalibrationOptions { budget: Duration::ZERO, ..options() }, ROOM);
    assert_eq!(
        method_line("tokenfare", &measured, &tally),
        "calib method (tokenfare): table raw, min of 3 after 1 warm-up(s), rows 1-4 cycled, rows 1-0 rechecked, \
         rows 9+ 5 runs; 2 slots, 45 timed runs, a 220-token text; rows 1-4 kept 21.000 / 22.000 / 23.000 / 24.000 ms (rank 0)"
    );
    assert_eq!(
        calibration_line("tokenfare", &measured, &tally, "not stored"),
        "calibration (tokenfare): draft 4.70 ms (ingest 0.39, first 0.43), slot 1.50 ms, \
         verify 1/2/4/6/8/16/17/24/32 rows 21.0, 22.0, 24.0, 26.0, 28.0, 36.0, 36.0, 42.8, 50.5 ms, \
         measured in 2.09 s over 21 timed runs (tokenizer and text 0.03 s, 4 prompt rows in 0.84 s, \
         24 windows and passes in 1.25 s) (not stored)"
    );
    let fit = CalibrationOptions { shape: Shape::Fit, cycle: 0, deep_reps: 3, ..options() };
    let measured = self::measured(fit, Room { slots: 1, ..ROOM });
    let line = method_line("tokenfare", &measured, &tally);
    assert!(line.contains("table fit, min of 3 after 1 warm-up(s), rows 1-0 cycled"), "{line}");
    let line = calibration_line("tokenfare", &measured, &tally, "stored /t/a.json");
    assert!(line.contains("verify 1/2/4/6/8/16 rows ") && line.ends_with("(stored /t/a.json)"), "{line}");
}
