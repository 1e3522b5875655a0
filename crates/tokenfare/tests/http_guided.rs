//! The HTTP API of the real binary: structured output.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::LazyLock;

use rstest::rstest;
use serde_json::{Value, json};
use support::guided::{CHAT, ask, choices, content, exact, exact_streamed, with};
use support::mini;
use support::server::Server;

const PLAIN: &str = "/v1/completions";

static SERVER: LazyLock<Server> =
    LazyLock::new(|| Server::start(&[&mini(), "--parallel", "2", "--context", "1024"], &[]));

const ADA: &str = "Return a JSON object with name and age: Ada, 36.";
const SUM: &str = "What is 47 + 38?";

fn person() -> Value {
    json!({
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["name", "age"],
        "additionalProperties": false,
    })
}

fn schema(schema: Value) -> Value {
    json!({"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "strict": true, "schema": schema}}})
}

fn finish(reply: &Value) -> &str {
    reply["choices"][0]["finish_reason"].as_str().unwrap()
}

#[rstest]
fn exact_json_of_a_schema(
    #[values(0.0, 0.7, 1.3)] temperature: f64,
    #[values(ADA, "Who are you?")] question: &str,
) {
    let more = json!({"temperature": temperature, "seed": 3, "logprobs": true, "top_logprobs": 3, "max_tokens": 200});
    let reply = exact_streamed(&SERVER, &with(ask(question), with(schema(person()), more)));
    let value: Value = serde_json::from_str(content(&reply)).unwrap();
    assert!(value["name"].is_string() && value["age"].is_u64() && value.as_object().unwrap().len() == 2);
    assert_eq!(finish(&reply), "stop");
    // Reported values are of the raw logits: what the grammar forbids still leads the list where the model likes it best.
    let tokens = reply["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert_eq!(tokens.len() as u64, reply["usage"]["completion_tokens"].as_u64().unwrap());
    let forbidden = |t: &Value| t["top_logprobs"][0]["logprob"].as_f64() > t["logprob"].as_f64();
    assert!(question == ADA || tokens.iter().any(forbidden));
}

#[rstest]
#[case(json!({"response_format": {"type": "json_object"}}), |t: &str| serde_json::from_str::<Value>(t).is_ok_and(|v| v.is_object()))]
#[case(json!({"guided_json": {"type": "array", "items": {"type": "boolean"}, "maxItems": 4}}), |t: &str| serde_json::from_str::<Vec<bool>>(t).is_ok())]
#[case(json!({"guided_regex": "[a-f]{3}-[0-9]{2,4}"}), |t: &str| t.len() >= 6 && t.as_bytes()[3] == b'-')]
#[case(json!({"guided_choice": ["yes", "no", "yes, of course"]}), |t: &str| ["yes", "no", "yes, of course"].contains(&t))]
#[case(json!({"guided_grammar": "start: \"<\" WORD (\",\" WORD){1,3} \">\"\nWORD: /[a-z]{1,5}/"}), |t: &str| t.starts_with('<') && t.ends_with('>') && t.contains(','))]
#[case(json!({"guided_grammar": "root ::= digit+ \" = \" digit\ndigit ::= [0-9]"}), |t: &str| t.split_once(" = ").is_some_and(|(_, d)| d.len() == 1))]
#[case(json!({"structured_outputs": {"choice": ["α", "β🙂"]}}), |t: &str| ["α", "β🙂"].contains(&t))]
fn exact_guided_replies(
    #[case] guide: Value,
    #[case] fits: fn(&str) -> bool,
    #[values(false, true)] thinking: bool,
) {
    for temperature in [0.0, 1.0] {
        let more = json!({"temperature": temperature, "seed": 9, "max_tokens": 120, "thinking": thinking});
        let reply = exact_streamed(&SERVER, &with(with(ask("Who are you?"), guide.clone()), more));
        if finish(&reply) == "stop" {
            assert!(fits(content(&reply)), "{guide}: {:?}", content(&reply));
        } else {
            // Only unbounded parts may run into the cap.
            assert!(guide.to_string().contains("digit") || guide["response_format"].is_object(), "{reply}");
        }
        let prompt = json!({"prompt": "The sea is", "max_tokens": 60, "temperature": temperature, "seed": 9});
        let plain = SERVER.ok(PLAIN, &with(prompt, guide.clone()));
        if plain["choices"][0]["finish_reason"] == "stop" {
            assert!(fits(plain["choices"][0]["text"].as_str().unwrap()), "{plain}");
        }
    }
}

/// The grammar begins after the reasoning, also when its closing tag is an accepted draft.
#[test]
fn a_grammar_waits_for_the_end_of_the_reasoning() {
    let free = SERVER.ok(CHAT, &with(ask(SUM), json!({"thinking": true})));
    let reply = exact_streamed(
        &SERVER,
        &with(with(ask(SUM), schema(person())), json!({"thinking": true, "max_tokens": 300})),
    );
    let message = &reply["choices"][0]["message"];
    assert!(!message["reasoning_content"].as_str().unwrap().is_empty());
    assert!(serde_json::from_str::<Value>(content(&reply)).unwrap()["age"].is_u64());
    assert!(reply["tokenfare"]["accepted"].as_u64().unwrap() > 0);
    for text in [message.to_string(), free["choices"][0]["message"].to_string()] {
        assert!(!text.contains("think>"), "{text}");
    }
}

#[rstest]
fn exact_guided_replies_after_a_thinking_budget(#[values(0, 1, 2, 3, 4, 5, 6, 7, 8)] budget: u64) {
    let more = json!({"thinking": true, "thinking_budget": budget, "max_tokens": 120, "guided_choice": ["eighty-five", "eighty"]});
    let reply = exact_streamed(&SERVER, &with(ask(SUM), more));
    assert!(["eighty-five", "eighty"].contains(&content(&reply)), "{reply}");
    let reasoning = reply["usage"]["completion_tokens_details"]["reasoning_tokens"].as_u64().unwrap();
    assert_eq!(reasoning, budget + 1);
}

/// Cap, stop string and end of the grammar at every offset of the same reply.
#[test]
fn exact_ends_of_guided_replies() {
    let body = with(ask(ADA), schema(person()));
    let whole = exact(&SERVER, &with(body.clone(), json!({"return_token_ids": true})));
    let tokens = whole["usage"]["completion_tokens"].as_u64().unwrap();
    let text = content(&whole);
    for cap in 1..=tokens {
        let reply = exact(&SERVER, &with(body.clone(), json!({"max_tokens": cap})));
        assert_eq!(reply["usage"]["completion_tokens"], cap);
        assert!(text.starts_with(content(&reply)));
        // The grammar's end and the cap at once: the grammar comes first.
        assert_eq!(finish(&reply), if cap == tokens { "stop" } else { "length" });
    }
    let letters: Vec<(usize, char)> = text.char_indices().collect();
    for pair in letters.windows(2) {
        let stop = format!("{}{}", pair[0].1, pair[1].1);
        let reply = exact(&SERVER, &with(body.clone(), json!({"stop": [stop]})));
        assert_eq!((content(&reply), finish(&reply)), (text.split_once(&stop).unwrap().0, "stop"));
    }
}

#[test]
fn guided_replies_are_the_same_beside_others_and_for_every_choice() {
    let guided = |seed: u64| {
        with(
            with(ask("Who are you?"), schema(person())),
            json!({"temperature": 1.0, "seed": seed, "max_tokens": 200}),
        )
    };
    let free = with(ask("Tell me a short story."), json!({"seed": 2, "temperature": 1.0}));
    let solo: Vec<Value> =
        [guided(7), guided(8), free.clone()].iter().map(|b| choices(&SERVER.ok(CHAT, b))).collect();
    let together: Vec<Value> = std::thread::scope(|s| {
        let bodies = [guided(7), guided(8), free];
        let running: Vec<_> =
            bodies.into_iter().map(|b| s.spawn(move || choices(&SERVER.ok(CHAT, &b)))).collect();
        running.into_iter().map(|r| r.join().unwrap()).collect()
    });
    assert_eq!(solo, together);
    let both = choices(&exact(&SERVER, &with(guided(7), json!({"n": 2}))));
    assert_eq!((&both[0]["message"], &both[1]["message"]), (&solo[0][0]["message"], &solo[1][0]["message"]));
}

#[test]
fn white_space_in_json_has_an_end() {
    // A bias makes blanks the likeliest tokens wherever they are allowed.
    let blanks: serde_json::Map<String, Value> = (0..8192u32)
        .filter(|id| {
            let text = SERVER_TEXTS[*id as usize].as_str();
            !text.is_empty() && text.chars().all(|c| c == ' ' || c == '\n' || c == '\t')
        })
        .map(|id| (id.to_string(), json!(100)))
        .collect();
    assert!(!blanks.is_empty());
    let schema = json!({"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": false});
    let body = with(ask("Yes?"), json!({"guided_json": schema, "logit_bias": blanks, "max_tokens": 400}));
    let reply = exact(&SERVER, &body);
    assert_eq!(finish(&reply), "stop", "{reply}");
    assert!(serde_json::from_str::<Value>(content(&reply)).unwrap()["a"].is_boolean());
}

/// The text of every token of mini.
static SERVER_TEXTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let file = std::path::Path::new(&mini()).join("tokenizer.json");
    let file: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let mut texts = vec![String::new(); 8192];
    for (name, id) in file["model"]["vocab"].as_object().unwrap() {
        texts[id.as_u64().unwrap() as usize] = name.replace('Ġ', " ").replace('Ċ', "\n").replace('ĉ', "\t");
    }
    texts
});

#[rstest]
#[case(schema(json!({"type": "strng"})), "response_format.json_schema.schema", "strng")]
#[case(json!({"guided_json": {"minLength": 3, "maxLength": 2, "type": "string"}}), "guided_json", "minLength")]
#[case(json!({"guided_regex": "a(b"}), "guided_regex", "regex")]
#[case(json!({"guided_grammar": "start: a b"}), "guided_grammar", "a")]
#[case(
    json!({
        "tool_choice": {"type": "function", "function": {"name": "g"}},
        "tools": [
            {"type": "function", "function": {"name": "f"}},
            {"type": "function", "function": {"name": "g", "parameters": {"properties": {"x": {"type": "strng"}}}}}
        ],
        "stream": true
    }),
    "tools[1].function.parameters",
    "strng"
)]
#[case(json!({"guided_json": {"$ref": "#"}, "stream": true}), "guided_json", "no token continues it")]
fn what_does_not_compile_is_named_with_the_reason(
    #[case] more: Value,
    #[case] field: &str,
    #[case] why: &str,
) {
    let (status, param, _, message) = SERVER.post(CHAT, &with(ask("a"), more)).error();
    assert_eq!((status, param), (400, json!(field)), "{message}");
    assert!(message.starts_with(field) && message.contains(why) && !message.contains('\n'), "{message}");
}

/// Schemas that would take long are refused or served in bounded time, and other requests go on meanwhile.
#[test]
fn a_hostile_schema_holds_up_nothing() {
    let factor =
        |i: usize| json!({"anyOf": [{"minLength": i}, {"maxLength": 90 + i}, {"pattern": format!("a{i}")}]});
    let product = json!({"type": "string", "allOf": (0..40).map(factor).collect::<Vec<_>>()});
    let deep = (0..100).fold(json!({"type": "null"}), |inner, _| json!({"type": "array", "items": inner}));
    let hostile = [
        json!({"guided_json": product}),
        json!({"guided_json": deep}),
        json!({"guided_regex": "((((a{1,99}){1,99}){1,99}){1,99}){1,99}"}),
        json!({"guided_regex": format!("{}a{}", "(".repeat(20_000), ")".repeat(20_000))}),
        json!({"guided_grammar": "start: (((x{99}){99}){99}){99}\nx: \"a\" | \"b\" start"}),
        json!({"guided_choice": (0..20_000).map(|i| format!("choice number {i}")).collect::<Vec<_>>()}),
    ];
    std::thread::scope(|s| {
        for more in &hostile {
            s.spawn(move || {
                let answer = SERVER.post(CHAT, &with(with(ask("a"), more.clone()), json!({"max_tokens": 4})));
                let named = more.as_object().unwrap().keys().next().unwrap();
                match answer.status {
                    200 => {}
                    400 => assert_eq!(answer.json()["error"]["param"], json!(named)),
                    // A grammar that grows too complex later fails its own reply.
                    status => assert!(status == 500 && answer.body.contains("grammar"), "{}", answer.body),
                }
            });
        }
        let free = s.spawn(|| SERVER.ok(CHAT, &ask("Who are you?")));
        assert!(!content(&free.join().unwrap()).is_empty());
    });
    assert_eq!(SERVER.get("/health").status, 200);
}
