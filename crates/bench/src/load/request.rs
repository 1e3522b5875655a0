//! The body of a request.

use serde_json::{Map, Value, json};

use super::{Kind, Load};

/// The seed of the first stream; stream `i` of a sampled cell has this plus `i`.
const SEED: u64 = 1234;
/// Sampling of concurrent cells.
const TOP_K: u32 = 20;
const TOP_P: f64 = 0.95;

/// Which seed a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seed {
    /// The seed of this stream.
    OfStream(usize),
    /// None: the server chooses.
    Unset,
}

/// Where a reply ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// At its budget alone: past end tokens, with the sampling of concurrent cells.
    Fixed,
    /// Where the model ends it, with the fields of plain OpenAI requests alone.
    Natural,
}

/// How a server may produce a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verify {
    /// As it likes.
    Any,
    /// One token a round: the serial reference of servers that have one.
    Serial,
}

/// What is asked beside a load's text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ask {
    /// Most tokens of the reply.
    pub tokens: usize,
    /// Temperature; 0 is greedy.
    pub temperature: f64,
    /// The seed.
    pub seed: Seed,
    /// Where the reply ends.
    pub length: Length,
    /// How it may be produced.
    pub verify: Verify,
}

impl Ask {
    /// Path and body of the streamed request for `load` to `model`.
    pub fn request(&self, load: &Load, model: &str) -> (&'static str, Value) {
        let mut body = Map::new();
        let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
        set("model", json!(model));
        let path = match load.kind {
            Kind::Completion => {
                set("prompt", json!(load.text));
                "/v1/completions"
            }
            Kind::Chat => {
                set("messages", json!([{"role": "user", "content": load.text}]));
                set("chat_template_kwargs", json!({"enable_thinking": false}));
                "/v1/chat/completions"
            }
        };
        set("max_tokens", json!(self.tokens));
        set("temperature", json!(self.temperature));
        set("stream", json!(true));
        set("stream_options", json!({"include_usage": true}));
        let sampled = self.temperature > 0.0;
        if let Seed::OfStream(stream) = self.seed {
            set("seed", json!(SEED + if sampled { stream as u64 } else { 0 }));
        }
        if self.length == Length::Fixed {
            set("ignore_eos", json!(true));
            if sampled {
                set("top_k", json!(TOP_K));
                set("top_p", json!(TOP_P));
            }
        }
        if self.verify == Verify::Serial {
            set("draft", json!(false));
        }
        (path, Value::Object(body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASK: Ask = Ask {
        tokens: 128,
        temperature: 1.0,
        seed: Seed::OfStream(2),
        length: Length::Fixed,
        verify: Verify::Any,
    };

    #[test]
    fn a_sampled_stream_has_its_own_seed() {
        let code = &Load::concurrent()[0];
        let (path, body) = ASK.request(code, "m");
        assert_eq!(path, "/v1/completions");
        let expected = json!({"model": "m",
            "prompt": "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n", "max_tokens": 128,
            "temperature": 1.0, "stream": true, "stream_options": {"include_usage": true}, "seed": 1236,
            "ignore_eos": true, "top_k": 20, "top_p": 0.95});
        assert_eq!(body, expected);
    }

    #[test]
    fn greedy_streams_share_a_seed_and_plain_requests_have_plain_fields() {
        let greedy = Ask { temperature: 0.0, ..ASK };
        let (path, body) = greedy.request(&Load::concurrent()[1], "m");
        assert_eq!(
            (path, &body["seed"], &body["top_k"]),
            ("/v1/chat/completions", &json!(1234), &Value::Null)
        );
        assert_eq!(
            body["messages"],
            json!([{"role": "user", "content": "What is a GPU, and how does it differ from a CPU?"}])
        );
        assert_eq!(body["chat_template_kwargs"], json!({"enable_thinking": false}));
        let plain = Ask { length: Length::Natural, seed: Seed::Unset, verify: Verify::Serial, ..ASK };
        let (_, body) = plain.request(&Load::openai()[1], "m");
        let names: Vec<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
        let expected = [
            "model",
            "messages",
            "chat_template_kwargs",
            "max_tokens",
            "temperature",
            "stream",
            "stream_options",
            "draft",
        ];
        assert_eq!(names, expected);
    }
}
