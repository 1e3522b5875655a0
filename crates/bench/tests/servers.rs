//! Comparisons of real processes: a simulated server that is started, driven and stopped.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::Duration;

use rstest::rstest;
use tokenfare_bench::compare::schedule::compare;
use tokenfare_bench::compare::{Arm, ArmCommand, Comparison, Event, Plan, Server, Servers, Waiting};
use tokenfare_bench::load::Load;
use tokenfare_bench::machine::{Identity, Processes};
use tokenfare_bench::receipt::{self, ArmFacts, Facts, Receipt};
use tokenfare_bench::run::cell::Seeds;
use tokenfare_bench::run::prompt::{self, Require};
use tokenfare_bench::run::{Part, Reference, concurrent, openai};
use tokenfare_bench::stop::Stop;
use tokenfare_bench::sweep;
use tokenfare_bench::testkit::{Pace, SimulatedRuns, SimulatedServer};
use tokenfare_bench::verdict::{Hashes, Verdict};
use tokenfare_bench::{BenchError, Client};

const SIMULATED: &str = env!("CARGO_BIN_EXE_simulated-server");
const LONG: Duration = Duration::from_secs(60);

fn plan(parts: &[Part]) -> Plan {
    Plan {
        parts: parts.to_vec(),
        concurrent: concurrent::Options {
            levels: vec![1, 2],
            tokens: 16,
            reps: 2,
            temperatures: vec![0.0],
            loads: Load::concurrent(),
            seeds: Seeds::ByStream,
            stagger: Duration::ZERO,
            references: vec![Reference::Alone, Reference::Serial],
        },
        openai: openai::Options { tokens: 16, reps: 2, temperatures: vec![1.0], loads: Load::openai() },
        prompt: prompt::Options {
            cold: Require::Told,
            reuse: Require::Nothing,
            context: None,
            nonce: "test".into(),
        },
        gate: None,
    }
}

fn command(flags: &str) -> ArmCommand {
    ArmCommand::new(["--this", "--env-this"], &format!("{SIMULATED} {flags}"), &[]).unwrap()
}

fn servers<'a>(plan: &'a Plan, base: ArmCommand, this: ArmCommand, patience: Duration) -> Servers<'a> {
    Servers {
        plan,
        arms: [base, this],
        // Any flag that the simulated server takes.
        no_drafts: "--plain".into(),
        waiting: Waiting { settle: Duration::ZERO, start: patience, reply: LONG },
        api_key: None,
        stop: Stop::new(),
        processes: Processes::default(),
    }
}

fn run(plan: &Plan, base: &str, this: &str) -> Comparison {
    compare(plan, &mut servers(plan, command(base), command(this), LONG), |_| Ok(())).unwrap()
}

#[test]
fn every_part_runs_on_fresh_servers() {
    let plan = plan(&[Part::Concurrent, Part::Openai, Part::NoDrafts, Part::Prompt]);
    let comparison = run(&plan, "", "--added 0.5");
    assert!(comparison.is_whole(), "{:?}", comparison.series.iter().map(|s| &s.not_run).collect::<Vec<_>>());
    let outcomes = comparison.outcomes();
    let timed = outcomes.iter().filter(|o| o.four.mean_ratio().is_some());
    assert_eq!((timed.count(), outcomes.len()), (4 + 2 + 4 + 3, 4 + 2 + 4 + 3));
    assert_eq!(comparison.exactness(), Hashes::Equal);
    let prompts: Vec<&str> =
        outcomes.iter().filter(|o| o.cell.part == Part::Prompt).map(|o| o.cell.load.as_str()).collect();
    assert_eq!(prompts, ["512", "2000", "4088"]);
    for run in comparison.runs() {
        assert!(run.startup[0].starts_with("simulated server at "), "{:?}", run.startup);
        assert!(run.load_seconds.unwrap() > 0.0);
    }
}

#[rstest]
#[case("--flip 3", Hashes::Unequal)]
#[case("--no-hashes", Hashes::Missing)]
fn replies_must_be_shown_to_be_equal(#[case] flags: &str, #[case] expected: Hashes) {
    assert_eq!(run(&plan(&[Part::Openai]), "", flags).exactness(), expected);
}

#[test]
fn a_server_that_dies_fails_its_cell_with_its_last_lines() {
    let comparison = run(&plan(&[Part::Openai]), "", "--die 4");
    let why = comparison.series[0].not_run.clone().unwrap();
    let start = "a run of this failed: openai gpu-chat-no-think x1 T1: POST /v1/chat/completions: ";
    assert!(why.starts_with(start), "{why}");
    let end = "the server ended with exit status: 3; its last lines:\n";
    assert!(why.contains(end) && why.ends_with("simulated server: reply 4 ends the process"), "{why}");
    let verdicts: Vec<Verdict> = comparison.outcomes().iter().map(|o| o.four.verdict()).collect();
    assert_eq!(verdicts, [Verdict::NotRun, Verdict::Failed]);
}

#[rstest]
#[case(
    "sh -c 'echo no model >&2; exit 7'",
    "the server ended with exit status: 7; its last lines:\nno model"
)]
#[case("sh -c 'sleep 600'", "the server did not answer in 1 s; its log is empty")]
#[case("no-such-program", "cannot start `no-such-program`: No such file or directory (os error 2)")]
fn a_server_that_never_answers_is_told(#[case] base: &str, #[case] message: &str) {
    let plan = plan(&[Part::Openai]);
    let base = ArmCommand::new(["--base", "--env-base"], base, &[]).unwrap();
    let mut servers = servers(&plan, base, command(""), Duration::from_secs(1));
    let comparison = compare(&plan, &mut servers, |_| Ok(())).unwrap();
    let expected = format!("a run of base failed: {message}");
    assert_eq!(comparison.series[0].not_run.as_deref(), Some(&*expected));
    assert_eq!(comparison.runs().count(), 1);
}

#[test]
fn a_wish_to_stop_ends_the_server_and_leaves_a_part() {
    let plan = plan(&[Part::Openai, Part::Concurrent]);
    let mut servers = servers(&plan, command(""), command("--round-ms 10000"), LONG);
    let stop = servers.stop.clone();
    let comparison = compare(&plan, &mut servers, |event| {
        // Two runs of base are over when the slow server begins.
        if matches!(event, Event::Run(run) if run.arm == Arm::Base) && !stop.asked() {
            let stop = stop.clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(300));
                stop.ask();
            });
        }
        Ok(())
    })
    .unwrap();
    assert!(comparison.series.iter().all(|s| s.not_run.as_deref() == Some("stopped by the user")));
    assert_eq!(comparison.series.len(), 3);
    assert!(comparison.runs().count() < 5);
}

#[test]
fn a_server_is_ended_with_what_it_started() {
    let text = format!("sh -c '{SIMULATED} --port {{port}} & wait'");
    let command = ArmCommand::new(["--base", "--env-base"], &text, &[]).unwrap();
    let server = Server::start(&command, LONG, &Stop::new()).unwrap();
    let client = Client::new(server.url(), None, LONG).unwrap();
    assert_eq!(client.model().unwrap(), ("simulated".to_owned(), Some(4096)));
    drop(server);
    assert!(matches!(client.model(), Err(BenchError::Http { .. })));
}

fn receipt_of(comparison: Comparison, arms: [&ArmCommand; 2]) -> Receipt {
    let facts = Facts {
        tool: "tokenfare".into(),
        arguments: format!("bench compare --base '{}'", arms[0].text()),
        base: ArmFacts::of(arms[0], None),
        this: ArmFacts::of(arms[1], Some("abc".into())),
        device: None,
        settle_seconds: 0.0,
        began: Some(7),
    };
    Receipt {
        facts,
        machine: Identity::read(),
        client_microseconds: None,
        comparison,
        left_out: vec!["prompt: not asked for by --parts".into()],
        partial: Some("stopped by the user".into()),
    }
}

#[test]
fn a_receipt_tells_everything_and_names_no_place() {
    let plan = plan(&[Part::Openai, Part::NoDrafts]);
    let mut driver = SimulatedRuns::new(&plan, 1);
    driver.added = 0.03;
    let comparison = compare(&plan, &mut driver, |_| Ok(())).unwrap();
    let (base, this) = (command(""), command("--added 0.03"));
    let receipt = receipt_of(comparison, [&base, &this]);
    let files = receipt::files(&receipt).unwrap();
    let text = |name: &str| files.iter().find(|file| file.0 == name).unwrap().1.as_str();
    let page = text("README.md");
    for words in [
        "**Partial: stopped by the user.**",
        "6 cells: 6 slower.",
        "slower both times: 6",
        "Every reply has the same tokens in all runs.",
        "| this 1 / base 1 | this 2 / base 2 | mean over mean | verdict",
        "Once more, because a cell of the series was slower; replaces nothing:",
        "over all runs, discarded and rerun ones included: 6 of 6",
        "base serves at <url>",
        "discarded by plan",
        "- prompt: not asked for by --parts",
        "not recorded",
    ] {
        assert!(page.contains(words), "{words} in {page}");
    }
    let names: Vec<&str> = files.iter().map(|file| file.0.as_str()).collect();
    let texts = ["raw.json", "README.md", "server.log", "ends.json", "command.txt", "binaries.sha256"];
    let plots = ["speed-openai.svg", "speed-no-drafts.svg", "costs.svg"];
    assert_eq!(names, [&texts[..], &plots].concat());
    let place = Path::new(SIMULATED).parent().unwrap().display().to_string();
    for (name, text) in &files {
        assert!(!text.is_empty() && !text.contains(&*place) && !text.contains("127.0.0.1"), "{name}: {text}");
    }
    let raw: Receipt = serde_json::from_str(text("raw.json")).unwrap();
    assert_eq!(raw.comparison.outcomes().len(), 6);
    assert_eq!(raw.comparison.exactness(), Hashes::Equal);
}

#[test]
fn a_running_server_is_measured() {
    let server = SimulatedServer::start(0, Pace::default()).unwrap();
    let client = Client::new(&server.url(), None, LONG).unwrap();
    let plan = plan(&[]);
    let report = plan.concurrent.run(&client, &Stop::new()).unwrap();
    assert_eq!((report.cells.len(), report.holds()), (4, true));
    let text = report.text();
    // Two loads at one and two streams, against two repetitions each.
    for words in ["alone: 12 equal, 0 unequal, 0 failed", "serial: 12 equal, 0 unequal, 0 failed", "| chat |"]
    {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert!(plan.openai.run(&client, &Stop::new()).unwrap().text().contains("fibonacci-raw"));
    let prompts = plan.prompt.run(&client, &Stop::new()).unwrap();
    assert!(prompts.holds());
    let reuse = prompt::Options { reuse: Require::Told, ..plan.prompt };
    let broken = reuse.run(&client, &Stop::new()).unwrap().broken;
    assert_eq!(broken[0], "512 tokens: expected some cached when repeated, found 0");
}

#[test]
fn a_sweep_starts_a_server_a_depth_in_both_orders() {
    let options = sweep::Options {
        cap: 1,
        cells: concurrent::Options { levels: vec![1], references: Vec::new(), ..plan(&[]).concurrent },
        settle: Duration::ZERO,
        start: LONG,
        reply: LONG,
    };
    let started = std::cell::Cell::new(0);
    let report = options.run(&command(""), &Stop::new(), || started.set(started.get() + 1)).unwrap();
    assert_eq!((started.get(), options.servers(), report.holds()), (6, 6, true));
    assert!(report.text().contains("| cell                  | k = 0 | k = 1 | rule"), "{}", report.text());
}
