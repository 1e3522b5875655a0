//! The HTTP API of the real binary: keys, warnings, logs and the flags of `serve`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use rstest::rstest;
use serde_json::{Value, json};
use support::{repository, tiny, tokenfare};

/// A server whose standard error is read to its end.
struct Watched {
    child: Child,
    address: String,
    lines: Vec<String>,
    rest: BufReader<std::process::ChildStderr>,
}

impl Watched {
    fn start(args: &[&str], settings: &[(&str, &str)]) -> Self {
        let mut command = tokenfare();
        command
            .args(["serve", "--port", "0", &tiny(), "--context", "64"])
            .args(args)
            .envs(settings.iter().copied());
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let rest = BufReader::new(child.stderr.take().unwrap());
        let mut server = Self { child, address: String::new(), lines: Vec::new(), rest };
        while server.address.is_empty() {
            let mut line = String::new();
            assert!(server.rest.read_line(&mut line).unwrap() > 0, "{:?}", server.lines);
            server.lines.push(line.trim_end().to_owned());
            if let Some((_, after)) = line.split_once(" at http://") {
                server.address = after.split(' ').next().unwrap().replace("0.0.0.0", "127.0.0.1");
            }
        }
        server
    }

    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.0\r\nContent-Length: {length}\r\n{headers}\r\n");
        stream.write_all((head + body).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// Ends the server and gives everything that it wrote.
    fn end(mut self) -> String {
        let id = self.child.id().to_string();
        assert!(std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let mut rest = String::new();
        self.rest.read_to_string(&mut rest).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        self.lines.join("\n") + "\n" + &rest
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[rstest]
#[case(&["--api-key", "alpha"], &[], "alpha")]
#[case(&[], &[("TF_API_KEY", "beta")], "beta")]
fn a_key_opens_the_server_and_is_never_written(
    #[case] args: &[&str],
    #[case] settings: &[(&str, &str)],
    #[case] key: &str,
) {
    let server = Watched::start(args, settings);
    let (status, body) = server.ask("GET", "/v1/models", "", "");
    assert_eq!(status, 401);
    let error: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&error["error"]["code"], &error["error"]["type"]),
        (&json!("invalid_api_key"), &json!("invalid_request_error"))
    );
    for header in [format!("Authorization: Bearer {key}\r\n"), format!("x-api-key: {key}\r\n")] {
        assert_eq!(server.ask("GET", "/v1/models", &header, "").0, 200);
    }
    assert_eq!(server.ask("GET", "/health", "", "").0, 200);
    let written = server.end();
    assert!(!written.contains(key), "{written}");
}

#[test]
fn a_file_of_keys_opens_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    std::fs::write(&file, "one\n\n two \n").unwrap();
    let server = Watched::start(&["--api-key-file", &file.display().to_string()], &[]);
    let ask = |key: &str| server.ask("GET", "/v1/models", &format!("x-api-key: {key}\r\n"), "").0;
    assert_eq!((ask("one"), ask("two"), ask("three")), (200, 200, 401));
}

#[test]
fn the_settings_hide_keys() {
    let output =
        tokenfare().arg("settings").env("TF_API_KEY", "gamma").env("HF_TOKEN", "delta").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("gamma") && !text.contains("delta"), "{text}");
    let row = text.lines().find(|l| l.starts_with("TF_API_KEY ")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>()[..3], ["TF_API_KEY", "(hidden)", "environment"]);
}

#[rstest]
#[case(&["--host", "0.0.0.0"], true)]
#[case(&["--host", "0.0.0.0", "--api-key", "k"], false)]
#[case(&[], false)]
fn an_open_address_is_warned_of(#[case] args: &[&str], #[case] warned: bool) {
    let written = Watched::start(args, &[]).end();
    assert_eq!(
        written.contains("can be reached from other machines and no API key is set"),
        warned,
        "{written}"
    );
}

#[test]
fn json_lines_hold_the_facts_of_the_text_and_no_request() {
    let ask = |server: Watched| {
        let body = json!({"prompt": "zebra crossing", "max_tokens": 3, "ignore_eos": true}).to_string();
        assert_eq!(server.ask("POST", "/v1/completions", "", &body).0, 200);
        server.end()
    };
    let text = ask(Watched::start(&["--no-update-check"], &[]));
    let lines = ask(Watched::start(&["--log-format", "json"], &[]));
    let read = |l: &str| -> Value { serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}")) };
    let objects: Vec<Value> = lines.lines().map(read).collect();
    let with = |field: &str| {
        let mut fields = objects.iter().map(|o| &o["fields"]);
        fields.find(|f| !f[field].is_null()).unwrap_or_else(|| panic!("{field} in {lines}"))
    };
    assert_eq!((&with("url")["drafts"], &with("url")["context"]), (&json!("DSpark + copies"), &json!(64)));
    let fit = with("lanes");
    assert!((1..=16).contains(&fit["lanes"].as_u64().unwrap()) && fit["free_bytes"].is_u64(), "{fit}");
    assert_eq!(with("source")["source"], "default");
    let request = with("completion_tokens");
    assert_eq!(
        (&request["completion_tokens"], &request["request"], &request["cached_tokens"]),
        (&json!(3), &json!(1), &json!(0))
    );
    assert!(text.contains("info: dsv41 lanes: ") && text.contains("request 1: "), "{text}");
    for written in [&text, &lines] {
        assert!(!written.contains("zebra"), "{written}");
    }
    let message = request["message"].as_str().unwrap();
    assert!(text.lines().any(|l| l.ends_with(message)), "{message} in {text}");
}

#[test]
fn a_text_line_is_its_message_and_a_round_profile_shows_its_numbers() {
    let server = Watched::start(&[], &[("TF_DSV41_ROUND_PROF", "1")]);
    let body = json!({"prompt": "abc", "max_tokens": 3, "ignore_eos": true}).to_string();
    assert_eq!(server.ask("POST", "/v1/completions", "", &body).0, 200);
    let written = server.end();
    let line =
        |words: &str| written.lines().find(|l| l.contains(words)).unwrap_or_else(|| panic!("{written}"));
    assert!(!line("request 1: ").contains('='), "{written}");
    assert!(line("dsv41 round").contains(" read_back="), "{written}");
    assert!(line("dsv41 reply").contains(" request=1 "), "{written}");
}

#[test]
fn metrics_and_the_accept_log_see_the_same_rounds() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log").display().to_string();
    let server = Watched::start(&[], &[("TF_DSV41_ACCEPT_LOG", &log)]);
    let body = json!({"prompt": "abc", "max_tokens": 12, "ignore_eos": true}).to_string();
    let (status, answer) = server.ask("POST", "/v1/completions", "", &body);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let rounds = answer["tokenfare"]["rounds"].as_u64().unwrap();
    assert!(status == 200 && rounds > 0, "{answer}");
    let count = format!("\ntokenfare_round_seconds_count {rounds}\n");
    // A round's times are known once it is over, a moment after its reply has ended.
    let seen = (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        server.ask("GET", "/metrics", "", "").1.contains(&count)
    });
    assert!(seen, "{count}{}", server.ask("GET", "/metrics", "", "").1);
    server.end();
    let logged = std::fs::read_to_string(&log).unwrap();
    let records = logged.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    assert_eq!(records.filter(|record| record["event"] == "round").count() as u64, rounds);
}

#[test]
fn lanes_that_the_memory_decided_on_are_told() {
    let told = |args: &[&str]| {
        let written = Watched::start(args, &[]).end();
        written.lines().find(|l| l.starts_with("info: dsv41 lanes: ")).map(str::to_owned)
    };
    assert!(told(&[]).unwrap().ends_with(" MiB free"));
    assert_eq!(told(&["--parallel", "3"]), None);
}

#[test]
fn the_queue_is_as_long_as_the_flag_says() {
    let server = Watched::start(&["--queue", "1", "--parallel", "1"], &[]);
    let body = json!({"prompt": "abc", "max_tokens": 1, "n": 16}).to_string();
    let (status, answer) = server.ask("POST", "/v1/completions", "", &body);
    assert_eq!(status, 503, "{answer}");
    assert!(answer.contains("the queue of 1 requests is full"), "{answer}");
}

#[rstest]
#[case(&["--drafter", &tiny()], None)]
#[case(&["--drafter", &repository("models/mini").display().to_string()], Some("made for another model: vocabulary is 8192, the target's is 512"))]
#[case(&["--drafter", "/nowhere"], Some("--drafter /nowhere"))]
#[case(&["--api-key-file", "/nowhere"], Some("--api-key-file /nowhere"))]
#[case(&["--api-key", "two words"], Some("--api-key: a key: expected visible ASCII characters, at least one"))]
fn a_flag_that_cannot_hold_is_refused(#[case] args: &[&str], #[case] refusal: Option<&str>) {
    let Some(words) = refusal else {
        Watched::start(args, &[]).end();
        return;
    };
    let output = tokenfare().args(["serve", "--port", "0", &tiny()]).args(args).output().unwrap();
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), line.lines().count()), (Some(1), 1), "{line}");
    assert!(line.contains(words), "{line}");
}

#[test]
fn a_fitting_drafter_of_another_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(tiny()).unwrap().map(|e| e.unwrap()) {
        std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    let path = folder.path().display().to_string();
    let output = tokenfare().args(["serve", "--port", "0", &tiny(), "--drafter", &path]).output().unwrap();
    let line = String::from_utf8(output.stderr).unwrap();
    assert!(line.contains("fits the model, but this build loads no drafter from another folder"), "{line}");
}
