//! Messages to turns: tool results join the user's turn, neighbouring user messages become one.

use std::collections::HashMap;

use super::error::{ChatError, ChatProblem};
use super::message::{Message, Part, Role};

/// Joins the user messages and tool results that follow each other, and puts the results of one turn in the order
/// of the calls they answer. The turns have no message of role tool.
pub(super) fn turns(messages: Vec<Message>) -> Result<Vec<Message>, ChatError> {
    let mut turns: Vec<Message> = Vec::with_capacity(messages.len());
    for (index, message) in messages.into_iter().enumerate() {
        let user = turns.last_mut().filter(|last| last.role == Role::User);
        match (message.role, user) {
            (Role::Tool, Some(turn)) => turn.content.extend(message.content),
            (Role::Tool, None) => turns.push(Message::new(Role::User, message.content)),
            (Role::User, Some(turn)) if turn.task.is_none() => {
                if message.task.is_some() {
                    return Err(ChatError::new(format!("messages[{index}].task"), ChatProblem::JoinedTask));
                }
                turn.content.extend(message.content);
            }
            _ => turns.push(message),
        }
    }
    sort_results(&mut turns);
    Ok(turns)
}

fn sort_results(turns: &mut [Message]) {
    let mut order: HashMap<String, usize> = HashMap::new();
    for turn in turns {
        if turn.role == Role::Assistant && !turn.calls.is_empty() {
            let ids = turn.calls.iter().map(|call| call.id.clone());
            order = ids.enumerate().filter_map(|(place, id)| Some((id?, place))).collect();
        } else if turn.role == Role::User && !order.is_empty() {
            let is_result = |part: &&mut Part| matches!(part, Part::ToolResult { .. });
            let mut results: Vec<Part> =
                turn.content.iter_mut().filter(is_result).map(|part| part.clone()).collect();
            results.sort_by_key(|part| match part {
                Part::ToolResult { call, .. } => order.get(call).copied().unwrap_or(0),
                _ => 0,
            });
            turn.content.iter_mut().filter(is_result).zip(results).for_each(|(place, part)| *place = part);
        }
    }
}
