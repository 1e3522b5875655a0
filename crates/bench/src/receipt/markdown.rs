//! A receipt as Markdown.

use super::{ArmFacts, Receipt};
use crate::compare::{Arm, CellOutcome, Role, Run, SeriesRuns};
use crate::machine::Level;
use crate::run::{CellRun, Exactness, Part};
use crate::table::{markdown, number};
use crate::verdict::{Four, Hashes, LISTED_UNDER, Measured, Verdict};

const UNKNOWN: &str = "not recorded";

fn or_unknown(value: Option<&String>) -> String {
    value.cloned().unwrap_or_else(|| UNKNOWN.into())
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

/// The receipt's page.
pub fn page(receipt: &Receipt) -> String {
    let outcomes = receipt.comparison.outcomes();
    let mut page = String::from("# Receipt of a comparison\n");
    if let Some(why) = &receipt.partial {
        page += &format!("\n**Partial: {why}.**\n");
    }
    page += &format!("\n## Summary\n\n{}", counts(receipt, &outcomes));
    page += &format!("\n## What was compared\n\n{}", facts(receipt));
    page += &cells(receipt, &outcomes);
    page += &format!("\n## Cells under {LISTED_UNDER}\n\n{}", listed(&outcomes));
    page += &format!("\n## Exactness\n\n{}", exactness(receipt, &outcomes));
    page += &format!("\n## Drafts\n\n{}", drafts(receipt));
    page += &format!("\n## Startup lines\n\n{}", startup(receipt));
    page += &format!("\n## Discarded, retried, flagged\n\n{}", flagged(receipt));
    page += &format!("\n## Not run and why\n\n{}", not_run(receipt));
    page + &format!("\n## Files\n\n{}", FILES)
}

const FILES: &str = "\
- `raw.json`: every run with every reply's times, counters and hash; what this page is made of
- `server.log`: what each server wrote, run by run
- `ends.json`: the machine at both ends of each run
- `command.txt`: the command that made this folder
- `binaries.sha256`: the binaries that were compared
- `speed-*.svg`: both runs of base and of this in every cell; `costs.svg`: prices by rows, where the servers tell them
";

/// What a receipt says first.
pub fn summary(receipt: &Receipt) -> String {
    counts(receipt, &receipt.comparison.outcomes())
}

fn count(outcomes: &[CellOutcome], verdict: Verdict) -> usize {
    outcomes.iter().filter(|o| o.four.verdict() == verdict).count()
}

fn counts(receipt: &Receipt, outcomes: &[CellOutcome]) -> String {
    let kinds = [
        Verdict::Faster,
        Verdict::WithinNoise,
        Verdict::Slower,
        Verdict::Unmeasured,
        Verdict::Failed,
        Verdict::NotRun,
    ];
    let counts: Vec<String> = kinds
        .iter()
        .map(|&kind| (count(outcomes, kind), kind))
        .filter(|(n, _)| *n > 0)
        .map(|(n, kind)| format!("{n} {kind}"))
        .collect();
    let ratios: Vec<f64> = outcomes.iter().filter_map(|o| o.four.mean_ratio()).collect();
    let mut text = format!("{} cells: {}.\n", outcomes.len(), counts.join(", "));
    if !ratios.is_empty() {
        let mean = (ratios.iter().map(|r| r.ln()).sum::<f64>() / ratios.len() as f64).exp();
        text += &format!("Speed of this over base, geometric mean of all cells: {mean:.3}.\n");
    }
    text += &decisive(outcomes);
    let again: Vec<&CellOutcome> = outcomes.iter().filter(|o| o.rerun.is_some()).collect();
    if !again.is_empty() {
        let slower = |four: &Option<Four>| four.is_some_and(|f| f.verdict() == Verdict::Slower);
        let still = again.iter().filter(|o| o.four.verdict() == Verdict::Slower && slower(&o.rerun)).count();
        text += &format!(
            "Series with a slower cell were run once more ({} cells); slower both times: {still}.\n",
            again.len()
        );
    }
    text += match receipt.comparison.exactness() {
        Hashes::Equal => "Every reply has the same tokens in all runs.\n",
        Hashes::Unequal => "**Replies differ between runs: the comparison fails.**\n",
        Hashes::Missing => "Hashes are missing, so that equal replies are not shown.\n",
    };
    text
}

/// The cells that a change of a default rests on: one stream, the most streams, prompts.
fn decisive(outcomes: &[CellOutcome]) -> String {
    let most = outcomes.iter().map(|o| o.cell.streams).max().unwrap_or(1);
    let of: Vec<&CellOutcome> = outcomes.iter().filter(|o| [1, most].contains(&o.cell.streams)).collect();
    let slower = of.iter().filter(|o| o.four.verdict() == Verdict::Slower).count();
    let widest = if most > 1 { format!(" and at {most}") } else { String::new() };
    let all = of.len();
    format!("Cells at 1 stream{widest}, which a change of a default rests on: {slower} of {all} slower.\n")
}

fn facts(receipt: &Receipt) -> String {
    let facts = &receipt.facts;
    let machine = &receipt.machine;
    let setting = |arm: &ArmFacts| {
        let list: Vec<String> = arm.settings.iter().map(|(k, v)| code(&format!("{k}={v}"))).collect();
        if list.is_empty() { "none".to_owned() } else { list.join(" ") }
    };
    let overhead = receipt.client_microseconds;
    let overhead = overhead.map_or(UNKNOWN.to_owned(), |s| format!("at most {s} us an event"));
    let two = |name: &str, of: &dyn Fn(&ArmFacts) -> String| {
        vec![name.to_owned(), of(&facts.base), of(&facts.this)]
    };
    let arms = markdown(
        &["", "base", "this"],
        [
            two("command", &|arm| code(&arm.command)),
            two("TF_* settings", &setting),
            two("binary, SHA-256", &|arm| or_unknown(arm.binary_sha256.as_ref())),
            two("commit", &|arm| or_unknown(arm.commit.as_ref())),
            two("checkpoint", &|arm| or_unknown(arm.checkpoint.as_ref())),
            two("load time, s", &|arm| {
                let which = if std::ptr::eq(arm, &facts.base) { Arm::Base } else { Arm::This };
                load_times(receipt, which)
            }),
        ],
    );
    let one = |name: &str, value: String| vec![name.to_owned(), value];
    let gpus = if machine.gpus.is_empty() { UNKNOWN.to_owned() } else { machine.gpus.join("; ") };
    let rest = markdown(
        &["", ""],
        [
            one("machine", or_unknown(machine.machine.as_ref())),
            one("operating system", or_unknown(machine.system.as_ref())),
            one("toolchain", or_unknown(machine.toolchain.as_ref())),
            one("device", or_unknown(facts.device.as_ref())),
            one("graphics processors", gpus),
            one("tool", facts.tool.clone()),
            one("arguments", code(&facts.arguments)),
            one("began, seconds since 1970", facts.began.map_or(UNKNOWN.into(), |t| t.to_string())),
            one("order", "base (discarded), base, this, this, base; each by a fresh server".into()),
            one("settle, s", facts.settle_seconds.to_string()),
            one("client", overhead),
        ],
    );
    format!("{arms}\n{rest}")
}

fn load_times(receipt: &Receipt, arm: Arm) -> String {
    let times = receipt.comparison.runs().filter(|run| run.arm == arm).filter_map(|run| run.load_seconds);
    let spread = crate::stats::Spread::of(times);
    spread.map_or(UNKNOWN.into(), |s| format!("{:.2} ({:.2}-{:.2})", s.median, s.min, s.max))
}

fn spread_of(receipt: &Receipt, outcome: &CellOutcome, role: Role, arm: Arm, nth: usize) -> String {
    let series = receipt.comparison.series.iter();
    let runs = series.flat_map(|s| &s.runs).filter(|run| run.role == role && run.arm == arm);
    let cell = runs.flat_map(|run| &run.cells).filter(|run| run.cell == outcome.cell).nth(nth);
    let measured = cell.map_or(Measured::Missing, CellRun::measured);
    match (measured, cell.and_then(CellRun::speed)) {
        (Measured::Speed(_), Some(spread)) => spread.to_string(),
        (Measured::TooShort, _) => "under 4 pieces".into(),
        (Measured::Failed, _) => "failed".into(),
        _ => "-".into(),
    }
}

fn row(receipt: &Receipt, outcome: &CellOutcome, role: Role) -> Vec<String> {
    let four = if role == Role::Rerun { outcome.rerun.unwrap_or(outcome.four) } else { outcome.four };
    let [first, second] = four.ratios();
    let run = |arm, nth| spread_of(receipt, outcome, role, arm, nth);
    let levels: Vec<String> =
        outcome.levels.iter().map(|l| l.map_or("-".to_owned(), |l| l.to_string())).collect();
    let mut distinct = levels.clone();
    distinct.dedup();
    vec![
        outcome.cell.streams.to_string(),
        outcome.cell.temperature.to_string(),
        outcome.cell.load.clone(),
        run(Arm::Base, 0),
        run(Arm::This, 0),
        run(Arm::This, 1),
        run(Arm::Base, 1),
        number(first, 3),
        number(second, 3),
        number(four.mean_ratio(), 3),
        four.verdict().to_string(),
        distinct.join(", "),
    ]
}

const COLUMNS: [&str; 12] = [
    "streams",
    "T",
    "load",
    "base 1",
    "this 1",
    "this 2",
    "base 2",
    "this 1 / base 1",
    "this 2 / base 2",
    "mean over mean",
    "verdict",
    "end levels",
];

fn cells(receipt: &Receipt, outcomes: &[CellOutcome]) -> String {
    let mut text = String::new();
    for part in [Part::Concurrent, Part::Openai, Part::NoDrafts, Part::Prompt] {
        let of_part: Vec<&CellOutcome> = outcomes.iter().filter(|o| o.cell.part == part).collect();
        if of_part.is_empty() {
            continue;
        }
        let unit =
            if part == Part::Prompt { "prompt tokens a second" } else { "tokens a second of all streams" };
        text += &format!("\n## Cells: {part}\n\nMedian (least-most) of the repetitions, {unit}.\n\n");
        text += &markdown(&COLUMNS, of_part.iter().map(|o| row(receipt, o, Role::Counted)));
        let again: Vec<_> = of_part.iter().filter(|o| o.rerun.is_some()).collect();
        if !again.is_empty() {
            text += "\nOnce more, because a cell of the series was slower; replaces nothing:\n\n";
            text += &markdown(&COLUMNS, again.iter().map(|o| row(receipt, o, Role::Rerun)));
        }
    }
    text
}

fn listed(outcomes: &[CellOutcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        for (what, four) in [("", Some(outcome.four)), (" (rerun)", outcome.rerun)] {
            let Some(ratio) = four.and_then(|f| f.mean_ratio()).filter(|r| *r < LISTED_UNDER) else {
                continue;
            };
            let verdict = four.map(|f| f.verdict().to_string()).unwrap_or_default();
            text += &format!("- {}{what}: {ratio:.3}, {verdict}\n", outcome.cell);
        }
    }
    if text.is_empty() { "None.\n".into() } else { text }
}

fn exactness(receipt: &Receipt, outcomes: &[CellOutcome]) -> String {
    let mut counts = Exactness::default();
    for outcome in outcomes {
        match outcome.hashes {
            Hashes::Equal => counts.equal += 1,
            Hashes::Unequal => counts.unequal += 1,
            Hashes::Missing => counts.failed += 1,
        }
    }
    let replies: usize =
        receipt.comparison.runs().flat_map(|r| &r.cells).flat_map(|c| &c.reps).map(|r| r.replies.len()).sum();
    let mut text = format!(
        "Cells whose replies have one hash a stream over all runs, discarded and rerun ones included: {} of {} \
         ({} unequal, {} with a hash missing), over {replies} replies. A cell without drafts is held against the same cell with them.\n",
        counts.equal,
        outcomes.len(),
        counts.unequal,
        counts.failed
    );
    for outcome in outcomes.iter().filter(|o| o.hashes != Hashes::Equal) {
        text += &format!("- {}: {}\n", outcome.cell, outcome.hashes);
    }
    text
}

fn drafts(receipt: &Receipt) -> String {
    let mut rows = Vec::new();
    for outcome in receipt.comparison.outcomes() {
        for arm in [Arm::Base, Arm::This] {
            let runs = receipt.comparison.runs().filter(|run| run.arm == arm && run.role == Role::Counted);
            let cells: Vec<&CellRun> =
                runs.flat_map(|r| &r.cells).filter(|c| c.cell == outcome.cell).collect();
            let sums = cells.iter().filter_map(|c| c.drafts()).reduce(|a, b| [0, 1, 2].map(|i| a[i] + b[i]));
            let Some([rounds, drafted, accepted]) = sums else { continue };
            let ms =
                crate::stats::Spread::of(cells.iter().filter_map(|c| c.ms_per_round()).map(|s| s.median));
            rows.push(vec![
                outcome.cell.to_string(),
                arm.to_string(),
                rounds.to_string(),
                drafted.to_string(),
                accepted.to_string(),
                number((drafted > 0).then(|| accepted as f64 / drafted as f64), 3),
                number(ms.map(|s| s.median), 2),
            ]);
        }
    }
    if rows.is_empty() {
        return format!("{UNKNOWN}: the servers tell no counters.\n");
    }
    markdown(&["cell", "arm", "rounds", "verified", "kept", "kept share", "ms a round"], rows)
}

/// Startup lines of the first three starts where they differ from start to start, else of the first.
fn startup(receipt: &Receipt) -> String {
    let mut text = String::new();
    for arm in [Arm::Base, Arm::This] {
        let starts = receipt.comparison.series.iter().filter(|s| s.series.part != Part::NoDrafts);
        let starts = starts.flat_map(|s| &s.runs).filter(|run| run.arm == arm && !run.startup.is_empty());
        let mut shown: Vec<&[String]> = Vec::new();
        for run in starts.take(3) {
            if !shown.iter().any(|lines| alike(lines, &run.startup)) {
                shown.push(&run.startup);
            }
        }
        if shown.is_empty() {
            text += &format!("{arm}: {UNKNOWN}\n\n");
        }
        for (number, lines) in shown.iter().enumerate() {
            text += &format!("{arm}, start {}:\n\n```text\n{}\n```\n\n", number + 1, lines.join("\n"));
        }
    }
    let load = |arm| {
        let times = receipt.comparison.runs().filter(|r| r.arm == arm).filter_map(|r| r.load_seconds);
        crate::stats::Spread::of(times).map(|s| s.median)
    };
    let added = load(Arm::This).zip(load(Arm::Base)).map(|(this, base)| this - base);
    text + &format!("Load time added by this over base, medians: {} s.\n", number(added, 2))
}

/// Whether two starts say the same, apart from times and addresses.
fn alike(a: &[String], b: &[String]) -> bool {
    let told = |lines: &[String]| -> Vec<String> {
        lines.iter().filter(|line| !line.contains("http://") && !line.contains("MiB free")).cloned().collect()
    };
    told(a) == told(b)
}

fn flagged(receipt: &Receipt) -> String {
    let mut text = String::new();
    for series in &receipt.comparison.series {
        for (number, run) in series.runs.iter().enumerate() {
            text += &flags(series, number, run);
        }
        if !series.controls.is_empty() {
            let speeds: Vec<String> = series.controls.iter().map(|s| format!("{s:.1}")).collect();
            text += &format!(
                "- {}: control before it {} tokens a second\n",
                series.series,
                speeds.join(", then ")
            );
        }
    }
    text
}

fn flags(series: &SeriesRuns, number: usize, run: &Run) -> String {
    let name = format!("{}, run {} ({})", series.series, number + 1, run.arm);
    let mut flags: Vec<String> = Vec::new();
    match run.role {
        Role::Discarded => flags.push("discarded by plan".into()),
        Role::Throttled => flags.push("discarded: held back by heat or power".into()),
        Role::Rerun => flags.push("rerun".into()),
        Role::Counted => {}
    }
    if run.level() == Level::Moderate {
        flags.push("kept at a moderate level".into());
    }
    let state = &run.end;
    let loads = state.load_average.map_or(UNKNOWN.to_owned(), |l| format!("{:.2}", l[0]));
    let busiest = state.busiest.as_ref();
    let busiest = busiest.map_or(UNKNOWN.to_owned(), |b| format!("{} at {:.0} %", b.name, b.percent));
    flags.push(format!("load average {loads}, busiest foreign process {busiest}"));
    format!("- {name}: {}\n", flags.join("; "))
}

fn not_run(receipt: &Receipt) -> String {
    let mut text = String::new();
    for line in &receipt.left_out {
        text += &format!("- {line}\n");
    }
    for series in &receipt.comparison.series {
        if let Some(why) = &series.not_run {
            let made = series.runs.len();
            text += &format!("- {}, after {made} runs: {}\n", series.series, why.replace('\n', "\n  "));
        }
    }
    if text.is_empty() { "Nothing was left out.\n".into() } else { text }
}
