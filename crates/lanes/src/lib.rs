//! The lane engine: many streams decode in shared rounds, and every reply is the same token for token with drafts
//! or without, alone or beside others, resumed or fresh.
//!
//! Lanes know nothing of layers: a model is a [`Target`] and a [`Drafter`], a reply's text is a [`Text`]. One
//! thread owns all lanes; everything else talks to it by channels.
//!
//! ```
//! # #[cfg(feature = "testkit")] {
//! use tokenfare_lanes::testkit::{FakeConfig, FakeModel, Words};
//! use tokenfare_lanes::{Event, Finish, Lanes, LanesConfig, Request};
//!
//! let (model, _) = FakeModel::new(FakeConfig::default());
//! let lanes = Lanes::start(model, LanesConfig::default()).unwrap();
//! let handle = lanes.handle();
//! let request = Request::new(vec![1, 2, 3], 8, Box::new(Words::new()));
//! let mut reply = handle.submit(request.validate(handle.info()).unwrap()).unwrap();
//! let mut tokens = 0;
//! while let Some(event) = reply.blocking_next() {
//!     match event {
//!         Event::Prefilled { cached, .. } => assert_eq!(cached, 0),
//!         Event::Tokens(committed) => tokens += committed.len(),
//!         Event::Finished { reason, stats, .. } => {
//!             assert_eq!(reason, Finish::Length);
//!             assert_eq!((tokens, stats.completion_tokens), (8, 8));
//!         }
//!     }
//! }
//! # }
//! ```

mod acceptance;
mod calibrate;
mod clock;
mod conclude;
mod config;
mod copies;
mod engine;
mod event;
mod generation;
mod grammar;
mod handle;
mod observe;
mod pace;
mod plan;
mod prefill;
mod prompt_cache;
mod queue;
mod request;
mod round;
pub mod sampling;
mod stats;
mod stream;
mod target;
#[cfg(feature = "testkit")]
pub mod testkit;
mod text;

pub use acceptance::{AcceptanceError, AcceptanceRun, MeasuredReply};
pub use calibrate::{Calibrated, CalibrationError, Calibrator};
pub use clock::{Clock, SystemClock};
pub use config::{Copies, DepthOracle, Drafts, Explore, LanesConfig};
pub use event::{Event, Finish, ReplyStats, TokenEvent, TokenLogprob};
pub use grammar::{Grammar, GrammarError};
pub use handle::{Canceller, Lanes, LanesHandle, Reply, SubmitError};
pub use observe::{FirstToken, Observer, RoundChoice, RoundTimes, WindowChoice, WindowCommit};
pub use queue::ClientId;
pub use request::{Priority, Report, Request, RequestError, Sampling, ThinkingBudget, Validated};
pub use sampling::Sampler;
pub use stats::{LanesStats, PositionCount, Prices};
pub use target::{
    Ask, Drafter, Ingest, Logits, Proposal, SavedState, Segment, Target, TargetError, TargetInfo, Want,
};
pub use text::{Channel, NoText, Piece, Step, Text, TextEnd};
pub use tokenfare_pricing::SamplingClass;
