//! What is asked of a server: loads and the requests made of them.

mod prompts;
mod request;

use serde::{Deserialize, Serialize};

pub use prompts::read;
pub use request::{Ask, Length, Seed, Verify};

/// How a load's text reaches the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// As a raw completion.
    Completion,
    /// As a user's message in a chat without thinking.
    Chat,
}

/// One prompt, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Its name in tables.
    pub name: String,
    /// How it reaches the model.
    pub kind: Kind,
    /// The text.
    pub text: String,
}

impl Load {
    fn new(name: &str, kind: Kind, text: &str) -> Self {
        Self { name: name.to_owned(), kind, text: text.to_owned() }
    }

    /// The two loads of concurrent cells.
    pub fn concurrent() -> Vec<Self> {
        let code = "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n";
        let chat = "What is a GPU, and how does it differ from a CPU?";
        vec![Self::new("code", Kind::Completion, code), Self::new("chat", Kind::Chat, chat)]
    }

    /// The two loads of openai cells.
    pub fn openai() -> Vec<Self> {
        let code = "Write a Python function that returns the first n Fibonacci numbers.\n\n```python\n";
        let chat = "What is a GPU?";
        vec![
            Self::new("fibonacci-raw", Kind::Completion, code),
            Self::new("gpu-chat-no-think", Kind::Chat, chat),
        ]
    }
}
