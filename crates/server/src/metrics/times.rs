//! Times, noted on the engine's thread as they happen.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::AtomicU64;
use tokenfare_lanes::{FirstToken, Observer, RoundTimes, WindowCommit};

type Seconds = Counter<f64, AtomicU64>;
type Part = [(&'static str, &'static str); 1];

/// The histograms.
#[derive(Clone)]
pub(super) struct Times {
    queue: Histogram,
    prefill: Histogram,
    first_token: Histogram,
    inter_token: Histogram,
    round: Histogram,
    parts: Family<Part, Seconds>,
}

/// From half a millisecond to about a minute.
fn fine() -> Histogram {
    Histogram::new(exponential_buckets(0.0005, 2.0, 18))
}

/// From four milliseconds to about half an hour.
fn coarse() -> Histogram {
    Histogram::new(exponential_buckets(0.004, 2.5, 15))
}

impl Times {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let times = Self {
            queue: coarse(),
            prefill: coarse(),
            first_token: coarse(),
            inter_token: fine(),
            round: fine(),
            parts: Family::default(),
        };
        let mut add = |name: &str, help: &str, metric: &Histogram| {
            registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
        };
        add("queue", "Time waiting for a lane", &times.queue);
        add("prefill", "Time from the lane to the first token", &times.prefill);
        add("time_to_first_token", "Time from the request to its first token", &times.first_token);
        let help = "Time between tokens of a reply; those of one round share their time evenly";
        add("inter_token", help, &times.inter_token);
        add("round", "Time of a round", &times.round);
        let help = "Time of rounds by their parts";
        registry.register_with_unit("round_part", help, Unit::Seconds, times.parts.clone());
        times
    }

    fn part(&self, name: &'static str, time: Duration) {
        self.parts.get_or_create(&[("part", name)]).inc_by(time.as_secs_f64());
    }
}

/// Watches rounds for one engine.
pub(super) struct RoundWatch {
    times: Times,
    /// When each lane's reply last had tokens.
    last: BTreeMap<usize, Duration>,
}

impl RoundWatch {
    pub(super) fn new(times: Times) -> Self {
        Self { times, last: BTreeMap::new() }
    }
}

impl Observer for RoundWatch {
    fn first_token(&mut self, first: &FirstToken) {
        self.times.queue.observe(first.queue.as_secs_f64());
        self.times.prefill.observe(first.prefill.as_secs_f64());
        self.times.first_token.observe((first.queue + first.prefill).as_secs_f64());
        self.last.insert(first.slot, first.at);
    }

    fn commit(&mut self, commit: &WindowCommit) {
        let Some(last) = self.last.insert(commit.slot, commit.at) else { return };
        let gap = commit.at.saturating_sub(last).as_secs_f64();
        for _ in 0..commit.kept {
            self.times.inter_token.observe(gap / commit.kept as f64);
        }
    }

    fn times(&mut self, _: u64, _: &[u64], times: &RoundTimes) {
        self.times.round.observe(times.total().as_secs_f64());
        times.parts().into_iter().for_each(|(name, time)| self.times.part(name, time));
    }
}
