//! The engine as its clients see it.

use crate::engine::Engine;
use crate::queue::{ClientId, Queue};
use crate::{
    Clock, Drafter, Event, Finish, LanesConfig, LanesStats, Prices, ReplyStats, Target, TargetInfo,
    Validated, generation::EMPTY_SHA256,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;
use tokenfare_pricing::Depth;
use tokio::sync::mpsc;

/// Why a request was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// As many requests wait as may wait.
    #[error("the queue of {limit} requests is full")]
    QueueFull {
        /// The limit.
        limit: usize,
    },
    /// The engine takes no more requests.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The engine's thread has ended.
    #[error("the engine has stopped")]
    Ended,
}

/// How long the engine goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// It takes requests.
    Open,
    /// It finishes what it has.
    Draining,
    /// It cancels what it has.
    Stopping,
    /// Its thread has ended.
    Ended,
}

/// The client's side of a stream, as the engine holds it.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    events: mpsc::UnboundedSender<Event>,
    cancel: Arc<AtomicBool>,
}

impl Client {
    fn new() -> (Self, Reply) {
        let (sender, events) = mpsc::unbounded_channel();
        let cancel = Arc::new(AtomicBool::new(false));
        (Self { events: sender, cancel: cancel.clone() }, Reply { events, cancel })
    }

    /// A client that has gone away misses nothing.
    pub(crate) fn send(&self, event: Event) {
        let _ = self.events.send(event);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed) || self.events.is_closed()
    }
}

/// A request that waits for a lane.
pub(crate) struct Job {
    pub(crate) request: Validated,
    pub(crate) client: Client,
    pub(crate) arrived: Duration,
}

impl Job {
    /// Ends a request that never had a lane.
    pub(crate) fn finish(self, reason: Finish, now: Duration) {
        let stats = ReplyStats {
            prompt_tokens: self.request.get().prompt.len(),
            seed: self.request.get().sampling.seed,
            queue_s: now.saturating_sub(self.arrived).as_secs_f64(),
            token_sha256: EMPTY_SHA256.to_owned(),
            ..Default::default()
        };
        self.client.send(Event::Finished { pieces: Vec::new(), reason, stats: Box::new(stats) });
    }
}

pub(crate) struct Inbox {
    pub(crate) queue: Queue<Job>,
    pub(crate) mode: Mode,
}

/// What the engine's thread and its clients share.
pub(crate) struct Shared {
    info: TargetInfo,
    queue_limit: usize,
    pub(crate) clock: Arc<dyn Clock>,
    inbox: Mutex<Inbox>,
    changed: Condvar,
    stats: Mutex<LanesStats>,
    prices: Mutex<Prices>,
    turns: AtomicU64,
}

impl Shared {
    pub(crate) fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stats(&self) -> MutexGuard<'_, LanesStats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows what rounds are priced by from now on.
    pub(crate) fn show_prices(&self, depth: &Depth) {
        self.prices.lock().unwrap_or_else(PoisonError::into_inner).update(depth);
    }

    /// Notes that the engine's thread begins another turn.
    pub(crate) fn count_turn(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until a request arrives or the mode changes.
    pub(crate) fn wait<'a>(&self, inbox: MutexGuard<'a, Inbox>) -> MutexGuard<'a, Inbox> {
        self.changed.wait(inbox).unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves on to a later mode, never back.
    fn advance(&self, mode: Mode) {
        let mut inbox = self.inbox();
        inbox.mode = inbox.mode.max(mode);
        self.changed.notify_all();
    }

    /// Waits until the thread has ended, at most `limit` by the machine's clock.
    fn wait_for_end(&self, limit: Duration) {
        let running = |inbox: &mut Inbox| inbox.mode != Mode::Ended;
        let _inbox = self.changed.wait_timeout_while(self.inbox(), limit, running);
    }

    /// Ends the life of the engine: whatever still waits is finished with `reason`.
    fn end(&self, reason: &Finish) {
        let mut inbox = self.inbox();
        inbox.mode = Mode::Ended;
        while let Some(job) = inbox.queue.pop() {
            self.stats().count_finish(reason);
            job.finish(reason.clone(), self.clock.now());
        }
        self.changed.notify_all();
    }
}

/// A running lane engine. Dropping it cancels every reply and waits for its thread.
pub struct Lanes {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Lanes {
    /// Starts a thread that owns `model` and its lanes.
    ///
    /// # Errors
    ///
    /// The operating system's, when it gives no thread.
    pub fn start<M: Target + Drafter>(model: M, config: LanesConfig) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            info: model.info().clone(),
            queue_limit: config.queue,
            clock: config.clock.clone(),
            inbox: Mutex::new(Inbox { queue: Queue::new(config.queue), mode: Mode::Open }),
            changed: Condvar::new(),
            stats: Mutex::new(LanesStats::default()),
            prices: Mutex::new(Prices::of(&config.table)),
            turns: AtomicU64::new(0),
        });
        let engine = Engine::new(model, config, shared.clone());
        shared.show_prices(&engine.depth);
        let thread = std::thread::Builder::new().name("lanes".into()).spawn(move || serve(engine))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// A handle for clients.
    pub fn handle(&self) -> LanesHandle {
        LanesHandle { shared: self.shared.clone() }
    }

    /// Takes no more requests, gives those it has `grace` to finish, cancels the rest, and waits for the thread.
    pub fn shutdown(mut self, grace: Duration) {
        self.shared.advance(Mode::Draining);
        self.shared.wait_for_end(grace);
        self.stop();
    }

    fn stop(&mut self) {
        self.shared.advance(Mode::Stopping);
        if let Some(thread) = self.thread.take() {
            // A panic of the model has been reported to every client.
            let _ = thread.join();
        }
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Runs the engine to its end; a panic of the model ends every reply as failed.
fn serve<M: Target + Drafter>(mut engine: Engine<M>) {
    let shared = engine.shared().clone();
    let outcome = catch_unwind(AssertUnwindSafe(|| engine.run()));
    let reason = match outcome {
        Ok(()) => Finish::Cancelled,
        Err(panic) => {
            let words = panic.downcast_ref::<&str>().copied();
            let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            let words = format!("the engine stopped: {}", words.unwrap_or("a panic without words"));
            tracing::error!("{words}");
            Finish::Failed(words)
        }
    };
    engine.abandon(&reason);
    // A model may panic again when it is dropped; its clients are told first.
    shared.end(&reason);
}

/// Submits requests; cheap to clone.
#[derive(Clone)]
pub struct LanesHandle {
    shared: Arc<Shared>,
}

impl LanesHandle {
    /// Limits of the model, needed to validate a request.
    pub fn info(&self) -> &TargetInfo {
        &self.shared.info
    }

    /// Queues a request of nobody in particular.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub fn submit(&self, request: Validated) -> Result<Reply, SubmitError> {
        self.submit_for(ClientId::default(), request)
    }

    /// Queues a request of `whom`: clients whose requests wait take turns.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub fn submit_for(&self, whom: ClientId, request: Validated) -> Result<Reply, SubmitError> {
        let (client, reply) = Client::new();
        let priority = request.get().priority;
        let mut inbox = self.shared.inbox();
        match inbox.mode {
            Mode::Open => {}
            Mode::Ended => return Err(SubmitError::Ended),
            Mode::Draining | Mode::Stopping => return Err(SubmitError::ShuttingDown),
        }
        // Time is read under the lock, so that arrival times are in order of arrival.
        let job = Job { request, client, arrived: self.shared.clock.now() };
        let full = SubmitError::QueueFull { limit: self.shared.queue_limit };
        inbox.queue.push(priority, whom, job).map_err(|_| full)?;
        self.shared.changed.notify_all();
        Ok(reply)
    }

    /// Takes no more requests; those submitted go on.
    pub fn close(&self) {
        self.shared.advance(Mode::Draining);
    }

    /// Takes no more requests and cancels those it has.
    pub fn stop(&self) {
        self.shared.advance(Mode::Stopping);
    }

    /// Whether requests are still taken.
    pub fn is_open(&self) -> bool {
        self.shared.inbox().mode == Mode::Open
    }

    /// Whether the engine's thread has ended.
    pub fn has_ended(&self) -> bool {
        self.shared.inbox().mode == Mode::Ended
    }

    /// Turns that the engine's thread has begun; while requests wait or run, a number that stands still is a thread that hangs.
    pub fn turns(&self) -> u64 {
        self.shared.turns.load(Ordering::Relaxed)
    }

    /// What rounds are priced by.
    pub fn prices(&self) -> Prices {
        self.shared.prices.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts as of now.
    pub fn stats(&self) -> LanesStats {
        let waiting = self.shared.inbox().queue.len();
        LanesStats { waiting, ..self.shared.stats().clone() }
    }
}

/// The events of one request. Dropping it cancels the request.
#[derive(Debug)]
pub struct Reply {
    events: mpsc::UnboundedReceiver<Event>,
    cancel: Arc<AtomicBool>,
}

impl Reply {
    /// The next event; `None` after the last.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// The next event, for callers with their own stream type.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.events.poll_recv(cx)
    }

    /// The next event; `None` after the last. Not to be called inside an asynchronous runtime.
    pub fn blocking_next(&mut self) -> Option<Event> {
        self.events.blocking_recv()
    }

    /// Asks for an early end; events go on up to `Finished`.
    pub fn cancel(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }

    /// A switch with which another thread can cancel.
    pub fn canceller(&self) -> Canceller {
        Canceller(self.cancel.clone())
    }
}

/// Cancels one request.
#[derive(Debug, Clone)]
pub struct Canceller(Arc<AtomicBool>);

impl Canceller {
    /// Asks for an early end.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
