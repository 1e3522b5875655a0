//! Completions back to messages.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Map, Value, json};
use tokenfare_dsv41::chat::completion::{Call, Completion, CompletionError, parse};
use tokenfare_dsv41::chat::{ChatOptions, Conversation, ToolName};
use tokenfare_lanes::Channel;

fn call(namespace: Option<&str>, name: &str, arguments: &str) -> Call {
    let name = ToolName { namespace: namespace.map(str::to_owned), name: name.to_owned() };
    Call { name, arguments: arguments.to_owned() }
}

#[test]
fn the_golden_completion_is_read() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden/chat.json");
    let golden: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let text = golden["completion"]["text"].as_str().unwrap();
    let expected = &golden["completion"]["parsed"];
    let parsed = parse(text, Channel::Reasoning).unwrap();
    assert_eq!(parsed.reasoning, expected["reasoning_content"]);
    assert_eq!(parsed.content, expected["content"]);
    let calls: Vec<Value> = parsed
        .calls
        .iter()
        .map(|call| {
            let mut value = json!({
                "type": "function",
                "function": {"name": call.name.name, "arguments": call.arguments},
            });
            if let Some(namespace) = &call.name.namespace {
                value["namespace"] = namespace.as_str().into();
            }
            value
        })
        .collect();
    assert_eq!(Value::Array(calls), expected["tool_calls"]);
}

#[rstest]
#[case::empty("", Channel::Content, "", "")]
#[case::content("a\n\nb", Channel::Content, "", "a\n\nb")]
#[case::ended("a<｜end▁of▁sentence｜>", Channel::Content, "", "a")]
#[case::reasoning("r</think>a<｜end▁of▁sentence｜>", Channel::Reasoning, "r", "a")]
#[case::no_answer("r</think>", Channel::Reasoning, "r", "")]
#[case::tags_in_content("a</think><think>", Channel::Content, "", "a</think><think>")]
#[case::look_alikes("\n\n<|DSML| calls>", Channel::Content, "", "\n\n<|DSML| calls>")]
#[case::half_a_mark("a\n\n<", Channel::Content, "", "a")]
#[case::more_of_a_mark("a <｜DS<｜end▁of▁sentence｜>", Channel::Content, "", "a ")]
#[case::a_bracket("a <", Channel::Content, "", "a <")]
fn text_without_calls(
    #[case] text: &str,
    #[case] start: Channel,
    #[case] reasoning: &str,
    #[case] content: &str,
) {
    let expected = Completion { reasoning: reasoning.into(), content: content.into(), calls: Vec::new() };
    assert_eq!(parse(text, start), Ok(expected));
}

#[test]
fn values_keep_their_kind() {
    let text = "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n\
                <｜DSML｜ parameter name=\"a\" string=\"true\">5</｜DSML｜ parameter>\n\
                <｜DSML｜ parameter name=\"b\" string=\"false\">5</｜DSML｜ parameter>\n\
                <｜DSML｜ parameter name=\"\" string=\"true\"></｜DSML｜ parameter>\n\
                <｜DSML｜ parameter name=\"c\" string=\"false\">[1,  2]</｜DSML｜ parameter>\n\
                </｜DSML｜ invoke>\n</｜DSML｜ calls>";
    let calls = vec![call(None, "f", r#"{"a": "5", "b": 5, "": "", "c": [1,  2]}"#)];
    assert_eq!(parse(text, Channel::Content).unwrap(), Completion { calls, ..Completion::default() });
}

#[rstest]
#[case("thinking", Channel::Reasoning, "the reasoning has no </think>")]
#[case("a<｜end▁of▁sentence｜>b", Channel::Content, "byte 28: expected \"the end\", found \"b\"")]
#[case(
    "\n\n<｜DSML｜ calls>\n</｜DSML｜ calls>",
    Channel::Content,
    "byte 21: expected \"<｜DSML｜\", found \"</｜DSML｜ calls>\""
)]
#[case(
    "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f",
    Channel::Content,
    "byte 46: expected \"\\\">\", found \"f\""
)]
#[case(
    "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"a::b::c\">\n</｜DSML｜ invoke>",
    Channel::Content,
    "byte 46: \"a::b::c\" is no tool name"
)]
#[case(
    "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"\">\n</｜DSML｜ invoke>",
    Channel::Content,
    "byte 46: \"\" is no tool name"
)]
#[case(
    "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n<｜DSML｜ parameter name=\"a\" string=\"no\">x",
    Channel::Content,
    "byte 89: expected \"false\", found \"no\\\">x\""
)]
#[case(
    "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\nfree text",
    Channel::Content,
    "byte 50: expected \"<｜DSML｜\", found \"free text\""
)]
#[case(
    "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n\n</｜DSML｜ invoke>\n",
    Channel::Content,
    "byte 72: expected \"<｜DSML｜\", found \"\""
)]
#[case(
    "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n\n</｜DSML｜ invoke>\n</｜DSML｜ calls> and more",
    Channel::Content,
    "byte 91: expected \"the end\", found \" and more\""
)]
#[case(
    "a <｜DSML｜ invoke name=\"f\">",
    Channel::Content,
    "byte 13: expected \" calls>\", found \" invoke name=\\\"f\\\">\""
)]
#[case("a</｜DSML｜ calls>", Channel::Content, "byte 1: expected \"<｜DSML｜\", found \"</｜DSML｜ calls>\"")]
#[case(
    "<｜DSML｜ calls><｜DSML｜ invoke name=\"f\"><｜DSML｜ parameter name=\"a\" string=\"true\">x<｜DSML｜",
    Channel::Content,
    "byte 91: expected \"</｜DSML｜\", found \"x<｜DSML｜\""
)]
#[case(
    "<｜DSML｜ calls><｜DSML｜ invoke name=\"f\"><｜DSML｜ parameter name=\"a\" string=\"true\">x</｜DSML｜ invoke>",
    Channel::Content,
    "byte 104: expected \" parameter>\", found \" invoke>\""
)]
fn other_forms_are_refused(#[case] text: &str, #[case] start: Channel, #[case] message: &str) {
    let error: CompletionError = parse(text, start).unwrap_err();
    assert_eq!(error.to_string(), message);
}

fn arguments() -> impl Strategy<Value = Map<String, Value>> {
    let value = prop_oneof![
        any::<String>()
            .prop_filter("the end of a value ends it", |text| !text.contains("</｜DSML｜"))
            .prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        prop::collection::vec("[a-z\"\\\\ ]{0,4}", 0..3).prop_map(Value::from),
        Just(Value::Null),
    ];
    prop::collection::vec(("[a-z_ é\\\\]{0,6}", value), 0..4).prop_map(Map::from_iter)
}

proptest! {
    #[test]
    fn what_is_encoded_is_read_back(
        reasoning in "[a-z<>/\n ]{0,12}",
        content in "[a-z<>/\n ]{0,12}",
        calls in prop::collection::vec((prop::option::of("[a-z]{1,4}"), "[a-z_]{1,6}", arguments()), 0..3),
    ) {
        // At the end of a reply a blank line and a bracket are half a tag.
        prop_assume!(!calls.is_empty() || !content.ends_with("\n\n<"));
        let written: Vec<Value> = calls
            .iter()
            .map(|(namespace, name, arguments)| {
                json!({"namespace": namespace, "function": {"name": name, "arguments": arguments}})
            })
            .collect();
        let conversation = Conversation::from_json(&json!([
            {"role": "user", "content": "q"},
            {"role": "assistant", "reasoning_content": reasoning, "content": content, "tool_calls": written},
        ]));
        let text = conversation.unwrap().encode(&ChatOptions::default()).text();
        let (_, reply) = text.split_once("<｜Assistant｜><think>").unwrap();
        let parsed = parse(reply, Channel::Reasoning).unwrap();
        prop_assert_eq!(parsed.reasoning, reasoning);
        prop_assert_eq!(parsed.content, content);
        prop_assert_eq!(parsed.calls.len(), calls.len());
        for (call, (namespace, name, arguments)) in parsed.calls.iter().zip(&calls) {
            prop_assert_eq!((&call.name.namespace, &call.name.name), (namespace, name));
            let read: Map<String, Value> = serde_json::from_str(&call.arguments).unwrap();
            prop_assert_eq!(&read, arguments);
        }
    }
}
