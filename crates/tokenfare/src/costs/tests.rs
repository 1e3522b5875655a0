//! Every source of the table, with what each may touch.

use super::table_file::StoredTable;
use super::*;
use crate::lines::LogFormat;
use rstest::rstest;
use std::fs;
use std::path::Path;
use tokenfare_lanes::TargetError;
use tokenfare_pricing::{Calibration, Room, Step, TableShape, Tally, TimingsError, Took};
use tokenfare_settings::{Platform, Settings};

const SHAPE: TableShape = TableShape { slots: 2, world: 1, dspark: true, context: 512 };

/// A start that counts what it is asked for.
struct Counted {
    device: &'static str,
    executable: &'static [u8],
    pass_us: u64,
    failure: Option<&'static str>,
    measured: usize,
    identified: usize,
}

impl Counted {
    fn new() -> Self {
        Self { device: "d", executable: b"e", pass_us: 4000, failure: None, measured: 0, identified: 0 }
    }
}

fn calibrated(pass_us: u64) -> Result<Calibrated, TimingsError> {
    let room = Room { slots: 2, context: 512, window_rows: 64, launch_bound: 16 };
    let mut calibration = Calibration::new(CalibrationOptions::default(), room).unwrap();
    while let Some(step) = calibration.next(Duration::ZERO) {
        let us = match step {
            Step::Window { launch, .. } => 20_000 + 500 * launch.windows().iter().sum::<usize>() as u64,
            _ => pass_us,
        };
        calibration.record(&step, Took { whole: Duration::from_micros(us), ingest: Duration::ZERO });
    }
    let tally = Tally { text: 99, whole: Duration::from_millis(1500), ..Tally::default() };
    Ok(Calibrated { measurement: calibration.finish()?, tally })
}

impl Start for Counted {
    fn measure(&mut self) -> Result<Calibrated, CalibrationError> {
        self.measured += 1;
        match self.failure {
            Some(words) => Err(TargetError(words.to_owned()).into()),
            None => Ok(calibrated(self.pass_us)?),
        }
    }
    fn identity(&mut self) -> Result<Identity> {
        self.identified += 1;
        Ok(Identity::new(self.device, true, b"checkpoint", self.executable))
    }
}

struct Bench {
    folder: tempfile::TempDir,
    calib: CalibSettings,
}

impl Bench {
    fn new(source: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("tables").display().to_string();
        let pairs = [("TF_DSV41_CALIB", source), ("TF_DSV41_CALIB_DIR", &dir)];
        let calib = Settings::read(Platform::Cpu, pairs).unwrap().calib;
        Self { folder, calib }
    }

    fn with(&self, source: CalibSource) -> CalibSettings {
        CalibSettings { source, ..self.calib.clone() }
    }

    fn dir(&self) -> &Path {
        self.calib.dir.as_deref().unwrap()
    }

    /// Every file of the folder with its bytes.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let Ok(entries) = fs::read_dir(self.dir()) else { return Vec::new() };
        let paths = entries.map(|entry| entry.unwrap().path());
        let mut files: Vec<_> =
            paths.map(|path| (path.clone(), fs::read(&path).unwrap_or_default())).collect();
        files.sort();
        files
    }
}

fn choose_shaped(calib: &CalibSettings, shape: TableShape, start: &mut Counted) -> Costs {
    Request { calib, platform: Platform::Cpu, shape }.choose(start)
}

fn choose(calib: &CalibSettings, start: &mut Counted) -> Costs {
    choose_shaped(calib, SHAPE, start)
}

fn said(costs: &Costs) -> Vec<String> {
    costs.lines.iter().map(|line| line.render(LogFormat::Text)).collect()
}

fn measured_table() -> CostTable {
    calibrated(4000).unwrap().measurement.table
}

/// A start whose table is stored, and the file.
fn stored() -> (Bench, PathBuf) {
    let bench = Bench::new("stored");
    let costs = choose(&bench.calib, &mut Counted::new());
    assert_eq!((costs.source, costs.table), (Source::Measured, measured_table()));
    let [(path, _)] = &bench.files()[..] else { panic!("{:?}", bench.files()) };
    let path = path.clone();
    (bench, path)
}

/// Rewrites a stored table.
fn edit(path: &Path, change: impl FnOnce(&mut serde_json::Value)) {
    let mut value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

#[test]
fn env_defaults_touch_no_table_and_compute_no_identity() {
    let (bench, _) = stored();
    let (before, mut start) = (bench.files(), Counted::new());
    let costs = choose(&bench.with(CalibSource::Default), &mut start);
    assert_eq!(costs, Costs { table: CostTable::built_in(), source: Source::Default, lines: Vec::new() });
    assert_eq!((start.measured, start.identified), (0, 0));
    assert_eq!(bench.files(), before);
    assert_eq!(
        costs.line().render(LogFormat::Text),
        "info: dsv41 draft costs: default, verify 1 / 16 rows 42.000 / 117.000 ms, pass 5.600 ms"
    );
}

#[test]
fn measure_times_and_stores_nothing() {
    let (bench, mut start) = (Bench::new("measure"), Counted::new());
    let costs = choose(&bench.calib, &mut start);
    assert_eq!((costs.table.clone(), costs.source.clone()), (measured_table(), Source::Measured));
    assert_eq!((start.measured, start.identified), (1, 0));
    assert!(!bench.dir().exists());
    let [method, line] = &said(&costs)[..] else { panic!("{costs:?}") };
    assert!(method.starts_with("info(dsv41): dsv41 calib method (tokenfare): table raw, min of 3 after 1 "));
    assert!(
        line.starts_with(
            "info(dsv41): dsv41 calibration (tokenfare): draft 4.00 ms (ingest 0.00, first 4.00)"
        )
    );
    assert!(line.ends_with(" (not stored)"), "{line}");
    assert_eq!(
        costs.line().render(LogFormat::Text),
        "info: dsv41 draft costs: measured, verify 1 / 16 rows 20.500 / 28.000 ms, pass 4.000 ms"
    );
    let json: serde_json::Value = serde_json::from_str(&costs.line().render(LogFormat::Json)).unwrap();
    assert_eq!((&json["fields"]["source"], &json["fields"]["draft_ms"]), (&json!("measured"), &json!(4.0)));
    assert_eq!(json["fields"]["verify_ms"].as_array().unwrap().len(), 32);
}

#[test]
fn measure_is_stored_on_cuda() {
    let (bench, mut start) = (Bench::new("measure"), Counted::new());
    let request = Request { calib: &bench.calib, platform: Platform::Cuda, shape: SHAPE };
    for _ in 0..2 {
        let costs = request.choose(&mut start);
        let path = &bench.files()[0].0;
        assert!(said(&costs)[1].ends_with(&format!(" (stored {})", path.display())), "{:?}", said(&costs));
    }
    assert_eq!((start.measured, bench.files().len()), (2, 1));
}

#[test]
fn stored_times_once_and_reads_from_then_on() {
    let (bench, path) = stored();
    let (before, mut start) = (bench.files(), Counted::new());
    let costs = choose(&bench.calib, &mut start);
    assert_eq!((costs.table, costs.source.clone()), (measured_table(), Source::Stored(path.clone())));
    assert_eq!(costs.source.to_string(), format!("stored {}", path.display()));
    assert_eq!((start.measured, costs.lines.len(), bench.files()), (0, 0, before));
    let value: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(
        (&value["engine"], &value["draft"], &value["slot"]),
        (&json!("tokenfare"), &json!(4.0), &json!(0.0))
    );
    assert_eq!(value["meta"]["shape"], json!({"slots": 2, "world": 1, "dspark": true, "context": 512}));
    let method =
        json!({"reps": 3, "warm": 1, "stat": "min", "recheck": 0, "shape": "raw", "cycle": 4, "deep": 5});
    assert_eq!(value["meta"]["method"], method);
    assert_eq!((&value["meta"]["seconds"], &value["meta"]["prompt_tokens"]), (&json!(1.5), &json!(99)));
    assert!(value["meta"]["time"].as_str().unwrap().ends_with('Z'));
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("calib-tokenfare-") && name.len() == "calib-tokenfare-.json".len() + 16);
}

#[test]
fn what_a_table_belongs_to_decides_whether_it_is_read() {
    let (bench, path) = stored();
    let others = [
        Counted { device: "other", ..Counted::new() },
        Counted { executable: b"built anew", ..Counted::new() },
    ];
    for mut start in others {
        for source in [CalibSource::Cached, CalibSource::Real] {
            let costs = choose(&bench.with(source), &mut start);
            assert_eq!((costs.source, costs.lines.len()), (Source::Default, 0));
        }
        let costs = choose(&bench.calib, &mut start);
        assert_eq!((costs.source, start.measured), (Source::Measured, 1));
    }
    assert_eq!(bench.files().len(), 3);
    let of_more = TableShape { slots: 1, ..SHAPE };
    for (shape, found) in [(of_more, true), (TableShape { slots: 3, ..SHAPE }, false)] {
        let costs = choose_shaped(&bench.with(CalibSource::Cached), shape, &mut Counted::new());
        assert_eq!(costs.source == Source::Cached(path.clone()), found);
    }
    let own = choose_shaped(&bench.calib, of_more, &mut Counted::new());
    assert_eq!((own.source, bench.files().len()), (Source::Measured, 4));
}

#[test]
fn a_named_file_is_held_against_all_but_the_executable() {
    let (bench, path) = stored();
    let named = bench.folder.path().join("mine.json");
    fs::rename(&path, &named).unwrap();
    let mut calib = CalibSettings { file: Some(named.clone()), ..bench.calib.clone() };
    for source in [CalibSource::Stored, CalibSource::Cached, CalibSource::Real] {
        calib.source = source;
        let mut built_anew = Counted { executable: b"built anew", ..Counted::new() };
        let costs = choose(&calib, &mut built_anew);
        assert_eq!((costs.table, costs.lines.len(), built_anew.measured), (measured_table(), 0, 0));
        assert!(matches!(costs.source, Source::Stored(p) | Source::Cached(p) if p == named));
    }
    let before = fs::read(&named).unwrap();
    let why = "it is of another device, checkpoint, world or drafts flag";
    for (source, rest) in [
        (CalibSource::Cached, "the default table prices the rounds"),
        (CalibSource::Real, "the default table prices the rounds"),
        (CalibSource::Stored, "measuring again, the file stays as it is"),
    ] {
        calib.source = source;
        let costs = choose(&calib, &mut Counted { device: "other", ..Counted::new() });
        let warning =
            format!("warning(dsv41): dsv41 stored table {} skipped: {why}; {rest}", named.display());
        assert_eq!(said(&costs)[0], warning);
        assert_eq!(costs.source == Source::Measured, source == CalibSource::Stored);
    }
    assert_eq!((fs::read(&named).unwrap(), bench.files().len()), (before, 0));
}

#[test]
fn a_named_file_that_is_missing_is_written_by_stored_alone() {
    let bench = Bench::new("stored");
    let named = bench.folder.path().join("new/mine.json");
    let mut calib = CalibSettings { file: Some(named.clone()), ..bench.calib.clone() };
    for source in [CalibSource::Cached, CalibSource::Real] {
        calib.source = source;
        let costs = choose(&calib, &mut Counted::new());
        let words = format!("dsv41 stored table {} skipped: No such file", named.display());
        assert!(said(&costs)[0].contains(&words), "{:?}", said(&costs));
        assert_eq!((costs.lines.len(), costs.source, named.exists()), (1, Source::Default, false));
    }
    calib.source = CalibSource::Stored;
    let costs = choose(&calib, &mut Counted::new());
    assert!(said(&costs)[1].ends_with(&format!("(stored {})", named.display())));
    let costs = choose(&calib, &mut Counted::new());
    assert_eq!(costs.source, Source::Stored(named));
    assert!(!bench.dir().exists());
}

#[rstest]
#[case("truncated", "no JSON: ")]
#[case("empty", "no JSON: ")]
#[case("foreign", "no table: missing field `meta`")]
#[case("future", "form 2 of a later version, expected at most 1")]
#[case("folder", "a folder, expected a file")]
#[case("device", "no regular file, expected a file")]
#[case("copied", "it is of another device, checkpoint, executable, world or drafts flag")]
#[case(
    "renamed",
    "it is of tokenfare for slots=3 world=1 dspark=1 context=512, expected tokenfare for slots=2"
)]
fn damage_in_the_own_file_is_told_and_stays(#[case] kind: &str, #[case] why: &str) {
    let (bench, path) = stored();
    let whole = fs::read(&path).unwrap();
    match kind {
        "truncated" => fs::write(&path, &whole[..whole.len() / 2]).unwrap(),
        "empty" => fs::write(&path, "").unwrap(),
        "foreign" => fs::write(&path, r#"{"verify": [1, 2], "draft": 1, "note": "mine"}"#).unwrap(),
        "future" => edit(&path, |table| table["format"] = json!(2)),
        "copied" => edit(&path, |table| table["id"] = json!("abc")),
        "renamed" => edit(&path, |table| table["meta"]["shape"]["slots"] = json!(3)),
        "folder" => {
            fs::remove_file(&path).unwrap();
            fs::create_dir(&path).unwrap();
            fs::write(path.join("inside"), "kept").unwrap();
        }
        _ => {
            fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        }
    }
    let before = if kind == "device" { Vec::new() } else { bench.files() };
    let costs = choose(&bench.calib, &mut Counted::new());
    let start = format!("warning(dsv41): dsv41 stored table {} skipped: {why}", path.display());
    let lines = said(&costs);
    assert!(lines[0].starts_with(&start), "{lines:?}");
    assert!(lines[0].ends_with("; measuring again, the file stays as it is"), "{lines:?}");
    assert!(lines[2].ends_with("(not stored)"), "{lines:?}");
    assert_eq!((costs.table, costs.source), (measured_table(), Source::Measured));
    if kind == "renamed" {
        // It fits starts of fewer slots, under whatever name.
        return;
    }
    for source in [CalibSource::Cached, CalibSource::Real] {
        let costs = choose(&bench.with(source), &mut Counted::new());
        assert_eq!(costs.source, Source::Default);
        let told = if kind == "copied" { 0 } else { 1 };
        assert_eq!(costs.lines.len(), told, "{:?}", said(&costs));
    }
    if kind == "device" {
        assert!(path.is_symlink());
    } else {
        assert_eq!(bench.files(), before);
    }
    if kind == "folder" {
        assert_eq!(fs::read(path.join("inside")).unwrap(), b"kept");
    }
}

#[test]
fn damaged_neighbours_are_told_and_the_best_is_taken_all_the_same() {
    let (bench, path) = stored();
    for (name, bytes) in
        [("calib-zig-1.json", "{"), ("calib-other.json", ""), ("calib-x.txt", "no"), ("notes.json", "no")]
    {
        fs::write(bench.dir().join(name), bytes).unwrap();
    }
    fs::create_dir(bench.dir().join("calib-folder.json")).unwrap();
    fs::write(bench.dir().join(".tokenfare-abc.tmp"), "half a tab").unwrap();
    let before = bench.files();
    for source in [CalibSource::Cached, CalibSource::Real] {
        let costs = choose(&bench.with(source), &mut Counted::new());
        assert_eq!(
            (costs.source.clone(), costs.table.clone()),
            (Source::Cached(path.clone()), measured_table())
        );
        let names: Vec<bool> = ["calib-folder.json", "calib-other.json", "calib-zig-1.json"]
            .iter()
            .zip(said(&costs))
            .map(|(name, line)| {
                line.contains(name) && line.starts_with("warning(dsv41): dsv41 stored table ")
            })
            .collect();
        assert_eq!((names, costs.lines.len()), (vec![true; 3], 3));
    }
    assert_eq!(bench.files(), before);
}

#[test]
fn cached_takes_the_closest_and_real_the_newest_of_any_engine() {
    let (bench, path) = stored();
    let other = bench.dir().join("calib-zig-0011223344556677.json");
    fs::copy(&path, &other).unwrap();
    edit(&other, |table| {
        table["engine"] = json!("zig");
        table["draft"] = json!(3.0);
        table["meta"]["shape"]["context"] = json!(64);
        table["meta"]["shape"]["dspark"] = json!(1);
        table["meta"]["time"] = json!("2999-01-01 00:00:00");
    });
    let closest = choose(&bench.with(CalibSource::Cached), &mut Counted::new());
    assert_eq!((closest.source, closest.table.draft_ms()), (Source::Cached(path), 4.0));
    let newest = choose(&bench.with(CalibSource::Real), &mut Counted::new());
    assert_eq!((newest.source, newest.table.draft_ms()), (Source::Cached(other), 3.0));
}

const DEAR: &str = "a pass of 41.001 ms is dearer than twice its own 1-row window of 20.500 ms";

#[test]
fn a_dear_pass_is_refused_when_measured_and_not_stored() {
    for source in ["measure", "stored"] {
        let bench = Bench::new(source);
        let costs = choose(&bench.calib, &mut Counted { pass_us: 41_001, ..Counted::new() });
        let line =
            format!("warning(dsv41): dsv41 calibration refused: {DEAR}; the default table prices the rounds");
        assert_eq!((said(&costs), costs.source), (vec![line], Source::Default));
        assert!(!bench.dir().exists());
    }
}

#[test]
fn a_dear_pass_is_refused_when_read_in_every_mode() {
    let (bench, path) = stored();
    edit(&path, |table| table["draft"] = json!(41.001));
    let neighbour = bench.dir().join("calib-zig-1.json");
    fs::copy(&path, &neighbour).unwrap();
    edit(&neighbour, |table| {
        table["draft"] = json!(1.0);
        table["meta"]["time"] = json!("2001-01-01T00:00:00Z");
    });
    let refused = format!("warning(dsv41): dsv41 stored table {} refused: {DEAR}; ", path.display());
    for source in [CalibSource::Cached, CalibSource::Real] {
        let mut start = Counted::new();
        let costs = choose(&bench.with(source), &mut start);
        assert_eq!(said(&costs), [format!("{refused}the default table prices the rounds")]);
        assert_eq!((costs.source, start.measured), (Source::Default, 0));
    }
    let named = CalibSettings { file: Some(path.clone()), ..bench.calib.clone() };
    let bytes = fs::read(&path).unwrap();
    let costs = choose(&named, &mut Counted::new());
    assert_eq!(
        (said(&costs)[0].clone(), costs.source),
        (format!("{refused}measuring again"), Source::Measured)
    );
    assert_eq!(fs::read(&path).unwrap(), bytes);
    let costs = choose(&bench.calib, &mut Counted::new());
    assert_eq!(said(&costs)[0], format!("{refused}measuring again"));
    assert!(said(&costs)[2].ends_with(&format!("(stored {})", path.display())));
    assert_eq!(StoredTable::read(&path).unwrap().table(), Ok(measured_table()));
}

#[test]
fn a_failed_measurement_is_told_and_the_built_in_table_prices() {
    for source in ["measure", "stored"] {
        let bench = Bench::new(source);
        let costs = choose(
            &bench.calib,
            &mut Counted { failure: Some("verify window: out of memory"), ..Counted::new() },
        );
        let line = "warning(dsv41): dsv41 calibration failed (verify window: out of memory); the default table prices the rounds";
        assert_eq!((said(&costs), costs.source), (vec![line.to_owned()], Source::Default));
        assert!(!bench.dir().exists());
    }
}

#[test]
fn folders_that_cannot_be_used_are_told() {
    let mut bench = Bench::new("stored");
    fs::write(bench.folder.path().join("file"), "mine").unwrap();
    bench.calib.dir = Some(bench.folder.path().join("file"));
    let costs = choose(&bench.with(CalibSource::Cached), &mut Counted::new());
    let start = format!("warning(dsv41): dsv41 folder of stored tables {} skipped: ", bench.dir().display());
    assert!(said(&costs)[0].starts_with(&start), "{:?}", said(&costs));
    assert_eq!((costs.lines.len(), costs.source), (1, Source::Default));
    for dir in ["file", "file/below"].map(|dir| bench.folder.path().join(dir)) {
        bench.calib.dir = Some(dir);
        let costs = choose(&bench.calib, &mut Counted::new());
        assert_eq!(costs.source, Source::Measured);
        assert!(said(&costs).last().unwrap().ends_with("(not stored)"), "{:?}", said(&costs));
        assert!(said(&costs)[0].starts_with("warning(dsv41): dsv41 stored table "), "{:?}", said(&costs));
    }
    bench.calib.dir = Some(PathBuf::from("/proc/tokenfare-tables"));
    let costs = choose(&bench.calib, &mut Counted::new());
    assert!(said(&costs)[0].contains(" not written: "), "{:?}", said(&costs));
    assert_eq!(fs::read(bench.folder.path().join("file")).unwrap(), b"mine");
    bench.calib.dir = None;
    for (source, lines) in [(CalibSource::Cached, 1), (CalibSource::Stored, 3)] {
        let costs = choose(&bench.with(source), &mut Counted::new());
        let words = "warning(dsv41): dsv41 stored tables have no folder: set TF_DSV41_CALIB_DIR or HOME";
        assert_eq!((said(&costs)[0].as_str(), costs.lines.len()), (words, lines));
    }
}

#[test]
fn without_drafts_measuring_modes_say_that_nothing_is_measured() {
    for (source, lines) in [
        (CalibSource::Measure, 1),
        (CalibSource::Stored, 1),
        (CalibSource::Default, 0),
        (CalibSource::Cached, 0),
        (CalibSource::Real, 0),
    ] {
        let costs = without_drafts(&Bench::new("").with(source));
        let line = "info(dsv41): dsv41 calibration skipped: drafts are off".to_owned();
        assert_eq!((said(&costs), costs.source), (vec![line; lines], Source::Default));
    }
}

#[test]
fn storing_on_request_replaces_the_own_table_alone() {
    let (bench, path) = stored();
    let request = Request { calib: &bench.calib, platform: Platform::Cpu, shape: SHAPE };
    let identity = Counted::new().identity().unwrap();
    let found = calibrated(3000).unwrap();
    assert_eq!(request.store(&found, &identity).unwrap(), path);
    assert_eq!(StoredTable::read(&path).unwrap().table().unwrap().draft_ms(), 3.0);
    fs::write(&path, "mine").unwrap();
    let refused = request.store(&found, &identity).unwrap_err().to_string();
    assert!(refused.ends_with("; the file stays as it is"), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), b"mine");
}
