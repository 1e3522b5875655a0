//! Every field that a handler looks for is in the document. One test, since the names looked for are the process's.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use support::{CHAT, MESSAGES, PLAIN, RESPONSES, get, post};
use tokenfare_server::testkit::{fake, take_read};

/// Fields that are looked for only to refuse them.
const REFUSED: [&str; 15] = [
    "functions",
    "function_call",
    "suffix",
    "bad_words",
    "allowed_token_ids",
    "logits_processors",
    "use_beam_search",
    "continue_final_message",
    "truncate_prompt_tokens",
    "background",
    "conversation",
    "prompt",
    "moderation",
    "container",
    "mcp_servers",
];

/// Names of the properties of a schema and of all that it refers to.
fn documented(document: &Value, schema: &Value, seen: &mut BTreeSet<String>, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(reference) = map.get("$ref").and_then(Value::as_str)
                && seen.insert(reference.to_owned())
            {
                documented(document, document.pointer(&reference[1..]).unwrap(), seen, found);
            }
            found.extend(
                map.get("properties").and_then(Value::as_object).into_iter().flat_map(|p| p.keys().cloned()),
            );
            map.values().for_each(|value| documented(document, value, seen, found));
        }
        Value::Array(list) => list.iter().for_each(|value| documented(document, value, seen, found)),
        _ => {}
    }
}

#[tokio::test]
async fn every_field_that_a_handler_reads_is_documented() {
    let fake = fake(1, |_, _| {});
    let document = get(&fake.server, "/openapi.json").await.json();
    let user = json!([{"role": "user", "content": "a"}]);
    let schema = json!({"type": "json_schema", "json_schema": {"schema": {}}});
    let nested = json!({
        "messages": user, "response_format": schema, "stream_options": {}, "chat_template_kwargs": {},
        "thinking": {"type": "disabled"}, "max_tokens": 1,
    });
    let format = json!({"type": "json_schema", "schema": {}});
    let bodies = [
        (CHAT, "ChatRequest", nested.clone()),
        (PLAIN, "CompletionRequest", json!({"prompt": "a", "response_format": schema, "stream_options": {}})),
        ("/tokenize", "TokenizeRequest", nested),
        ("/detokenize", "DetokenizeRequest", json!({"tokens": [1]})),
        (
            RESPONSES,
            "ResponseRequest",
            json!({"input": "a", "text": {"format": format}, "reasoning": {"effort": "low"}}),
        ),
        (
            MESSAGES,
            "MessageRequest",
            json!({
                "messages": user, "max_tokens": 1, "tool_choice": {"type": "none"}, "thinking": {"type": "enabled"},
                "output_config": {"format": format},
            }),
        ),
        (
            "/v1/messages/count_tokens",
            "CountRequest",
            json!({"messages": user, "tool_choice": {"type": "none"}, "output_config": {}}),
        ),
    ];
    let mut chat = BTreeSet::new();
    for (path, name, body) in bodies {
        take_read();
        let answer = post(&fake.server, path, &body).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        let mut read = take_read();
        assert!(read.len() > 1 || path == "/detokenize", "{path}: {read:?}");
        match path {
            CHAT => chat.clone_from(&read),
            // These are read as a chat once they are translated.
            RESPONSES | MESSAGES | "/v1/messages/count_tokens" => read.retain(|field| !chat.contains(field)),
            _ => {}
        }
        let mut found = BTreeSet::new();
        documented(&document, &document["components"]["schemas"][name], &mut BTreeSet::new(), &mut found);
        let refused = |field: &str| REFUSED.contains(&field) || (path == PLAIN && field == "tools");
        let unknown: Vec<_> = read.iter().filter(|f| !found.contains(*f) && !refused(f)).collect();
        assert!(unknown.is_empty(), "{path}: {unknown:?} not in {found:?}");
    }
}
