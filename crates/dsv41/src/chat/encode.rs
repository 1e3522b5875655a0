//! The official prompt format.

use serde_json::Value;

use super::json::python_json;
use super::message::{Ending, Message, Part, Role, Task};
use super::options::{ChatOptions, PastReasoning, Thinking};
use super::prompt::Prompt;
use super::tool::ToolCall;
use crate::tokenizer::Control;

/// Between the parts of a message.
const BREAK: &str = "\n\n";

/// The text before the tool schemas, word for word what the model was trained on.
const TOOLS: &str = r#"## Tools

You have access to a set of tools to help answer the user's question. You can invoke tools by writing a "<｜DSML｜ calls>" block like the following:

<｜DSML｜ calls>
<｜DSML｜ invoke name="$TOOL_NAME">
<｜DSML｜ parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</｜DSML｜ parameter>
...
</｜DSML｜ invoke>
<｜DSML｜ invoke name="$TOOL_NAME2">
...
</｜DSML｜ invoke>
</｜DSML｜ calls>

String parameters should be specified as is and set `string="true"`. For all other types (numbers, booleans, arrays, objects), pass the value in JSON format and set `string="false"`.

If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning inside <think>...</think> BEFORE any tool calls or final response.

Otherwise, output directly after </think> with tool calls or final response.

### Available Tool Schemas

"#;

/// The text after the tool schemas.
const AFTER_TOOLS: &str = r"

You MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.
";

/// The text before a response schema.
const RESPONSE_FORMAT: &str =
    "## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n";

/// Encodes a conversation up to the place where the reply starts.
pub(super) fn encode(turns: &[Message], options: &ChatOptions) -> Prompt {
    let has_tools = turns.iter().any(|turn| !turn.tools.is_empty());
    let keeps_all = has_tools || options.past_reasoning == PastReasoning::Keep;
    let is_ask = |i: usize| match turns[i].role {
        Role::User => true,
        Role::System => i > 0,
        _ => false,
    };
    let last_ask = (0..turns.len()).rev().find(|&i| is_ask(i));
    let thinks = options.thinking != Thinking::Off;
    let thinks_at = |i: usize| thinks && (keeps_all || last_ask.is_none_or(|last| i >= last));

    let mut prompt = Prompt::default();
    prompt.control(Control::Bos);
    for (i, turn) in turns.iter().enumerate() {
        if turn.role == Role::System || (i == 0 && thinks) {
            prompt.control(Control::System);
        }
        if let (0, Thinking::On(effort)) = (i, options.thinking) {
            prompt.push(&format!(
                "Reasoning Effort: {effort} (range 1-100, the higher the value, the more thorough the reasoning)\n\n"
            ));
        }
        match turn.role {
            Role::System => system(&mut prompt, turn),
            Role::User | Role::Tool => {
                prompt.control(Control::User);
                parts(&mut prompt, &turn.content);
            }
            Role::LatestReminder => {
                prompt.control(Control::LatestReminder);
                parts(&mut prompt, &turn.content);
            }
            Role::Assistant => {
                let answers_task = i > 0 && turns[i - 1].task.is_some();
                if thinks_at(i) && !answers_task {
                    prompt.push(&turn.reasoning);
                    prompt.control(Control::ThinkClose);
                }
                assistant(&mut prompt, turn);
            }
        }
        let next = turns.get(i + 1).map(|next| next.role);
        if !matches!(next, None | Some(Role::Assistant | Role::LatestReminder)) {
            continue;
        }
        match turn.task {
            Some(task) => {
                if task == Task::Action {
                    open_reply(&mut prompt, thinks);
                }
                prompt.control(task.control());
            }
            None if is_ask(i) => open_reply(&mut prompt, thinks_at(i)),
            None => {}
        }
    }
    prompt
}

/// Opens an assistant turn, in its reasoning or past it.
fn open_reply(prompt: &mut Prompt, thinks: bool) {
    prompt.control(Control::Assistant);
    prompt.control(if thinks { Control::ThinkOpen } else { Control::ThinkClose });
}

fn system(prompt: &mut Prompt, message: &Message) {
    parts(prompt, &message.content);
    if !message.tools.is_empty() {
        prompt.push(BREAK);
        prompt.markup(TOOLS);
        prompt.push(&join(message.tools.iter().map(|tool| python_json(&tool.schema))));
        prompt.push(AFTER_TOOLS);
    }
    if let Some(schema) = &message.response_format {
        prompt.push(BREAK);
        prompt.push(RESPONSE_FORMAT);
        prompt.push(&python_json(schema));
    }
}

fn assistant(prompt: &mut Prompt, message: &Message) {
    parts(prompt, &message.content);
    if !message.calls.is_empty() {
        prompt.push(BREAK);
        prompt.markup("<｜DSML｜ calls>\n");
        message.calls.iter().for_each(|call| write_call(prompt, call));
        prompt.markup("</｜DSML｜ calls>");
    }
    if message.ending == Ending::Closed {
        prompt.control(Control::Eos);
    }
}

/// Writes a call; what the caller chose stays text, whatever it spells.
fn write_call(prompt: &mut Prompt, call: &ToolCall) {
    prompt.markup("<｜DSML｜ invoke name=\"");
    prompt.push(&call.name.to_string());
    prompt.push("\">\n");
    for (i, (name, value)) in call.arguments.iter().enumerate() {
        let (value, kind) = match value {
            Value::String(text) => (text.clone(), "true"),
            other => (python_json(other), "false"),
        };
        prompt.markup(if i == 0 {
            "<｜DSML｜ parameter name=\""
        } else {
            "\n<｜DSML｜ parameter name=\""
        });
        prompt.push(name);
        prompt.push(&format!("\" string=\"{kind}\">{value}"));
        prompt.markup("</｜DSML｜ parameter>");
    }
    prompt.markup("\n</｜DSML｜ invoke>\n");
}

fn parts(prompt: &mut Prompt, parts: &[Part]) {
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            prompt.push(BREAK);
        }
        match part {
            Part::Text(text) => prompt.push(text),
            Part::Image(image) => prompt.image(image),
            Part::Unsupported(kind) => prompt.push(&format!("[Unsupported {kind}]")),
            Part::ToolResult { content, .. } => {
                prompt.push("<tool_result>");
                self::parts(prompt, content);
                prompt.push("</tool_result>");
            }
        }
    }
}

fn join(lines: impl Iterator<Item = String>) -> String {
    lines.collect::<Vec<_>>().join("\n")
}
