//! The round profile: where the time of each round and each reply went, as log events.

use std::time::Duration;

use tokenfare_lanes::{Observer, ReplyStats, RoundChoice, RoundTimes};

/// Target of the profile's events.
pub const TARGET: &str = "round_profile";

/// Reports every round at its end and every reply when it leaves its lane. Fields are milliseconds.
#[derive(Default)]
pub struct Profile {
    rows: usize,
}

/// Milliseconds, to the microsecond.
fn ms(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}

/// One event with the parts of `times`; the fields before them are the caller's.
macro_rules! report {
    ($message:literal, $times:expr, $($field:ident = $value:expr),+) => {{
        let times: &RoundTimes = $times;
        tracing::info!(
            target: TARGET,
            $($field = $value,)+
            ms = ms(times.total()),
            plan = ms(times.plan),
            launch = ms(times.launch),
            read_back = ms(times.read_back),
            draw = ms(times.draw),
            conclude = ms(times.conclude),
            ingest = ms(times.ingest),
            pass = ms(times.pass),
            host = ms(times.host),
            $message
        );
    }};
}

impl Observer for Profile {
    fn choose(&mut self, choice: &RoundChoice) {
        self.rows = choice.rows;
    }

    fn times(&mut self, round: u64, requests: &[u64], times: &RoundTimes) {
        report!("dsv41 round", times, round = round, streams = requests.len(), rows = self.rows);
    }

    fn finish(&mut self, request: u64, stats: &ReplyStats) {
        report!("dsv41 reply", &stats.round_times, request = request, rounds = stats.rounds);
    }
}
