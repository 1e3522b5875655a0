//! Where the table of draft costs comes from, as the real binary is started; and that no table changes a reply.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rstest::rstest;
use serde_json::{Value, json};
use support::server::Server;
use support::{clean, mini, repository, tiny, tokenfare};

const CHAT: &str = "/v1/chat/completions";

fn serve(args: &[&str], settings: &[(&str, &str)]) -> Server {
    Server::start(&[&["--parallel", "2", "--context", "512", "--threads", "1"], args].concat(), settings)
}

/// A server whose measurement the machine's noise did not make implausible.
fn serve_measured(args: &[&str], settings: &[(&str, &str)]) -> Server {
    let refused = |server: &Server| server.startup()[0].contains("dsv41 calibration refused: a pass of ");
    let mut starts = (0..20).map(|_| serve(args, settings));
    starts.find(|server| !refused(server)).expect("one of twenty measurements is plausible")
}

/// The line with its numbers replaced by `#`, words with digits in them left alone.
fn masked(line: &str) -> String {
    let mut out = String::new();
    for (i, word) in line.split(' ').enumerate() {
        let number = |part: &str| {
            let digits = part.trim_matches(|c: char| "(),s".contains(c));
            !digits.is_empty()
                && digits.contains('.')
                && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        };
        let gap = if i == 0 { "" } else { " " };
        let word = if number(word) {
            let digits = word.trim_matches(|c: char| "(),s".contains(c));
            word.replace(digits, "#")
        } else {
            word.to_owned()
        };
        out += &format!("{gap}{word}");
    }
    out
}

/// The serving line without its port and its load time.
fn serving(line: &str) -> String {
    let (start, rest) = line.split_once("http://127.0.0.1:").unwrap();
    let (_, rest) = rest.split_once(' ').unwrap();
    let (rest, _) = rest.split_once("loaded in ").unwrap();
    format!("{start}http://127.0.0.1:PORT {rest}loaded in #s)")
}

/// A stored table for the tiny checkpoint, made by this binary and device; the machine's noise may refuse some.
fn store(dir: &Path, settings: &[(&str, &str)]) -> PathBuf {
    for _ in 0..20 {
        let mut command = tokenfare();
        command.args([
            "calibrate",
            &tiny(),
            "--parallel",
            "2",
            "--context",
            "512",
            "--store",
            "--threads",
            "1",
        ]);
        command.env("TF_DSV41_CALIB_DIR", dir).envs(settings.iter().copied());
        let said = command.output().unwrap();
        if said.status.success() {
            let files: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
            let [file] = &files[..] else { panic!("{files:?}") };
            return file.clone();
        }
        let words = String::from_utf8(said.stderr).unwrap();
        assert!(words.contains("is dearer than twice its own 1-row window"), "{words}");
    }
    panic!("twenty measurements were refused");
}

/// What a start says of costs, and the source in its costs line.
fn source(binary: &Path, args: &[&str], settings: &[(&str, &str)]) -> String {
    let mut command = clean(Command::new(binary));
    command.args(["run", &tiny(), "--raw", "abc", "--max-tokens", "2", "--context", "512"]);
    let threads = if args.contains(&"--threads") { &[][..] } else { &["--threads", "1"] };
    let said = command.args(threads).args(args).envs(settings.iter().copied()).output().unwrap();
    let words = String::from_utf8(said.stderr).unwrap();
    assert!(said.status.success(), "{words}");
    let costs = words.lines().find_map(|line| line.strip_prefix("info: dsv41 draft costs: "));
    costs.map_or_else(|| "default".to_owned(), |line| line.split(", verify").next().unwrap().to_owned())
}

fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_tokenfare"))
}

#[test]
fn env_defaults_start_with_the_recorded_lines_and_read_no_table() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, pipe) = (folder.path().join("tables"), folder.path().join("pipe"));
    // Opening this pipe for reading would wait for ever.
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let settings = [
        ("TF_DSV41_CALIB_DIR", dir.to_str().unwrap()),
        ("TF_DSV41_CALIB_FILE", pipe.to_str().unwrap()),
        ("TF_DSV41_CALIB_REPS", "7"),
    ];
    // Lanes are told where the memory decided on their number; the other three lines are all that speaks of costs.
    for (parallel, lines, settings) in
        [("2", 3, &[][..]), ("2", 3, &settings), ("auto", 4, &[]), ("auto", 4, &settings)]
    {
        let args = [&mini(), "--parallel", parallel, "--context", "512", "--threads", "1"];
        let server = Server::start(&args, settings);
        let startup = server.startup();
        let (told, [costs, depth, last]) = startup.split_last_chunk().unwrap();
        assert_eq!(startup.len(), lines, "{startup:#?}");
        assert!(told.iter().all(|line| line.starts_with("info: dsv41 lanes: ")), "{startup:#?}");
        assert_eq!(
            costs,
            "info: dsv41 draft costs: default, verify 1 / 16 rows 42.000 / 117.000 ms, pass 5.600 ms"
        );
        assert_eq!(
            depth,
            "info: dsv41 depth: cost, cap 5, skip on, joint 1, drafts priced from the cost tables"
        );
        assert_eq!(
            serving(last),
            "[tokenfare] serving mini at http://127.0.0.1:PORT (sampling: temperature 1.0, top_p 1.0; \
             drafts: DSpark + copies; context: 512; loaded in #s)"
        );
    }
    assert!(!dir.exists());
}

#[test]
fn a_measured_start_says_how_and_what() {
    let server =
        serve_measured(&[&mini(), "--draft-costs", "Measure"], &[("TF_DSV41_CALIB_BUDGET_MS", "60000")]);
    let [method, line, costs, depth, last] = server.startup() else { panic!("{:#?}", server.startup()) };
    let start = "info(dsv41): dsv41 calib method (tokenfare): table raw, min of 3 after 1 warm-up(s), rows 1-4 cycled, \
                 rows 1-0 rechecked, rows 9+ 5 runs; 2 slots, ";
    assert!(method.starts_with(start), "{method}");
    assert!(masked(method).ends_with("-token text; rows 1-4 kept # / # / # / # ms (rank 0)"), "{method}");
    let line = masked(line);
    let start = "info(dsv41): dsv41 calibration (tokenfare): draft # ms (ingest #, first #), slot # ms, \
                 verify 1/2/4/6/8/16/17/24/32 rows #, #, #, #, #, #, #, #, # ms, measured in # s over ";
    assert!(line.starts_with(start), "{line}");
    let runs: usize = line[start.len()..].split(' ').next().unwrap().parse().unwrap();
    let planned = method.split(" slots, ").nth(1).unwrap().split(' ').next().unwrap();
    assert_eq!(planned.parse(), Ok(runs));
    // One more window and two more passes than timed runs; the first ingest is a run and neither.
    let end = format!(
        " timed runs (tokenizer and text # s, 4 prompt rows in # s, {} windows and passes in # s) (not stored)",
        runs + 2
    );
    assert!(line.ends_with(&end), "{line}");
    assert_eq!(masked(costs), "info: dsv41 draft costs: measured, verify 1 / 16 rows # / # ms, pass # ms");
    assert!(
        depth.starts_with("info: dsv41 depth: cost, cap 5") && last.starts_with("[tokenfare] serving mini")
    );
    let health = server.get("/health").json();
    assert_eq!((&health["running"], &health["waiting"]), (&json!(0), &json!(0)));
}

#[test]
fn json_lines_hold_the_same_facts_as_fields() {
    let server = serve_measured(&[&mini(), "--log-format", "json"], &[("TF_DSV41_CALIB", "measure")]);
    let lines: Vec<Value> = server.startup().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let fields = |line: usize| &lines[line]["fields"];
    assert_eq!((lines.len(), &fields(0)["stat"], &fields(0)["reps"]), (5, &json!("min"), &json!(3)));
    assert_eq!(fields(1)["verify_rows"], json!([1, 2, 4, 6, 8, 16, 17, 24, 32]));
    assert!(fields(1)["draft_ms"].as_f64().unwrap() > 0.0 && fields(1)["prompt_rows"] == 4);
    assert_eq!((&fields(2)["source"], &fields(3)["cap"]), (&json!("measured"), &json!(5)));
    let table = server.get("/v1/pricing").json()["table"].clone();
    for fact in ["source", "verify_ms", "draft_ms", "slot_ms"] {
        assert_eq!(table[fact], fields(2)[fact], "{fact}");
    }
    assert_eq!((&fields(4)["model"], &fields(4)["drafts"]), (&json!("mini"), &json!("DSpark + copies")));
    assert!(lines.iter().all(|line| line["level"] == "INFO" && line["timestamp"].is_string()));
}

#[rstest]
#[case("measure", true)]
#[case("stored", true)]
#[case("default", false)]
#[case("cached", false)]
fn without_drafts_there_is_nothing_to_measure(#[case] mode: &str, #[case] told: bool) {
    let server = serve(&[&tiny(), "--no-drafts"], &[("TF_DSV41_CALIB", mode)]);
    let (last, lines) = server.startup().split_last().unwrap();
    let line = "info(dsv41): dsv41 calibration skipped: drafts are off".to_owned();
    assert_eq!(lines, if told { vec![line] } else { vec![] });
    assert!(last.contains("; drafts: off; "), "{last}");
}

fn hashes(server: &Server) -> Vec<(String, u64)> {
    let ask = |question: &str, more: Value| {
        let mut body = json!({"messages": [{"role": "user", "content": question}], "max_tokens": 40});
        more.as_object().unwrap().iter().for_each(|(name, value)| body[name] = value.clone());
        let reply = server.ok(CHAT, &body);
        let hash = reply["tokenfare"]["token_sha256"].as_str().unwrap().to_owned();
        (hash, reply["tokenfare"]["drafted"].as_u64().unwrap_or_default())
    };
    vec![
        ask("What is a GPU?", json!({"temperature": 0})),
        ask("Write a fibonacci function", json!({"temperature": 1.0, "seed": 11})),
        ask("Tell me a short story.", json!({"temperature": 0.7, "top_p": 0.9, "seed": 3})),
    ]
}

#[test]
fn exact_whatever_the_table_and_the_depth() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let expected: Vec<String> =
        hashes(&serve(&[&mini(), "--no-drafts"], &[])).into_iter().map(|(hash, _)| hash).collect();
    let modes = ["default", "measure", "stored", "stored", "cached", "real"];
    let mut starts: Vec<(&str, Vec<(&str, &str)>)> = modes.map(|mode| (mode, vec![])).to_vec();
    for depth in ["0", "1", "2", "3", "4", "5", "15"] {
        for rule in ["static", "cost"] {
            starts.push(("cached", vec![("TF_DSV41_DRAFT_DEPTH", depth), ("TF_DSV41_DEPTH", rule)]));
        }
    }
    starts.push(("measure", vec![("TF_DSV41_DRAFT_SKIP", "off"), ("TF_DSV41_DEPTH_JOINT", "0")]));
    starts.push(("measure", vec![("TF_DSV41_CALIB_SHAPE", "fit"), ("TF_DSV41_CALIB_STAT", "median")]));
    for (mode, more) in starts {
        let settings = [&[("TF_DSV41_CALIB", mode), ("TF_DSV41_CALIB_DIR", dir)], &more[..]].concat();
        let server = serve(&[&mini()], &settings);
        let found: Vec<String> = hashes(&server).into_iter().map(|(hash, _)| hash).collect();
        assert_eq!(found, expected, "{settings:?}\n{:#?}", server.startup());
        let source = server.get("/v1/pricing").json()["table"]["source"].clone();
        let told = format!("info: dsv41 draft costs: {}, verify ", source.as_str().unwrap());
        assert!(server.startup().iter().any(|line| line.starts_with(&told)), "{told}{:#?}", server.startup());
    }
}

#[test]
fn a_stored_table_is_read_by_its_own_alone() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("tables");
    let scalar = ("TF_CPU_PATH", "scalar");
    let file = store(&dir, &[scalar]);
    let read = ("TF_DSV41_CALIB_DIR", dir.to_str().unwrap());
    let named = ("TF_DSV41_CALIB_FILE", file.to_str().unwrap());
    let cached = ("TF_DSV41_CALIB", "cached");
    let found = format!("cached {}", file.display());
    assert_eq!(source(&binary(), &[], &[scalar, read, cached]), found);
    assert_eq!(source(&binary(), &["--draft-costs", "real"], &[scalar, read]), found);
    assert_eq!(source(&binary(), &[], &[scalar, named, cached]), found);

    // Another device: other threads.
    assert_eq!(source(&binary(), &["--threads", "2"], &[scalar, read, cached]), "default");
    assert_eq!(source(&binary(), &["--threads", "2"], &[scalar, named, cached]), "default");

    // Another executable, of the same code.
    let other = folder.path().join("tokenfare");
    let mut bytes = fs::read(binary()).unwrap();
    bytes.push(0);
    fs::write(&other, bytes).unwrap();
    fs::set_permissions(&other, fs::metadata(binary()).unwrap().permissions()).unwrap();
    assert_eq!(source(&other, &[], &[scalar, read, cached]), "default");
    assert_eq!(source(&other, &[], &[scalar, named, cached]), found);

    // Another checkpoint, by its configuration's bytes.
    let copy = folder.path().join("copy");
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(repository("fixtures/tiny")).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    let of_copy = |settings: &[(&str, &str)]| {
        let mut command = tokenfare();
        command.args([
            "run",
            copy.to_str().unwrap(),
            "--raw",
            "abc",
            "--max-tokens",
            "2",
            "--context",
            "512",
        ]);
        let said = command.args(["--threads", "1"]).envs(settings.iter().copied()).output().unwrap();
        assert!(said.status.success());
        String::from_utf8(said.stderr).unwrap()
    };
    assert!(of_copy(&[scalar, read, cached]).contains(&format!("draft costs: {found}, ")));
    let config = fs::read_to_string(copy.join("config.json")).unwrap();
    fs::write(copy.join("config.json"), config + "\n").unwrap();
    assert!(!of_copy(&[scalar, read, cached]).contains("draft costs"));
    let refused = of_copy(&[scalar, named, cached]);
    let why = "skipped: it is of another device, checkpoint, world or drafts flag; the default table prices the rounds";
    assert!(
        refused.contains(&format!("warning(dsv41): dsv41 stored table {} {why}", file.display())),
        "{refused}"
    );

    // The drafts flag: nothing is read and nothing said.
    assert_eq!(source(&binary(), &["--no-drafts"], &[scalar, read, cached]), "default");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
}

#[test]
fn a_dear_pass_is_refused_when_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = store(folder.path(), &[("TF_CPU_PATH", "scalar")]);
    let mut table: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    table["verify"] = json!([4.0, 5.0, 6.0]);
    table["draft"] = json!(8.001);
    fs::write(&file, table.to_string()).unwrap();
    for mode in ["cached", "real"] {
        let server = serve(
            &[&tiny(), "--draft-costs", mode],
            &[("TF_CPU_PATH", "scalar"), ("TF_DSV41_CALIB_DIR", folder.path().to_str().unwrap())],
        );
        assert_eq!(
            server.startup()[0],
            format!(
                "warning(dsv41): dsv41 stored table {} refused: a pass of 8.001 ms is dearer than twice its own \
                 1-row window of 4.000 ms; the default table prices the rounds",
                file.display()
            )
        );
        assert!(
            server.startup()[1].starts_with("info: dsv41 draft costs: default, verify 1 / 16 rows 42.000")
        );
    }
}

#[test]
fn a_kill_at_any_moment_leaves_whole_tables_alone() {
    let folder = tempfile::tempdir().unwrap();
    for wait in [20, 60, 100, 150, 200, 300, 400, 600] {
        let mut command = tokenfare();
        command.args(["calibrate", &tiny(), "--store", "--threads", "1"]);
        command.env("TF_DSV41_CALIB_DIR", folder.path()).env("TF_DSV41_CALIB_BUDGET_MS", "0");
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(wait));
        // It may have ended by itself.
        let _ = child.kill();
        child.wait().unwrap();
        for entry in fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            let bytes = fs::read(entry.path()).unwrap();
            if name.starts_with("calib-") {
                let table: Value = serde_json::from_slice(&bytes).unwrap();
                assert_eq!(table["engine"], "tokenfare");
            } else {
                assert!(name.starts_with(".tokenfare-") && name.ends_with(".tmp"), "{name}");
            }
        }
    }
}

#[test]
fn calibrate_prints_a_table_a_plot_and_how_far_entries_move() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("plot.svg");
    let said = (0..20)
        .map(|_| {
            let mut command = tokenfare();
            command.args(["calibrate", &tiny(), "--starts", "2", "--parallel", "1", "--threads", "1"]);
            command.args(["--svg", svg.to_str().unwrap()]).output().unwrap()
        })
        .find(|said| said.status.success())
        .expect("one of twenty measurements is plausible");
    let (stdout, stderr) = (String::from_utf8(said.stdout).unwrap(), String::from_utf8(said.stderr).unwrap());
    assert_eq!(stderr.matches("calibration (tokenfare): draft ").count(), 2, "{stderr}");
    let row = |rows: &str| stdout.lines().find(|line| line.split_whitespace().next() == Some(rows)).unwrap();
    assert_eq!(row("7").split_whitespace().nth(2), Some("-"));
    assert_ne!(row("8").split_whitespace().nth(2), Some("-"));
    assert!(
        stdout.starts_with("device cpu (") && row("16").contains('#') && stdout.contains(" +"),
        "{stdout}"
    );
    for words in [
        "entry ",
        "1 row ",
        "pass ",
        "over 2 starts, each with the model loaded anew",
        "noise of this machine",
    ] {
        assert!(stdout.contains(words), "{words} in {stdout}");
    }
    assert!(fs::read_to_string(&svg).unwrap().contains("built-in, scaled to the same 1-row window"));
}

#[test]
fn calibrate_gives_one_json_object() {
    let said = (0..20)
        .map(|_| {
            let mut command = tokenfare();
            command
                .args(["calibrate", &tiny(), "--output", "json", "--context", "64", "--threads", "1"])
                .output()
                .unwrap()
        })
        .find(|said| said.status.success())
        .expect("one of twenty measurements is plausible");
    let value: Value = serde_json::from_slice(&said.stdout).unwrap();
    let start = &value["starts"][0];
    assert_eq!(start["verify_ms"].as_array().unwrap().len(), 32);
    assert_eq!((&start["planned_runs"], &start["slots"]), (&start["timed_runs"], &json!(2)));
    assert_eq!(
        start["timed"].as_array().unwrap()[..6].iter().map(|t| t["rows"].as_u64().unwrap()).sum::<u64>(),
        21
    );
    assert!(start["timed_seconds"].as_f64() < start["seconds"].as_f64());
    assert_eq!(
        (&value["noise"]["rows"], &value["noise"]["runs"], &value["stored"]),
        (&json!(4), &json!(3), &Value::Null)
    );
    assert_eq!(value["movement"]["pass"]["percent"], 0.0);
}
