//! Notices an engine that hangs.

use std::time::{Duration, Instant};

use crate::Server;

/// Most time between two looks.
const LOOK: Duration = Duration::from_secs(1);

impl Server {
    /// Watches the engine's turns for good. While requests wait or run and no turn begins for `limit`, the engine counts
    /// as hanging: requests fail, new ones are refused. When turns begin again, so does service.
    pub(crate) async fn watch_engine(&self, limit: Duration) {
        let look = LOOK.min(limit / 4).max(Duration::from_millis(1));
        let (mut turns, mut since) = (self.lanes.turns(), Instant::now());
        loop {
            tokio::time::sleep(look).await;
            let stats = self.lanes.stats();
            let now = self.lanes.turns();
            let idle = stats.running + stats.waiting == 0;
            if now != turns || idle {
                (turns, since) = (now, Instant::now());
            }
            let hangs = since.elapsed() >= limit;
            self.stalled.send_if_modified(|stalled| {
                let changed = stalled.is_some() != hangs;
                if changed && hangs {
                    tracing::error!(seconds = limit.as_secs(), "the engine makes no progress");
                } else if changed {
                    tracing::info!("the engine goes on");
                }
                *stalled = hangs.then_some(limit);
                changed
            });
        }
    }
}
