//! What holds when nothing is set, and what is said of values that are.

use rstest::rstest;
use std::path::PathBuf;
use tokenfare_settings::{
    CalibSettings, CalibSource, CopySettings, CpuPath, DepthRule, DepthSettings, Experiment, JointDepth,
    LogSettings, Origin, Platform, ServerSettings, SettingError, Settings, TableShape, TimingStat, registry,
};

fn read(platform: Platform, pairs: &[(&str, &str)]) -> Result<Settings, SettingError> {
    Settings::read(platform, pairs.iter().copied())
}

fn refusal(platform: Platform, name: &str, text: &str) -> String {
    read(platform, &[(name, text)]).expect_err("the value is refused").to_string()
}

#[rstest]
fn env_defaults_of_every_platform(
    #[values(Platform::Cpu, Platform::Reference, Platform::Metal, Platform::Cuda, Platform::Vulkan)]
    platform: Platform,
) {
    let cuda = platform == Platform::Cuda;
    let s = read(platform, &[("HOME", "/home/user")]).unwrap();
    let calib = CalibSettings {
        source: if cuda { CalibSource::Cached } else { CalibSource::Default },
        dir: Some(PathBuf::from("/home/user/.cache/tokenfare/dsv41-calib")),
        file: None,
        shape: TableShape::Raw,
        stat: if cuda { TimingStat::Median } else { TimingStat::Min },
        reps: if cuda { 5 } else { 3 },
        warm: if cuda { 3 } else { 1 },
        recheck: if cuda { 4 } else { 0 },
        cycle: 4,
        deep_reps: 5,
        budget_ms: 2000,
    };
    assert_eq!(s.calib, calib);
    let depth = DepthSettings {
        rule: DepthRule::Cost,
        draft_depth: 5,
        skip: true,
        joint: JointDepth::Together,
        plain_streams: if platform == Platform::Metal { 3 } else { 0 },
    };
    assert_eq!(s.depth, depth);
    assert_eq!(s.copies, CopySettings { lookup_min: 4, max_rows: 16 });
    assert_eq!(s.logs, LogSettings { accept_log: None, explore: 0, round_prof: false });
    assert_eq!(s.server, ServerSettings { drain_s: 20, sse_keepalive_s: 15, stall_s: 600, api_key: None });
    assert_eq!((s.piece_share, s.experiments.len(), s.seed_salt.as_str()), (25, 0, "0"));
    assert_eq!((s.platform, s.cpu_path), (platform, CpuPath::Auto));
    assert!(s.unknown().is_empty());
    assert!(s.rows().iter().all(|row| row.origin == Origin::Default && row.value == row.default));
}

#[test]
fn env_defaults_follow_the_shape_and_the_rule() {
    let fit = [("TF_DSV41_CALIB_SHAPE", "FIT"), ("TF_DSV41_DEPTH", "Static")];
    let s = read(Platform::Cuda, &fit).unwrap();
    assert_eq!((s.calib.warm, s.calib.recheck, s.calib.cycle, s.calib.deep_reps), (2, 2, 0, 3));
    assert_eq!((s.depth.rule, s.depth.draft_depth), (DepthRule::Static, 3));
    let s = read(Platform::Cpu, &fit).unwrap();
    assert_eq!((s.calib.warm, s.calib.recheck, s.calib.cycle, s.calib.deep_reps), (1, 0, 0, 3));
}

#[test]
fn env_defaults_hold_for_empty_and_blank_values() {
    let blank: Vec<(&str, &str)> = registry().iter().map(|s| (s.name, " \t ")).collect();
    let (given, unset) = (read(Platform::Metal, &blank).unwrap(), read(Platform::Metal, &[]).unwrap());
    assert_eq!(given.rows(), unset.rows());
}

#[rstest]
#[case(&[("XDG_CACHE_HOME", "/cache/"), ("HOME", "/home/user")], Some("/cache/tokenfare/dsv41-calib"))]
#[case(&[("XDG_CACHE_HOME", "cache"), ("HOME", "/home/user")], Some("/home/user/.cache/tokenfare/dsv41-calib"))]
#[case(&[("XDG_CACHE_HOME", ""), ("HOME", "/home/user")], Some("/home/user/.cache/tokenfare/dsv41-calib"))]
#[case(&[("TF_DSV41_CALIB_DIR", " tables "), ("HOME", "/home/user")], Some("tables"))]
#[case(&[], None)]
fn the_folder_of_stored_tables(#[case] pairs: &[(&str, &str)], #[case] dir: Option<&str>) {
    assert_eq!(read(Platform::Cpu, pairs).unwrap().calib.dir, dir.map(PathBuf::from));
}

#[test]
fn values_are_trimmed_and_typed() {
    let pairs = [
        ("TF_DSV41_CALIB", " Default "),
        ("TF_DSV41_CALIB_FILE", "/t/calib-a.json"),
        ("TF_DSV41_CALIB_STAT", "MEDIAN"),
        ("TF_DSV41_CALIB_REPS", "50"),
        ("TF_DSV41_DRAFT_DEPTH", " 15"),
        ("TF_DSV41_DRAFT_SKIP", "OFF"),
        ("TF_DSV41_DEPTH_JOINT", "0"),
        ("TF_DSV41_PLAIN_STREAMS", "64"),
        ("TF_EXPERIMENTAL", "DeepSeek , deepseek"),
        ("TF_SEED_SALT", " Some Salt "),
        ("TF_CPU_PATH", "AVX2"),
        ("TF_DSV41_ACCEPT_LOG", " /logs/accept.jsonl "),
        ("TF_DSV41_EXPLORE", "16"),
        ("TF_DSV41_ROUND_PROF", "1"),
    ];
    let s = read(Platform::Cpu, &pairs).unwrap();
    assert_eq!((s.calib.source, s.calib.stat, s.calib.reps), (CalibSource::Default, TimingStat::Median, 50));
    assert_eq!(s.calib.file, Some(PathBuf::from("/t/calib-a.json")));
    assert_eq!((s.depth.draft_depth, s.depth.skip), (15, false));
    assert_eq!((s.depth.joint, s.depth.plain_streams), (JointDepth::Separate, 64));
    assert_eq!((s.experiments, s.seed_salt.as_str()), (vec![Experiment::Deepseek], "Some Salt"));
    assert_eq!(s.cpu_path, CpuPath::Avx2);
    let accept_log = Some(PathBuf::from("/logs/accept.jsonl"));
    assert_eq!(s.logs, LogSettings { accept_log, explore: 16, round_prof: true });
}

#[rstest]
#[case(
    "",
    "expected cached, default, real, measure, stored or zig, in any case (unset or blank: default on CPU)"
)]
#[case("_SHAPE", "expected raw or fit, in any case (unset or blank: raw)")]
#[case("_STAT", "expected median or min, in any case (unset or blank: min on CPU)")]
#[case("_REPS", "expected a whole number from 1 to 50 (unset or blank: 3 on CPU)")]
#[case("_WARM", "expected a whole number from 0 to 20 (unset or blank: 1 on CPU)")]
#[case("_RECHECK", "expected a whole number from 0 to 8 (unset or blank: 0 on CPU)")]
#[case("_CYCLE", "expected a whole number from 0 to 8 (unset or blank: 4 for raw, 0 for fit)")]
#[case("_DEEP_REPS", "expected a whole number from 1 to 50 (unset or blank: 5 for raw, 3 for fit)")]
#[case("_BUDGET_MS", "expected a whole number from 0 to 60000 (unset or blank: 2000)")]
fn calibration_refusals(#[case] suffix: &str, #[case] expected: &str) {
    let name = format!("TF_DSV41_CALIB{suffix}");
    assert_eq!(refusal(Platform::Cpu, &name, " 1e3 "), format!("{name}=\"1e3\": {expected}"));
}

#[rstest]
#[case(Platform::Cuda, "TF_DSV41_CALIB", "in any case (unset or blank: cached on CUDA)")]
#[case(Platform::Metal, "TF_DSV41_CALIB", "in any case (unset or blank: default on Metal)")]
#[case(Platform::Cuda, "TF_DSV41_CALIB_WARM", "from 0 to 20 (unset or blank: 3 for raw, 2 for fit on CUDA)")]
#[case(Platform::Metal, "TF_DSV41_PLAIN_STREAMS", "from 0 to 64 (unset or blank: 3 on Metal)")]
#[case(Platform::Cpu, "TF_DSV41_DEPTH", "expected cost or static, in any case (unset or blank: cost)")]
#[case(
    Platform::Cpu,
    "TF_DSV41_DRAFT_SKIP",
    "1, on, true, 0, off or false, in any case (unset or blank: on)"
)]
#[case(Platform::Cpu, "TF_DSV41_DEPTH_JOINT", "expected 0 or 1 (unset or blank: 1)")]
#[case(Platform::Cpu, "TF_EXPERIMENTAL", "a comma list of deepseek, in any case (unset or blank: none)")]
fn refusals_name_the_default_of_the_device(
    #[case] platform: Platform,
    #[case] name: &str,
    #[case] expected: &str,
) {
    let text = refusal(platform, name, "x\ny");
    assert!(text.starts_with(&format!("{name}=\"x\\ny\": expected ")) && text.ends_with(expected), "{text}");
}

#[test]
fn a_path_is_refused_without_a_default() {
    for name in ["TF_DSV41_CALIB_DIR", "TF_DSV41_CALIB_FILE"] {
        assert_eq!(refusal(Platform::Cpu, name, "a\0b"), format!("{name}=\"a\\u{{0}}b\": expected a path"));
    }
}

#[test]
fn forms_are_checked_in_every_mode() {
    for mode in ["default", "measure", "stored"] {
        let pairs = [("TF_DSV41_CALIB", mode), ("TF_DSV41_CALIB_CYCLE", "9")];
        let error = read(Platform::Cpu, &pairs).unwrap_err();
        assert!(matches!(error, SettingError::Malformed { name: "TF_DSV41_CALIB_CYCLE", .. }));
    }
    assert!(read(Platform::Cpu, &[("TF_DSV41_CALIB_SHAPE", "fit")]).is_ok());
}

#[rstest]
#[case(" Measure ", CalibSource::Measure)]
#[case("STORED", CalibSource::Stored)]
#[case("zig", CalibSource::Stored)]
#[case("cached", CalibSource::Cached)]
#[case("Real", CalibSource::Real)]
#[case(" ", CalibSource::Default)]
fn sources_of_the_table(#[case] text: &str, #[case] source: CalibSource) {
    assert_eq!(read(Platform::Cpu, &[("TF_DSV41_CALIB", text)]).unwrap().calib.source, source);
    assert!(
        refusal(Platform::Cpu, "TF_DSV41_CALIB", "live").contains("\"live\": expected cached, default, ")
    );
}

#[test]
fn unknown_names_are_warned_of_with_the_nearest() {
    let pairs =
        [("TF_DSV41_DRAFT_DEPHT", "3"), ("TF_DSV41_CALIBB", "x"), ("TF_OTHER", "x"), ("PATH", "/bin")];
    let s = read(Platform::Cpu, &pairs).unwrap();
    let warnings: Vec<String> = s.unknown().iter().map(ToString::to_string).collect();
    let expected = [
        "TF_DSV41_CALIBB is no setting; the nearest is TF_DSV41_CALIB",
        "TF_DSV41_DRAFT_DEPHT is no setting; the nearest is TF_DSV41_DRAFT_DEPTH",
    ];
    assert_eq!(warnings, expected);
}

#[test]
fn rows_show_value_origin_and_default() {
    let s = read(Platform::Metal, &[("TF_DSV41_PLAIN_STREAMS", "2")]).unwrap();
    let row = s.rows().iter().find(|r| r.setting.name == "TF_DSV41_PLAIN_STREAMS").unwrap();
    assert_eq!((row.value.as_deref(), row.origin), (Some("2"), Origin::Environment));
    assert_eq!(row.default.as_deref(), Some("3"));
    let names: Vec<&str> = s.rows().iter().map(|r| r.setting.name).collect();
    assert_eq!(names, registry().iter().map(|s| s.name).collect::<Vec<_>>());
}

#[test]
fn secrets_are_kept_and_never_shown() {
    let s = read(Platform::Cpu, &[("TF_API_KEY", " open-sesame "), ("HF_TOKEN", "hf_abc")]).unwrap();
    assert_eq!(s.server.api_key.as_ref().unwrap().reveal(), "open-sesame");
    assert_eq!(s.hub.token.as_ref().unwrap().reveal(), "hf_abc");
    let row = s.rows().iter().find(|r| r.setting.name == "TF_API_KEY").unwrap();
    assert_eq!((row.value.as_deref(), row.origin), (Some("(hidden)"), Origin::Environment));
    let all = format!("{s:?}");
    assert!(!all.contains("sesame") && !all.contains("hf_abc"), "{all}");
    let refused = refusal(Platform::Cpu, "TF_API_KEY", "open sesame");
    let expected = "expected visible ASCII characters, never shown (unset or blank: none)";
    assert_eq!(refused, format!("TF_API_KEY=\"(hidden)\": {expected}"));
}
