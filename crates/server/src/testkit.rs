//! A server over a fake engine: every route without a model.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokenfare_lanes::testkit::{Bound, FakeConfig, FakeModel, Probe, Words};
use tokenfare_lanes::{Channel, Drafts, Grammar, GrammarError, Lanes, LanesConfig, TargetInfo, Text};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

use crate::openapi::{
    ChatChunk, ChatReply, CompletionChunk, CompletionReply, MessageEvent, MessageReply, ResponseEvent,
    ResponseReply,
};
use crate::{
    Answer, ApiKeys, Calls, Chat, Costs, Defaults, Dialect, DialectError, Form, Guide, Metrics, Prompt,
    ReplyText, Server, ServerOptions, router,
};

/// Token ids of the fake model.
pub const VOCAB: usize = 40;
/// Most tokens of prompt and reply together.
pub const CONTEXT: usize = 64;
/// The tokens that begin and end a tool call in a chat.
pub const CALL: (u32, u32) = (38, 39);
/// Tokens of a guided answer, all of them.
pub const GUIDED: usize = 4;

/// Texts as a fake family reads them: a byte is a token, and a token reads as a letter.
#[derive(Debug, Clone, Copy, Default)]
pub struct FakeDialect;

/// A grammar that allows everything: the fake family's texts bound themselves.
struct Anything;

impl Grammar for Anything {
    fn mask(&mut self, _: &mut [u32]) -> Result<(), GrammarError> {
        Ok(())
    }

    fn accept(&mut self, _: u32) -> Result<(), GrammarError> {
        Ok(())
    }

    fn admits(&mut self, drafts: &[u32]) -> usize {
        drafts.len()
    }

    fn is_complete(&self) -> bool {
        false
    }

    fn fork(&self) -> Box<dyn Grammar> {
        Box::new(Self)
    }
}

fn encode(text: &str) -> Vec<u32> {
    text.bytes().map(|b| u32::from(b) % VOCAB as u32).collect()
}

impl Dialect for FakeDialect {
    fn encode_chat(&self, chat: &Chat) -> Result<Prompt, DialectError> {
        let content = |m: &Value| m["content"].as_str().unwrap_or_default().to_owned();
        let mut text: String = chat.messages.iter().map(content).collect();
        // A token for each tool that the model is told of.
        text.extend(chat.tools.iter().map(|_| 't'));
        let channel = if chat.thinking { Channel::Reasoning } else { Channel::Content };
        Ok(Prompt { ids: encode(&text), marks: Vec::new(), form: Form::Chat(channel) })
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>, DialectError> {
        Ok(encode(text))
    }

    fn decode(&self, ids: &[u32]) -> String {
        ids.iter().map(|&id| Words::letter(id)).collect()
    }

    fn bytes(&self, id: u32) -> &[u8] {
        let at = (id % 26) as usize;
        &b"abcdefghijklmnopqrstuvwxyz"[at..=at]
    }

    fn grammar(&self, guide: &Guide) -> Result<Box<dyn Grammar>, DialectError> {
        match &guide.answer {
            Some((field, Answer::Grammar(text))) => {
                let message = format!("expected a rule, found {text:?}");
                Err(DialectError { field: field.clone(), message })
            }
            _ => Ok(Box::new(Anything)),
        }
    }

    fn reply(&self, how: ReplyText) -> Result<Box<dyn Text>, DialectError> {
        let stops: Vec<&str> = how.stop.iter().map(String::as_str).collect();
        let mut words = Words::with_stops(&stops);
        if how.form != Form::Raw && how.calls != Calls::None {
            words = words.and_calling(CALL.0, CALL.1);
        }
        if how.grammar.is_some() {
            words = words.and_bound(Bound::new(3, GUIDED));
        }
        Ok(Box::new(words))
    }

    fn stop_tokens(&self) -> Vec<u32> {
        vec![0]
    }

    fn reasoning_close(&self) -> Option<u32> {
        None
    }
}

/// A server, its engine and what watches its model.
pub struct Fake {
    /// The server.
    pub server: Arc<Server>,
    /// The engine; dropping it ends it.
    pub lanes: Lanes,
    /// Watches and disturbs the model.
    pub probe: Probe,
}

/// A server over a fake engine of `slots` lanes, with options and settings as `adjust` leaves them.
///
/// # Panics
/// If the system gives no thread.
pub fn fake(slots: usize, adjust: impl FnOnce(&mut ServerOptions, &mut LanesConfig)) -> Fake {
    let mut options = ServerOptions {
        name: "fake".to_owned(),
        defaults: Defaults::default(),
        keys: ApiKeys::default(),
        keepalive: None,
        drain: Duration::ZERO,
        stall: None,
        costs: Costs { source: "default".to_owned(), drafts: Drafts::On, prompt_cache_bytes: 1 << 20 },
        metrics: Metrics::default(),
    };
    let mut config = LanesConfig { observer: Some(options.metrics.observer()), ..LanesConfig::default() };
    adjust(&mut options, &mut config);
    config.drafts = options.costs.drafts;
    config.prompt_cache_bytes = options.costs.prompt_cache_bytes;
    let shape = FakeConfig::default();
    let info = TargetInfo { slots, context: CONTEXT, vocab: VOCAB, ..shape.info.clone() };
    let (model, probe) = FakeModel::new(FakeConfig { info, ..shape });
    let lanes = Lanes::start(model, config).expect("a thread for the engine");
    let server = Server::new(lanes.handle(), Box::new(FakeDialect), options);
    Fake { server, lanes, probe }
}

/// Names of fields that handlers of this process have looked for.
static READ: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Notes that a handler looks for a field.
pub(crate) fn note_read(name: &str) {
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if !read.contains(name) {
        read.insert(name.to_owned());
    }
}

/// Takes the names that were looked for since the last call, those of nested objects included.
pub fn take_read() -> BTreeSet<String> {
    std::mem::take(&mut READ.lock().unwrap_or_else(PoisonError::into_inner))
}

/// What a generating route answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A chat's reply.
    Chat,
    /// An event of a chat's stream.
    ChatEvent,
    /// A completion's reply.
    Completion,
    /// An event of a completion's stream.
    CompletionEvent,
    /// A response.
    Response,
    /// An event of a response's stream.
    ResponseEvent,
    /// A message.
    Message,
    /// An event of a message's stream.
    MessageEvent,
}

impl Shape {
    /// Whether `answer` has the documented fields and no other.
    ///
    /// # Errors
    /// The first field that is missing, of another type or not documented.
    pub fn check(self, answer: &Value) -> Result<(), serde_json::Error> {
        match self {
            Self::Chat => read::<ChatReply>(answer),
            Self::ChatEvent => read::<ChatChunk>(answer),
            Self::Completion => read::<CompletionReply>(answer),
            Self::CompletionEvent => read::<CompletionChunk>(answer),
            Self::Response => read::<ResponseReply>(answer),
            Self::ResponseEvent => read::<ResponseEvent>(answer),
            Self::Message => read::<MessageReply>(answer),
            Self::MessageEvent => read::<MessageEvent>(answer),
        }
    }
}

fn read<T: DeserializeOwned>(answer: &Value) -> Result<(), serde_json::Error> {
    T::deserialize(answer).map(drop)
}

/// Routes that read a body, by the digit that names them.
const ROUTES: [&str; 7] = [
    "/v1/chat/completions",
    "/v1/completions",
    "/tokenize",
    "/detokenize",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
];

/// Sends bodies of any bytes to one server, for fuzzing.
pub struct Bodies {
    fake: Fake,
    runtime: Runtime,
}

impl Default for Bodies {
    fn default() -> Self {
        Self::new()
    }
}

impl Bodies {
    /// A server to ask.
    ///
    /// # Panics
    /// If the system gives no thread.
    pub fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { fake: fake(8, |_, _| {}), runtime }
    }

    /// Sends what follows the first byte, a digit that names the route, and gives the status.
    ///
    /// # Panics
    /// If the answer is a failure of the server, or a refusal that names no field.
    pub fn ask(&self, input: &[u8]) -> StatusCode {
        let (digit, body) = input.split_first().unwrap_or((&b'0', input));
        // A digit keeps its route when routes are added.
        let route = ROUTES[usize::from(digit.wrapping_sub(b'0')) % ROUTES.len()];
        let request = Request::post(route).body(Body::from(body.to_vec())).expect("a request");
        let (status, text) = self.runtime.block_on(async {
            let response = router(self.fake.server.clone()).oneshot(request).await;
            let response = response.unwrap_or_else(|never| match never {});
            let status = response.status();
            let text = to_bytes(response.into_body(), usize::MAX).await.expect("a body to its end");
            (status, String::from_utf8_lossy(&text).into_owned())
        });
        match status {
            StatusCode::OK => {}
            // A body may ask for more choices than may wait.
            StatusCode::SERVICE_UNAVAILABLE => assert!(text.contains("the queue of"), "{text}"),
            StatusCode::BAD_REQUEST => {
                let answer: Value = serde_json::from_str(&text).expect("an error in JSON");
                let error = &answer["error"];
                let message = error["message"].as_str().unwrap_or_default();
                // Anthropic's shape has no place for the field beside the message.
                let field = match answer["type"].as_str() {
                    Some("error") => message.split(':').next(),
                    _ => error["param"].as_str(),
                };
                let named = field.is_some_and(|f| !f.is_empty() && message.starts_with(&format!("{f}:")));
                assert!(named, "{route}: {text}");
            }
            other => panic!("{route}: {other}: {text}"),
        }
        status
    }
}
