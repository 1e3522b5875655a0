//! The HTTP API of the real binary: tool calls.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::LazyLock;

use rstest::rstest;
use serde_json::{Value, json};
use support::guided::{CHAT, ask, choices, content, exact, exact_streamed, with};
use support::mini;
use support::server::Server;

static SERVER: LazyLock<Server> =
    LazyLock::new(|| Server::start(&[&mini(), "--parallel", "2", "--context", "2048"], &[]));

fn tools() -> Value {
    let parameters = |name: &str, about: &str| json!({"type": "object", "properties": {name: {"type": "string", "description": about}}, "required": [name]});
    json!([
        {"type": "function", "function": {
            "name": "get_weather",
            "description": "Get the current weather of a city.",
            "parameters": parameters("city", "Name of the city"),
        }},
        {"type": "function", "function": {
            "name": "calculate",
            "description": "Evaluate an arithmetic expression.",
            "parameters": parameters("expression", "The expression, for example 2 + 3"),
        }},
    ])
}

fn offer(question: &str, more: Value) -> Value {
    with(with(ask(question), json!({"tools": tools()})), more)
}

const WEATHER: &str = "What is the weather in Paris?";

fn calls(reply: &Value) -> Vec<(String, Value)> {
    let calls = reply["choices"][0]["message"]["tool_calls"].as_array().cloned().unwrap_or_default();
    let call = |c: &Value| {
        let arguments = c["function"]["arguments"].as_str().unwrap();
        let arguments = serde_json::from_str(arguments).unwrap_or_else(|e| panic!("{e}: {arguments}"));
        (c["function"]["name"].as_str().unwrap().to_owned(), arguments)
    };
    calls.iter().map(call).collect()
}

fn finish(reply: &Value) -> &str {
    reply["choices"][0]["finish_reason"].as_str().unwrap()
}

fn assert_no_markup(reply: &Value) {
    let text = reply.to_string();
    for part in ["DSML", "invoke", "parameter name", "</｜", "<｜"] {
        assert!(!text.contains(part), "{part} in {text}");
    }
}

#[test]
fn the_golden_call_is_made_from_the_golden_prompt() {
    let file = Path::new(&mini()).join("golden.json");
    let golden: Vec<Value> = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let golden = golden.iter().find(|g| g["domain"] == "tool").unwrap();
    let reply = exact_streamed(&SERVER, &offer(WEATHER, json!({})));
    let ids = exact(&SERVER, &offer(WEATHER, json!({"return_token_ids": true})));
    assert_eq!(ids["prompt_token_ids"], golden["prompt_ids"]);
    assert_eq!(ids["choices"][0]["token_ids"], golden["greedy_ids"]);
    let message = &reply["choices"][0]["message"];
    assert_eq!(message["content"], Value::Null);
    assert_eq!(message["tool_calls"][0]["function"]["arguments"], r#"{"city": "Paris"}"#);
    assert_eq!(message["tool_calls"][0]["type"], "function");
    assert_eq!(
        (calls(&reply), finish(&reply)),
        (vec![("get_weather".into(), json!({"city": "Paris"}))], "tool_calls")
    );
    assert!(reply["tokenfare"]["accepted"].as_u64().unwrap() > 0);
}

/// The name comes at once and the arguments as they are generated, not at the end.
#[test]
fn arguments_are_streamed_as_they_are_generated() {
    let body = offer(WEATHER, json!({"stream": true, "draft": false, "return_token_ids": true}));
    let events = SERVER.post(CHAT, &body).events();
    let deltas: Vec<&Value> =
        events.iter().filter_map(|e| e["choices"].get(0)).map(|c| &c["delta"]).collect();
    let places: Vec<usize> = (0..deltas.len()).filter(|&i| !deltas[i]["tool_calls"].is_null()).collect();
    let first = &deltas[places[0]]["tool_calls"][0];
    assert_eq!(
        (&first["index"], &first["function"]),
        (&json!(0), &json!({"name": "get_weather", "arguments": ""}))
    );
    assert!(first["id"].as_str().unwrap().starts_with("call_"));
    let parts: Vec<&str> = places[1..]
        .iter()
        .map(|&i| deltas[i]["tool_calls"][0]["function"]["arguments"].as_str().unwrap())
        .collect();
    assert_eq!(parts, ["{\"city\": \"", "P", "ar", "is", "\"", "}"]);
    // Tokens go on between the parts and after the last.
    assert!(places.windows(2).any(|w| w[1] > w[0] + 1) && *places.last().unwrap() + 2 < deltas.len());
    assert_no_markup(&json!(deltas));
}

#[rstest]
#[case::auto(WEATHER, json!({"temperature": 0}))]
#[case::auto_sampled(WEATHER, json!({}))]
#[case::no_need("Who are you?", json!({}))]
#[case::one(WEATHER, json!({"parallel_tool_calls": false}))]
#[case::none(WEATHER, json!({"tool_choice": "none"}))]
#[case::required("Who are you?", json!({"tool_choice": "required"}))]
#[case::required_one("What is 12 + 30?", json!({"tool_choice": "required", "parallel_tool_calls": false}))]
#[case::named(WEATHER, json!({"tool_choice": {"type": "function", "function": {"name": "calculate"}}}))]
#[case::thinking(WEATHER, json!({"thinking": true}))]
#[case::budget(WEATHER, json!({"thinking": true, "thinking_budget": 3, "tool_choice": "required"}))]
#[case::with_a_format(WEATHER, json!({"response_format": {"type": "json_object"}}))]
#[case::stop_in_the_markup(WEATHER, json!({"temperature": 0, "stop": ["Paris", "calls>\n", "parameter"]}))]
fn exact_calls_with_drafts_and_without(#[case] question: &str, #[case] more: Value) {
    let common =
        json!({"temperature": 1.0, "seed": 11, "max_tokens": 48, "logprobs": true, "top_logprobs": 2});
    let reply = exact_streamed(&SERVER, &offer(question, with(common, more)));
    let choice = &reply["choices"][0];
    assert_no_markup(&choice["message"]);
    let tokens = choice["logprobs"]["content"].as_array().unwrap().len();
    assert_eq!(reply["usage"]["completion_tokens"], tokens);
}

#[test]
fn exact_calls_of_every_choice() {
    let sampled = |n: u64, seed: u64| {
        let more = json!({"temperature": 1.0, "tool_choice": "required", "max_tokens": 48});
        exact(&SERVER, &offer("Who are you?", with(more, json!({"n": n, "seed": seed}))))
    };
    let (both, first, second) =
        (choices(&sampled(2, 11)), choices(&sampled(1, 11)), choices(&sampled(1, 12)));
    assert_eq!((&both[0]["message"], &both[1]["message"]), (&first[0]["message"], &second[0]["message"]));
}

#[rstest]
#[case(json!({"tool_choice": "required"}), &["get_weather", "calculate"])]
#[case(json!({"tool_choice": {"type": "function", "function": {"name": "calculate"}}}), &["calculate"])]
fn a_demanded_call_is_made(
    #[case] choice: Value,
    #[case] names: &[&str],
    #[values(false, true)] thinking: bool,
) {
    let body = offer("Who are you?", with(choice, json!({"thinking": thinking, "max_tokens": 300})));
    let reply = exact(&SERVER, &body);
    assert_eq!(finish(&reply), "tool_calls", "{reply}");
    let calls = calls(&reply);
    assert!(!calls.is_empty());
    for (name, arguments) in calls {
        assert!(names.contains(&name.as_str()));
        let key = if name == "calculate" { "expression" } else { "city" };
        assert!(arguments.as_object().unwrap().len() == 1 && arguments[key].is_string(), "{arguments}");
    }
    assert_eq!(reply["choices"][0]["message"]["content"], Value::Null);
}

#[test]
fn arguments_have_the_types_of_their_schema() {
    let properties = json!({
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "exact": {"type": "boolean"},
        "unit": {"enum": ["celsius", "kelvin"]},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "maxItems": 2},
        "digits": {"type": "string", "enum": ["5", "7"]},
    });
    let parameters = json!({
        "type": "object", "properties": properties, "required": ["count", "exact", "unit", "tags", "digits"],
        "$defs": {"tag": {"type": "string", "maxLength": 3}}
    });
    let tool = json!({"type": "function", "function": {"name": "measure", "parameters": parameters}, "namespace": "lab"});
    let body =
        with(ask("Measure it."), json!({"tools": [tool], "tool_choice": "required", "max_tokens": 300}));
    for temperature in [0.0, 1.0] {
        let reply = exact(&SERVER, &with(body.clone(), json!({"temperature": temperature, "seed": 4})));
        let call = &reply["choices"][0]["message"]["tool_calls"][0];
        assert_eq!((&call["function"]["name"], &call["namespace"]), (&json!("measure"), &json!("lab")));
        let (_, arguments) = calls(&reply).remove(0);
        assert!((1..=9).contains(&arguments["count"].as_i64().unwrap()), "{arguments}");
        assert!(arguments["exact"].is_boolean() && arguments["digits"].is_string(), "{arguments}");
        assert!(["celsius", "kelvin"].contains(&arguments["unit"].as_str().unwrap()), "{arguments}");
        assert!(arguments["tags"].as_array().unwrap().iter().all(|t| t.as_str().unwrap().len() <= 12));
    }
}

/// References and alternatives as schema generators write them, and those into the schema that holds them.
#[test]
fn arguments_have_the_types_that_their_schema_refers_to() {
    let properties = json!({
        "color": {"$ref": "#/$defs/color"},
        "count": {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 9}, {"type": "null"}]},
        "again": {"$ref": "#/properties/count"},
    });
    let parameters = json!({
        "type": "object", "properties": properties, "required": ["color", "count", "again"],
        "$defs": {"color": {"type": "string", "enum": ["red", "green"]}}
    });
    let tool = json!({"type": "function", "function": {"name": "paint", "parameters": parameters}});
    let body = with(ask("Paint it."), json!({"tools": [tool], "tool_choice": "required", "max_tokens": 300}));
    for seed in 0..4 {
        let reply = exact(&SERVER, &with(body.clone(), json!({"temperature": 1, "seed": seed})));
        let (_, arguments) = calls(&reply).remove(0);
        assert!(["red", "green"].contains(&arguments["color"].as_str().unwrap()), "{arguments}");
        for key in ["count", "again"] {
            let number = &arguments[key];
            assert!(number.is_null() || (1..=9).contains(&number.as_i64().unwrap()), "{arguments}");
        }
    }
}

/// A schema that holds itself is followed as deep as the reply goes.
#[test]
fn an_argument_may_be_of_its_tools_own_schema() {
    let parameters = json!({
        "type": "object", "properties": {"child": {"$ref": "#"}}, "required": ["child"], "additionalProperties": false
    });
    let tool = json!({"type": "function", "function": {"name": "grow", "parameters": parameters}});
    let body = with(ask("Grow."), json!({"tools": [tool], "tool_choice": "required", "max_tokens": 60}));
    let reply = exact(&SERVER, &body);
    let text = reply["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
    let dense: String = text.split_whitespace().collect();
    assert_eq!(finish(&reply), "length");
    assert!(dense.starts_with(r#"{"child":{"child":{"child""#), "{text}");
}

/// Whatever the cap: drafts change nothing, no tag shows and a call that is cut has no end.
#[test]
fn exact_calls_at_every_cap() {
    let whole = SERVER.ok(CHAT, &offer(WEATHER, json!({})));
    let arguments =
        whole["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
    let tokens = whole["usage"]["completion_tokens"].as_u64().unwrap();
    for cap in 1..tokens {
        let reply = exact(&SERVER, &offer(WEATHER, json!({"max_tokens": cap})));
        assert_eq!((finish(&reply), &reply["usage"]["completion_tokens"]), ("length", &json!(cap)));
        let message = &reply["choices"][0]["message"];
        assert_no_markup(message);
        let text = message["content"].as_str().unwrap_or_default();
        assert!(text.trim().is_empty(), "{text:?} after {cap} tokens");
        if let Some(call) = message["tool_calls"].get(0) {
            assert!(arguments.starts_with(call["function"]["arguments"].as_str().unwrap()));
        }
    }
}

/// Results come back in any order, with the reasoning of the turn or without it.
#[rstest]
fn results_are_answered(#[values(false, true)] thinking: bool, #[values(false, true)] reasoning: bool) {
    let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let result = |id: &str, text: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
    let made = [
        call("a", "get_weather", "{\"city\": \"Paris\"}"),
        call("b", "calculate", "{\"expression\": \"1+1\"}"),
    ];
    let mut turn = json!({"role": "assistant", "content": null, "tool_calls": made});
    if reasoning {
        turn["reasoning_content"] = json!("I need both.");
    }
    let talk = |results: [Value; 2]| {
        let [first, second] = results;
        let messages = json!([{"role": "user", "content": WEATHER}, turn, first, second]);
        json!({"messages": messages, "tools": tools(), "temperature": 0, "max_tokens": 24, "thinking": thinking, "return_token_ids": true})
    };
    let (sunny, two) = (result("a", "sunny, 25 degrees"), result("b", "2"));
    let in_order = exact(&SERVER, &talk([sunny.clone(), two.clone()]));
    let reversed = exact(&SERVER, &talk([two, sunny]));
    assert_eq!(in_order["prompt_token_ids"], reversed["prompt_token_ids"]);
    assert_eq!(choices(&in_order), choices(&reversed));
    assert!(in_order["usage"]["completion_tokens"].as_u64().unwrap() > 0);
}

#[test]
fn a_turn_with_calls_resumes_what_its_reply_left() {
    let first = SERVER.ok(CHAT, &offer(WEATHER, json!({})));
    let message = &first["choices"][0]["message"];
    let id = &message["tool_calls"][0]["id"];
    let messages = json!([
        {"role": "user", "content": WEATHER}, message,
        {"role": "tool", "tool_call_id": id, "content": "sunny"}
    ]);
    let body = json!({"messages": messages, "tools": tools(), "temperature": 0, "max_tokens": 8});
    let next = SERVER.ok(CHAT, &body);
    let kept = first["usage"]["total_tokens"].as_u64().unwrap() - 1;
    assert_eq!(next["usage"]["prompt_tokens_details"]["cached_tokens"], kept);
}

#[test]
fn none_offers_no_tool_and_makes_no_call() {
    let none = SERVER.ok(CHAT, &offer(WEATHER, json!({"tool_choice": "none", "return_token_ids": true})));
    let plain = SERVER.ok(CHAT, &with(ask(WEATHER), json!({"return_token_ids": true})));
    assert_eq!(none["prompt_token_ids"], plain["prompt_token_ids"]);
    assert_eq!((content(&none), finish(&none)), (content(&plain), finish(&plain)));
}

#[test]
fn a_single_call_ends_the_reply() {
    let one = exact_streamed(&SERVER, &offer(WEATHER, json!({"parallel_tool_calls": false})));
    let all = SERVER.ok(CHAT, &offer(WEATHER, json!({})));
    assert_eq!((calls(&one), finish(&one)), (calls(&all), "tool_calls"));
    let tokens = |reply: &Value| reply["usage"]["completion_tokens"].as_u64().unwrap();
    assert!(tokens(&one) < tokens(&all));
}
