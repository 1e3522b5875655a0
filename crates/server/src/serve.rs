//! The server's state and life.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::StatusCode;
use tokenfare_lanes::LanesHandle;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::metrics::Metrics;
use crate::pricing::Costs;
use crate::responses::Store;
use crate::router::router;
use crate::{ApiError, ApiKeys, Defaults, Dialect, connections};

pub(crate) use crate::limits::Body;

/// How often a draining server looks whether it is done.
const POLL: Duration = Duration::from_millis(20);
/// Time for the last bytes of replies after the drain.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How the API behaves.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The model's name in replies and in /v1/models.
    pub name: String,
    /// What a request gets where it says nothing.
    pub defaults: Defaults,
    /// Keys that open the API.
    pub keys: ApiKeys,
    /// Interval of comment lines on a silent stream; `None`: no such lines.
    pub keepalive: Option<Duration>,
    /// Grace for running replies at shutdown.
    pub drain: Duration,
    /// Time without progress after which the engine counts as hanging; `None`: never.
    pub stall: Option<Duration>,
    /// What /v1/pricing tells beside the engine's own numbers.
    pub costs: Costs,
    /// Counts and times; its observer watches the engine.
    pub metrics: Metrics,
}

/// What all handlers share.
pub struct Server {
    pub(crate) lanes: LanesHandle,
    pub(crate) dialect: Box<dyn Dialect>,
    pub(crate) name: String,
    pub(crate) defaults: Defaults,
    pub(crate) keys: ApiKeys,
    pub(crate) keepalive: Option<Duration>,
    pub(crate) draining: AtomicBool,
    /// Requests admitted whose answer has not begun.
    pub(crate) admitted: AtomicUsize,
    /// For how long the engine has not moved, once that is too long.
    pub(crate) stalled: watch::Sender<Option<Duration>>,
    pub(crate) costs: Costs,
    pub(crate) metrics: Metrics,
    /// Replies that later requests may refer to.
    pub(crate) responses: Store,
    pub(crate) created: u64,
    drain: Duration,
    stall: Option<Duration>,
}

pub(crate) type Shared = Arc<Server>;

/// Runs work that may take seconds, such as encoding megabytes of text, where it holds up no other request.
pub(crate) async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|e| Err(ApiError::status(StatusCode::INTERNAL_SERVER_ERROR, e.to_string())))
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// A reply's id, which begins with `prefix`, and its creation time.
pub(crate) fn stamp(prefix: &str) -> (String, u64) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let created = seconds();
    (format!("{prefix}{created:x}{:06x}", NEXT.fetch_add(1, Ordering::Relaxed)), created)
}

impl Server {
    /// A server of one model.
    pub fn new(lanes: LanesHandle, dialect: Box<dyn Dialect>, options: ServerOptions) -> Arc<Self> {
        options.metrics.watch_lanes(&lanes, &options.costs);
        Arc::new(Self {
            lanes,
            dialect,
            name: options.name,
            defaults: options.defaults,
            keys: options.keys,
            keepalive: options.keepalive,
            draining: AtomicBool::new(false),
            admitted: AtomicUsize::new(0),
            stalled: watch::Sender::new(None),
            costs: options.costs,
            metrics: options.metrics,
            responses: Store::default(),
            created: seconds(),
            drain: options.drain,
            stall: options.stall,
        })
    }

    /// Waits until no lane works, nothing waits for one and no request is on its way to them.
    async fn idle(&self) {
        loop {
            // First those on their way: they may be in a lane by the second look.
            let admitted = self.admitted.load(Ordering::SeqCst);
            let stats = self.lanes.stats();
            if admitted + stats.waiting + stats.running == 0 {
                return;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Serves until `stop` resolves. From then on it refuses new work with 503, and ends when running replies have
    /// ended, the drain time is over or `hurry` resolves; replies that still run then end with an error.
    pub async fn run(
        self: Arc<Self>,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send + 'static,
        hurry: impl Future<Output = ()> + Send + 'static,
    ) {
        let (closing, closed) = tokio::sync::oneshot::channel::<()>();
        let server = self.clone();
        let drained = async move {
            stop.await;
            server.draining.store(true, Ordering::SeqCst);
            tokio::select! {
                () = server.idle() => {}
                () = tokio::time::sleep(server.drain) => {}
                () = hurry => {}
            }
            // What still runs ends with an error that its client sees.
            server.lanes.stop();
            let _ = closing.send(());
        };
        let serving = connections::serve(listener, router(self.clone()), drained);
        let cut = async {
            let _ = closed.await;
            tokio::time::sleep(LAST_WORDS).await;
        };
        let watching = async {
            match self.stall {
                Some(limit) => self.watch_engine(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = serving => {}
            () = cut => {}
            () = watching => {}
        }
    }
}
