//! Why a conversation cannot be encoded.

use serde_json::Value;

/// A field of a conversation that cannot be used, named as the caller wrote it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct ChatError {
    /// The field, for example `messages[3].content[0].text`.
    pub path: String,
    /// What is wrong with it.
    pub problem: ChatProblem,
}

/// What can be wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChatProblem {
    /// Another kind of value, or a value out of range.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What is accepted.
        expected: &'static str,
        /// What came.
        found: String,
    },
    /// Text that would be read as an image.
    #[error("the text of the image token <｜deepseek_image｜> is not accepted")]
    ImageToken,
    /// A field that has no place in a message of this role.
    #[error("only a message of role {role} has this field")]
    Role {
        /// The role that takes the field.
        role: &'static str,
    },
    /// A task on a user message that joins the user message before it.
    #[error("a message with a task cannot follow another message of the same user turn")]
    JoinedTask,
    /// A qualified tool name beside another namespace, or one with several `::`.
    #[error("the name {name} does not agree with the namespace {namespace}")]
    Namespace {
        /// Name as given.
        name: String,
        /// Namespace as given.
        namespace: String,
    },
}

impl ChatError {
    pub(super) fn new(path: impl Into<String>, problem: ChatProblem) -> Self {
        Self { path: path.into(), problem }
    }

    pub(super) fn expected(path: impl Into<String>, expected: &'static str, found: &Value) -> Self {
        let found = match found {
            Value::Null => "nothing".to_owned(),
            Value::String(text) => format!("{text:?}"),
            Value::Array(_) => "a list".to_owned(),
            Value::Object(_) => "an object".to_owned(),
            other => other.to_string(),
        };
        Self::new(path, ChatProblem::Expected { expected, found })
    }
}
