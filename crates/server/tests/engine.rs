//! The engine behind the API: fairness, a full queue, an engine that hangs or has stopped, prices and metrics.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use serde_json::{Value, json};
use support::{PLAIN, get, post, send};
use tokenfare_lanes::Drafts;
use tokenfare_lanes::testkit::{Call, Fault};
use tokenfare_server::testkit::{Fake, fake};
use tokenfare_server::{ApiKeys, Server};
use tokio::net::TcpListener;

fn plain(max_tokens: usize) -> Value {
    json!({"prompt": "abc", "max_tokens": max_tokens, "ignore_eos": true})
}

/// Holds the model's first call until the sender is dropped or used.
fn hold(fake: &Fake) -> mpsc::Sender<()> {
    let (release, held) = mpsc::channel();
    let held = Mutex::new(held);
    fake.probe.on_call(move |_, number| {
        if number == 0 {
            // A dropped sender releases too.
            let _ = held.lock().unwrap().recv();
        }
    });
    release
}

async fn wait_for(server: &Arc<Server>, field: &str, count: u64) {
    while get(server, "/health").await.json()[field] != count {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_client_with_many_requests_does_not_hold_up_another() {
    let fake = fake(1, |options, _| options.keys = ApiKeys::new(["greedy", "modest"]).unwrap());
    let release = hold(&fake);
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    let names = ["greedy", "greedy", "greedy", "greedy", "modest"];
    for (i, name) in names.into_iter().enumerate() {
        let (server, order) = (fake.server.clone(), order.clone());
        tasks.push(tokio::spawn(async move {
            let body = plain(1).to_string().into_bytes();
            let answer = send(&server, "POST", PLAIN, &[("x-api-key", name)], body).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            order.lock().unwrap().push((name, i));
        }));
        wait_for(&fake.server, "waiting", i as u64).await;
    }
    drop(release);
    for task in tasks {
        task.await.unwrap();
    }
    let names: Vec<_> = order.lock().unwrap().iter().map(|&(name, _)| name).collect();
    let place = names.iter().position(|&name| name == "modest").unwrap();
    assert!(place <= 2, "{names:?}");
}

#[tokio::test]
async fn a_full_queue_is_told_with_a_time_to_come_back() {
    let fake = fake(1, |_, config| config.queue = 1);
    let release = hold(&fake);
    let ask = |server: Arc<Server>| tokio::spawn(async move { post(&server, PLAIN, &plain(1)).await });
    let first = ask(fake.server.clone());
    wait_for(&fake.server, "running", 1).await;
    let second = ask(fake.server.clone());
    wait_for(&fake.server, "waiting", 1).await;
    let refused = post(&fake.server, PLAIN, &plain(1)).await;
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!((refused.error().0, refused.error().3.as_str()), (503, "the queue of 1 requests is full"));
    drop(release);
    for task in [first, second] {
        assert_eq!(task.await.unwrap().status, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_hangs_fails_its_requests_and_recovers() {
    let fake = fake(1, |options, _| options.stall = Some(Duration::from_millis(50)));
    let release = hold(&fake);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stopped = async {
        let _ = stopped.await;
    };
    let running = tokio::spawn(fake.server.clone().run(listener, stopped, std::future::pending()));
    let whole = {
        let server = fake.server.clone();
        tokio::spawn(async move { post(&server, PLAIN, &plain(1)).await })
    };
    let mut streamed = plain(1);
    streamed["stream"] = json!(true);
    let events = post(&fake.server, PLAIN, &streamed).await.events();
    let words = "the engine made no progress for 0 seconds";
    assert_eq!(events.last().unwrap()["error"]["message"], words);
    assert_eq!((whole.await.unwrap().error().0, events.len()), (500, 1));
    let health = get(&fake.server, "/health").await;
    assert_eq!((health.status.as_u16(), &health.json()["status"]), (503, &json!("stalled")));
    let refused = post(&fake.server, PLAIN, &plain(1)).await.error();
    assert_eq!((refused.0, refused.3.as_str()), (503, words));
    drop(release);
    while get(&fake.server, "/health").await.status != 200 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(post(&fake.server, PLAIN, &plain(3)).await.json()["usage"]["completion_tokens"], 3);
    drop(stop);
    running.await.unwrap();
}

#[tokio::test]
async fn an_engine_that_has_stopped_is_told() {
    let fake = fake(1, |_, _| {});
    fake.probe.fault(Call::Window, 0, Fault::Panic);
    let (status, _, _, message) = post(&fake.server, PLAIN, &plain(4)).await.error();
    assert_eq!((status, message.as_str()), (500, "the engine stopped: Window panics on schedule"));
    while get(&fake.server, "/health").await.json()["status"] != "failed" {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(get(&fake.server, "/health").await.status, 503);
    let refused = post(&fake.server, PLAIN, &plain(1)).await.error();
    assert_eq!((refused.0, refused.3.as_str()), (503, "the engine has stopped"));
}

#[tokio::test]
async fn prices_show_the_table_and_acceptance_by_position() {
    let server = fake(1, |_, _| {});
    let fresh = get(&server.server, "/v1/pricing").await.json();
    assert_eq!((&fresh["drafts"], &fresh["table"]["source"]), (&json!("on"), &json!("default")));
    let table = &fresh["table"];
    assert_eq!(
        (&table["verify_ms"][0], &table["draft_ms"], &table["slot_ms"]),
        (&json!(42.0), &json!(5.6), &json!(0.0))
    );
    let nothing = json!({"position": 1, "reached": 0, "kept": 0, "acceptance": null, "factor": 1.0});
    assert_eq!((fresh["positions"].as_array().unwrap().len(), &fresh["positions"][0]), (5, &nothing));
    assert_eq!(post(&server.server, PLAIN, &plain(40)).await.status, 200);
    let after = get(&server.server, "/v1/pricing").await.json();
    let kept: u64 = after["positions"].as_array().unwrap().iter().map(|p| p["kept"].as_u64().unwrap()).sum();
    let stats = server.lanes.handle().stats();
    assert!(kept > 0);
    assert_eq!(kept, stats.accepted - stats.copied_accepted);
    let first = &after["positions"][0];
    let share = first["kept"].as_f64().unwrap() / first["reached"].as_f64().unwrap();
    assert_eq!(first["acceptance"], json!(share));
    let plain = fake(1, |options, _| options.costs.drafts = Drafts::Off);
    assert_eq!(get(&plain.server, "/v1/pricing").await.json(), json!({"drafts": "off", "positions": []}));
}

/// The value of a sample by its name and labels.
fn sample(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' '))?;
    Some(line.parse().unwrap())
}

#[tokio::test]
async fn metrics_count_what_happened() {
    let fake = fake(1, |_, _| {});
    let reply = post(&fake.server, PLAIN, &plain(30)).await.json();
    assert_eq!(post(&fake.server, PLAIN, &json!({"prompt": 3})).await.status, 400);
    assert_eq!(get(&fake.server, "/nowhere").await.status, 404);
    let answer = get(&fake.server, "/metrics").await;
    assert_eq!(answer.headers["content-type"], "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let number =
        |name: &str| sample(&answer.text, name).unwrap_or_else(|| panic!("{name} in {}", answer.text));
    let receipt = |name: &str| reply["tokenfare"][name].as_f64().unwrap();
    assert_eq!(number("tokenfare_completion_tokens_total"), 30.0);
    assert_eq!(number("tokenfare_prompt_tokens_total"), 3.0);
    assert_eq!(number("tokenfare_rounds_total"), receipt("rounds"));
    let both = |name: &str| {
        let of = |source: &str| number(&format!("tokenfare_{name}_tokens_total{{source=\"{source}\"}}"));
        of("drafter") + of("copy")
    };
    assert_eq!((both("drafted"), both("accepted")), (receipt("drafted"), receipt("accepted")));
    assert_eq!(number("tokenfare_requests_finished_total{reason=\"length\"}"), 1.0);
    assert_eq!(number("tokenfare_requests_finished_total{reason=\"stop\"}"), 0.0);
    let answered = |route: &str, method: &str, status: u16| {
        let labels = format!("route=\"{route}\",method=\"{method}\",status=\"{status}\"");
        number(&format!("tokenfare_http_requests_total{{{labels}}}"))
    };
    assert_eq!((answered(PLAIN, "POST", 200), answered(PLAIN, "POST", 400)), (1.0, 1.0));
    assert_eq!(answered("none", "GET", 404), 1.0);
    for name in ["queue", "prefill", "time_to_first_token"] {
        assert_eq!(number(&format!("tokenfare_{name}_seconds_count")), 1.0);
    }
    assert_eq!(number("tokenfare_inter_token_seconds_count"), 29.0);
    assert_eq!(number("tokenfare_round_seconds_count"), receipt("rounds"));
    assert_eq!(number("tokenfare_prompt_cache_misses_total"), 1.0);
    assert!(number("tokenfare_position_drafted_tokens_total{position=\"1\"}") > 0.0);
    assert!(answer.text.ends_with("# EOF\n"));
}

#[tokio::test]
async fn counts_that_are_not_kept_are_left_out() {
    let fake = fake(1, |options, _| {
        options.costs.drafts = Drafts::Off;
        options.costs.prompt_cache_bytes = 0;
    });
    assert_eq!(post(&fake.server, PLAIN, &plain(5)).await.status, 200);
    let text = get(&fake.server, "/metrics").await.text;
    for word in ["draft", "accepted", "zero_depth", "cache"] {
        assert!(!text.contains(word), "{word} in {text}");
    }
    assert_eq!(sample(&text, "tokenfare_completion_tokens_total"), Some(5.0));
}

#[tokio::test]
async fn background_requests_wait_for_the_others() {
    let fake = fake(1, |_, _| {});
    let release = hold(&fake);
    let background_done = Arc::new(AtomicBool::new(false));
    let first = {
        let server = fake.server.clone();
        tokio::spawn(async move { post(&server, PLAIN, &plain(1)).await })
    };
    wait_for(&fake.server, "running", 1).await;
    let mut body = plain(1);
    body["priority"] = json!(1);
    let background = {
        let (server, done) = (fake.server.clone(), background_done.clone());
        tokio::spawn(async move {
            let answer = post(&server, PLAIN, &body).await;
            done.store(true, Ordering::SeqCst);
            answer
        })
    };
    wait_for(&fake.server, "waiting", 1).await;
    let seen = {
        let (server, done) = (fake.server.clone(), background_done.clone());
        tokio::spawn(async move {
            let answer = post(&server, PLAIN, &plain(1)).await;
            (answer.status, done.load(Ordering::SeqCst))
        })
    };
    wait_for(&fake.server, "waiting", 2).await;
    drop(release);
    assert_eq!(first.await.unwrap().status, 200);
    let (status, background_was_done) = seen.await.unwrap();
    assert_eq!((status.as_u16(), background_was_done), (200, false));
    assert_eq!(background.await.unwrap().status, 200);
}
