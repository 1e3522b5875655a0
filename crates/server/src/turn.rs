//! A request for an assistant's turn, whatever protocol it came in.

use serde_json::Value;
use tokenfare_lanes::{Report, Validated};

use crate::answer::Asked;
use crate::generation::{Defaults, Generation, Wanted};
use crate::tools::Tools;
use crate::{ApiError, Chat, Form, Guide, Prompt, Server};

/// Whether the reply reasons first, and how much.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Thinking {
    /// On or off; `None` as the server's default.
    pub on: Option<bool>,
    /// A level's name or a number.
    pub effort: Option<Value>,
}

impl Thinking {
    fn resolve(self, defaults: &Defaults) -> (bool, Option<Value>) {
        let effort = self.effort.or_else(|| defaults.effort.clone());
        // The word of newer clients for no reasoning.
        if effort.as_ref().is_some_and(|effort| effort == "none") {
            return (self.on.unwrap_or(false), None);
        }
        (self.on.unwrap_or(defaults.thinking), effort)
    }
}

/// A validated request for an assistant's turn. Each protocol reads its body into one.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// Messages in the form of OpenAI's chat completions.
    pub messages: Vec<Value>,
    /// The tools and how they may be called.
    pub tools: Tools,
    /// What the answer must be.
    pub asked: Option<Asked>,
    /// Whether the reply reasons first.
    pub thinking: Thinking,
    /// How tokens are drawn and what ends the reply.
    pub generation: Generation,
    /// Values to report.
    pub report: Report,
}

/// A turn ready for the lanes, one request a choice.
pub struct Prepared {
    /// The prompt.
    pub prompt: Prompt,
    /// The requests.
    pub requests: Vec<Validated>,
}

impl Turn {
    /// What the reply must be: the answer asked for, calls that are demanded, or either where tools may be called.
    fn guide(&self, form: Form) -> Option<Guide> {
        let asked = self.asked.as_ref().filter(|_| !self.tools.demands());
        if asked.is_none() && !self.tools.demands() {
            return None;
        }
        Some(Guide {
            form,
            answer: asked.map(|asked| (asked.field.clone(), asked.answer.clone())),
            tools: self.tools.offered().to_vec(),
            named: self.tools.named(),
            calls: self.tools.most(),
        })
    }

    /// The conversation that becomes the prompt.
    pub fn chat(&self, defaults: &Defaults) -> Chat {
        let (thinking, effort) = self.thinking.clone().resolve(defaults);
        let told = self.asked.as_ref().filter(|_| !self.tools.demands()).and_then(|asked| asked.told.clone());
        Chat {
            messages: self.messages.clone(),
            tools: self.tools.offered().to_vec(),
            schema: told,
            thinking,
            effort,
        }
    }

    /// Encodes the prompt and validates a request for each choice. Blocks for the time that this takes.
    ///
    /// # Errors
    /// The first field that cannot be used, by the name that OpenAI's protocol has for it.
    pub fn prepare(&self, server: &Server) -> Result<Prepared, ApiError> {
        let prompt = server.dialect.encode_chat(&self.chat(&server.defaults))?;
        let room = server.lanes.info().context.saturating_sub(prompt.ids.len());
        let guide = self.guide(prompt.form);
        let wanted = Wanted {
            prompt: &prompt,
            max_new: self.generation.max_tokens.or(server.defaults.max_tokens).unwrap_or(room),
            report: self.report,
            calls: self.tools.most(),
            guide: guide.as_ref(),
        };
        let requests = self.generation.requests(&wanted, server)?;
        Ok(Prepared { prompt, requests })
    }
}
