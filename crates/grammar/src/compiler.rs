//! Sources to grammars, within bounds of size and time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use llguidance::api::ParserLimits;
use llguidance::earley::SlicedBiasComputer;
use llguidance::{Matcher, ParserFactory};
use tokenfare_lanes::Grammar;
use toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv};

use crate::state::State;
use crate::{Source, Vocabulary};

/// Most bytes of a source.
const MOST_BYTES: usize = 1 << 20;
/// Longest time of one compilation.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most compilations that may run on past their time before others are refused.
const MOST_OVERDUE: usize = 2;
/// Stack of a compilation: the library descends into a source as deep as it is nested.
const STACK: usize = 256 << 20;

/// Why a source is no grammar.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// It is malformed, says something that the library does not know, or no text fits it.
    #[error("{0}")]
    Invalid(String),
    /// It is too long.
    #[error("expected at most {MOST_BYTES} bytes, found {0}")]
    Size(usize),
    /// It takes too long.
    #[error("too complex: it was not compiled in {} seconds", PATIENCE.as_secs())]
    Time,
    /// Others take too long.
    #[error("other grammars are still being compiled")]
    Busy,
}

/// Compiles grammars over one vocabulary.
#[derive(Clone)]
pub struct Compiler {
    factory: Arc<ParserFactory>,
    overdue: Arc<AtomicUsize>,
}

fn limits() -> ParserLimits {
    ParserLimits {
        // Each state takes up to two kilobytes for as long as the reply runs.
        max_lexer_states: 50_000,
        max_grammar_size: 200_000,
        verbose_errors: false,
        ..ParserLimits::default()
    }
}

impl Compiler {
    /// A compiler over `vocabulary`. Building its tables takes a moment for a large one.
    pub fn new(vocabulary: &Vocabulary) -> Self {
        // Not canonical: a reply may spell what the grammar allows in any tokens, as it could without a grammar.
        let env: TokEnv = Arc::new(ApproximateTokEnv::new(vocabulary.trie()));
        let slices = SlicedBiasComputer::general_slices();
        let mut factory = ParserFactory::new(&env, InferenceCapabilities::default(), &slices)
            .expect("the library's own slices compile");
        factory.quiet();
        *factory.limits_mut() = limits();
        Self { factory: Arc::new(factory), overdue: Arc::default() }
    }

    /// Compiles `source`. Blocks for the time it takes, which is bounded.
    ///
    /// # Errors
    /// A malformed source, one that is too large or too complex, or one that no text fits as far as its beginning tells.
    pub fn compile(&self, source: &Source) -> Result<Box<dyn Grammar>, CompileError> {
        let size = source.size();
        if size > MOST_BYTES {
            return Err(CompileError::Size(size));
        }
        let grammar = source.grammar()?;
        if self.overdue.load(Ordering::SeqCst) >= MOST_OVERDUE {
            return Err(CompileError::Busy);
        }
        let factory = self.factory.clone();
        let (done, result) = sync_channel(1);
        let build = move || {
            let built = factory.create_parser(grammar).map_err(|e| reason(&e.to_string()));
            let begun = built.and_then(|parser| State::begin(Matcher::new(Ok(parser))).map_err(|e| e.0));
            // Nobody waits any more for one that took too long.
            let _ = done.send(begun);
        };
        let thread = thread::Builder::new().name("grammar".to_owned()).stack_size(STACK).spawn(build);
        let thread = thread.map_err(|e| CompileError::Invalid(e.to_string()))?;
        match result.recv_timeout(PATIENCE) {
            Ok(built) => Ok(Box::new(built.map_err(CompileError::Invalid)?)),
            Err(RecvTimeoutError::Timeout) => {
                let overdue = self.overdue.clone();
                overdue.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || {
                    let _ = thread.join();
                    overdue.fetch_sub(1, Ordering::SeqCst);
                });
                Err(CompileError::Time)
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(CompileError::Invalid("the compiler gave up on it".to_owned()))
            }
        }
    }
}

/// The library's reason in one line.
fn reason(words: &str) -> String {
    let line = words.lines().find(|line| !line.trim().is_empty()).unwrap_or("invalid");
    line.chars().take(300).collect()
}
