//! The validated request: built once at the border, trusted everywhere inside.

use crate::{TargetInfo, Text};

/// How a reply's tokens are drawn. Values are in range by construction of [`Request`].
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// 0 is greedy; above 0 the effective floor is 1e-6.
    pub temperature: f64,
    /// Nucleus mass in (0, 1]; 1 keeps everything.
    pub top_p: f64,
    /// Most likely tokens kept; 0 keeps all.
    pub top_k: usize,
    /// Least probability relative to the likeliest, in 0..=1; 0 keeps everything.
    pub min_p: f64,
    /// Key of every draw.
    pub seed: u64,
    /// Added to the logits before the temperature: (token, bias), each token at most once.
    pub logit_bias: Vec<(u32, f32)>,
}

impl Sampling {
    /// The first maximum, whatever the seed.
    pub fn greedy() -> Self {
        Self { temperature: 0.0, top_p: 1.0, top_k: 0, min_p: 0.0, seed: 0, logit_bias: Vec::new() }
    }
}

/// Which requests wait for which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Priority {
    /// Served first, in order of arrival.
    #[default]
    Foreground,
    /// Served when no foreground request waits.
    Background,
}

/// Bounds the reasoning part of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThinkingBudget {
    /// Tokens inside the reasoning before it is closed.
    pub tokens: usize,
    /// The token that closes it (`</think>`), forced once the budget is spent.
    pub close: u32,
}

/// What is wanted beside the tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Log-probabilities of generated tokens, with this many alternatives.
    pub logprobs: Option<usize>,
    /// Log-probabilities of prompt tokens (from the second on), with this many alternatives.
    pub prompt_logprobs: Option<usize>,
}

/// One reply to be generated.
pub struct Request {
    /// Token ids, at least one, shorter than the context.
    pub prompt: Vec<u32>,
    /// Most tokens to generate; 0 only evaluates the prompt.
    pub max_new: usize,
    /// How tokens are drawn.
    pub sampling: Sampling,
    /// Tokens that end the reply (delivered, counted and hashed, without text).
    pub stop_tokens: Vec<u32>,
    /// Whether rounds may verify drafts; `false` is one token a round.
    pub draft: bool,
    /// Queue class.
    pub priority: Priority,
    /// Bound of the reasoning part.
    pub thinking: Option<ThinkingBudget>,
    /// Extra values to report.
    pub report: Report,
    /// Prompt lengths at which a reusable prompt state is worth keeping, ascending (the end of the prompt is implied).
    pub marks: Vec<usize>,
    /// Meaning of the tokens as text.
    pub text: Box<dyn Text>,
}

/// Why a request was refused. The message names the field as the caller knows it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RequestError {
    /// No prompt tokens.
    #[error("prompt: empty, expected at least one token")]
    EmptyPrompt,
    /// The prompt fills or exceeds the context.
    #[error(
        "prompt: {tokens} tokens do not fit the context of {context} tokens (at least one must be left for the reply)"
    )]
    ContextLength {
        /// Prompt tokens.
        tokens: usize,
        /// Context of the model as served.
        context: usize,
    },
    /// A token id outside the vocabulary.
    #[error("{field}: token id {id} is outside the vocabulary of {vocab}")]
    Token {
        /// `prompt`, `stop_token_ids` or `logit_bias`.
        field: &'static str,
        /// The id.
        id: u64,
        /// Vocabulary size.
        vocab: usize,
    },
    /// A number out of range or not finite.
    #[error("{field}: {found}, expected {expected}")]
    Range {
        /// The field.
        field: &'static str,
        /// The accepted range.
        expected: &'static str,
        /// What came.
        found: String,
    },
}

impl Request {
    /// A greedy request for `max_new` tokens with drafts on, to be adjusted by its public fields and then
    /// checked by [`Request::validate`].
    pub fn new(prompt: Vec<u32>, max_new: usize, text: Box<dyn Text>) -> Self {
        Self {
            prompt,
            max_new,
            sampling: Sampling::greedy(),
            stop_tokens: Vec::new(),
            draft: true,
            priority: Priority::default(),
            thinking: None,
            report: Report::default(),
            marks: Vec::new(),
            text,
        }
    }

    /// Checks every field against the model's limits and cuts `max_new` to the room left in the context.
    pub fn validate(mut self, info: &TargetInfo) -> Result<Validated, RequestError> {
        if self.prompt.is_empty() {
            return Err(RequestError::EmptyPrompt);
        }
        if self.prompt.len() >= info.context {
            return Err(RequestError::ContextLength { tokens: self.prompt.len(), context: info.context });
        }
        let known = |field, id: u32| {
            if (id as usize) < info.vocab {
                Ok(())
            } else {
                Err(RequestError::Token { field, id: id.into(), vocab: info.vocab })
            }
        };
        self.prompt.iter().try_for_each(|&id| known("prompt", id))?;
        self.stop_tokens.iter().try_for_each(|&id| known("stop_token_ids", id))?;
        let s = &self.sampling;
        s.logit_bias.iter().try_for_each(|&(id, _)| known("logit_bias", id))?;
        let range = |ok: bool, field, expected, found: f64| {
            if ok { Ok(()) } else { Err(RequestError::Range { field, expected, found: found.to_string() }) }
        };
        range(
            (0.0..=100.0).contains(&s.temperature),
            "temperature",
            "a number from 0 to 100",
            s.temperature,
        )?;
        range(s.top_p > 0.0 && s.top_p <= 1.0, "top_p", "a number above 0, at most 1", s.top_p)?;
        range((0.0..=1.0).contains(&s.min_p), "min_p", "a number from 0 to 1", s.min_p)?;
        for &(_, bias) in &s.logit_bias {
            range((-1e4..=1e4).contains(&bias), "logit_bias", "a number from -10000 to 10000", bias.into())?;
        }
        let length = self.prompt.len();
        self.marks.retain(|&m| m > 0 && m < length);
        self.marks.sort_unstable();
        self.marks.dedup();
        self.max_new = self.max_new.min(info.context - self.prompt.len());
        Ok(Validated(self))
    }
}

/// A request that passed [`Request::validate`]: the only kind that lanes accept.
pub struct Validated(Request);

impl Validated {
    /// The request.
    pub fn get(&self) -> &Request {
        &self.0
    }

    /// Takes the request out.
    pub fn into_inner(self) -> Request {
        self.0
    }
}
