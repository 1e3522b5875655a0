//! Keys, limits, routes and the shape of refusals.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use axum::body::Body;
use axum::http::Request;
use rstest::rstest;
use serde_json::json;
use support::{CHAT, PLAIN, RESPONSES, get, post, send};
use tokenfare_server::testkit::{Fake, fake};
use tokenfare_server::{ApiKeys, router};
use tower::ServiceExt;

fn guarded() -> Fake {
    fake(1, |options, _| options.keys = ApiKeys::new(["correct-horse", "second"]).unwrap())
}

#[rstest]
#[case("GET", "/v1/models")]
#[case("GET", "/v1/pricing")]
#[case("GET", "/metrics")]
#[case("GET", "/openapi.json")]
#[case("POST", CHAT)]
#[case("POST", PLAIN)]
#[case("POST", RESPONSES)]
#[case("POST", "/tokenize")]
#[case("POST", "/detokenize")]
#[case("GET", "/nowhere")]
#[tokio::test]
async fn a_route_needs_a_key(#[case] method: &str, #[case] path: &str) {
    let fake = guarded();
    for headers in [&[][..], &[("authorization", "Bearer wrong")], &[("x-api-key", "correct-hors")]] {
        let answer = send(&fake.server, method, path, headers, Vec::new()).await;
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
        let (status, param, code, message) = answer.error();
        assert_eq!((status, param, code), (401, json!(null), json!("invalid_api_key")));
        assert!(!message.contains("correct-hors"), "{message}");
    }
    for headers in [("authorization", "Bearer correct-horse"), ("x-api-key", "second")] {
        let answer = send(&fake.server, method, path, &[headers], Vec::new()).await;
        let expected = match (method, path) {
            ("GET", "/nowhere") => 404,
            ("GET", _) => 200,
            _ => 400,
        };
        assert_eq!(answer.status.as_u16(), expected, "{}", answer.text);
    }
}

#[tokio::test]
async fn health_needs_no_key() {
    let answer = get(&guarded().server, "/health").await;
    assert_eq!(
        (answer.status.as_u16(), answer.json()),
        (200, json!({"status": "ok", "running": 0, "waiting": 0}))
    );
}

#[tokio::test]
async fn unknown_routes_and_the_root_hint_at_the_known_ones() {
    let fake = fake(1, |_, _| {});
    for path in ["/", "/v2/models"] {
        let (status, _, _, message) = get(&fake.server, path).await.error();
        assert_eq!(status, 404);
        assert!(
            message.starts_with(&format!("no route GET {path}; there are POST /v1/chat/completions")),
            "{message}"
        );
        for route in get(&fake.server, "/openapi.json").await.json()["paths"].as_object().unwrap().keys() {
            assert!(message.contains(route.as_str()), "{route} in {message}");
        }
    }
}

#[tokio::test]
async fn every_documented_route_refuses_other_methods() {
    let fake = fake(1, |_, _| {});
    let document = get(&fake.server, "/openapi.json").await.json();
    for (path, item) in document["paths"].as_object().unwrap() {
        let answer = send(&fake.server, "PATCH", path, &[], Vec::new()).await;
        let allowed = answer.headers["allow"].to_str().unwrap().to_lowercase();
        let (status, _, _, message) = answer.error();
        assert_eq!((status, message), (405, format!("{path} does not accept PATCH")));
        for method in item.as_object().unwrap().keys() {
            assert!(allowed.split(',').any(|m| m == method), "{path}: {method} in {allowed}");
        }
    }
}

#[tokio::test]
async fn long_headers_many_messages_and_long_bodies_are_refused() {
    let fake = fake(1, |_, _| {});
    let long = "x".repeat(33 << 10);
    let answer = send(&fake.server, "GET", "/health", &[("x-long", &long)], Vec::new()).await;
    assert_eq!(answer.error().0, 431);
    let many = vec![json!({"role": "user", "content": "a"}); 4097];
    let (status, param, _, message) = post(&fake.server, CHAT, &json!({"messages": many})).await.error();
    assert_eq!((status, param), (400, json!("messages")));
    assert_eq!(message, "messages: expected at most 4096, found 4097");
    let answer = send(&fake.server, "POST", PLAIN, &[], vec![b' '; (16 << 20) + 1]).await;
    assert_eq!((answer.error().0, answer.error().3.as_str()), (413, "body: expected at most 16777216 bytes"));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stalls_is_counted_by_its_answer() {
    let fake = fake(1, |_, _| {});
    let silent = Body::from_stream(tokio_stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let request = Request::post(PLAIN).body(silent).unwrap();
    let response = router(fake.server.clone()).oneshot(request).await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["connection"]),
        (408, &"close".parse().unwrap())
    );
    let count = format!("route=\"{PLAIN}\",method=\"POST\",status=\"408\"}} 1");
    let metrics = get(&fake.server, "/metrics").await.text;
    assert!(metrics.contains(&count), "{count} in {metrics}");
}

#[rstest]
#[case(json!({"prompt": "abc"}), json!({"count": 3, "max_model_len": 64, "tokens": [17, 18, 19], "token_strs": null}))]
#[case(json!({"prompt": "a", "return_token_strs": true}), json!({"count": 1, "max_model_len": 64, "tokens": [17], "token_strs": ["r"]}))]
#[case(json!({"messages": [{"role": "user", "content": "ab"}]}), json!({"count": 2, "max_model_len": 64, "tokens": [17, 18], "token_strs": null}))]
#[case(json!({"messages": [{"role": "user", "content": "a"}], "tools": [{"function": {"name": "f"}}, {"function": {"name": "g"}}]}), json!({"count": 3, "max_model_len": 64, "tokens": [17, 36, 36], "token_strs": null}))]
#[case(json!({"messages": [{"role": "user", "content": "a"}], "tools": [{"function": {"name": "f"}}], "tool_choice": "none"}), json!({"count": 1, "max_model_len": 64, "tokens": [17], "token_strs": null}))]
#[tokio::test]
async fn tokenize_tells_the_tokens_of_a_prompt(
    #[case] body: serde_json::Value,
    #[case] expected: serde_json::Value,
) {
    assert_eq!(post(&fake(1, |_, _| {}).server, "/tokenize", &body).await.json(), expected);
}

#[rstest]
#[case("/tokenize", json!({}), "prompt", "prompt: missing, and no messages either")]
#[case("/tokenize", json!({"prompt": 3}), "prompt", "prompt: expected a string, found a number")]
#[case("/tokenize", json!({"prompt": "a", "messages": []}), "messages", "messages: expected no prompt beside them")]
#[case("/tokenize", json!({"prompt": "a", "return_token_strs": 1}), "return_token_strs", "return_token_strs: expected true or false, found a number")]
#[case("/tokenize", json!({"messages": [{"role": "user", "content": "a"}], "tools": 1}), "tools", "tools: expected an array, found a number")]
#[case("/detokenize", json!({}), "tokens", "tokens: missing")]
#[case("/detokenize", json!({"tokens": "a"}), "tokens", "tokens: expected an array of token ids, found a string")]
#[case("/detokenize", json!({"tokens": [1, 40]}), "tokens", "tokens: expected ids below 40, found 40")]
#[case("/detokenize", json!({"tokens": [-1]}), "tokens", "tokens: expected ids below 40, found -1")]
#[case("/detokenize", json!({"tokens": [1.5]}), "tokens", "tokens: expected ids below 40, found 1.5")]
#[tokio::test]
async fn tokenizing_refusals_name_the_field(
    #[case] path: &str,
    #[case] body: serde_json::Value,
    #[case] param: &str,
    #[case] message: &str,
) {
    let error = post(&fake(1, |_, _| {}).server, path, &body).await.error();
    assert_eq!(error, (400, json!(param), json!(null), message.to_owned()));
}

#[tokio::test]
async fn detokenize_gives_the_text() {
    let fake = fake(1, |_, _| {});
    let answer = post(&fake.server, "/detokenize", &json!({"tokens": [0, 1, 27]})).await;
    assert_eq!(answer.json(), json!({"prompt": "abb"}));
}
