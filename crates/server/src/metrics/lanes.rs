//! The engine's counts, read when they are asked for.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use tokenfare_lanes::{Drafts, LanesHandle, LanesStats};

use crate::pricing::Costs;

/// The counts of one engine, as far as it keeps them.
pub(super) struct LanesCounts {
    lanes: LanesHandle,
    drafts: Drafts,
    prompt_cache: bool,
}

impl fmt::Debug for LanesCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LanesCounts")
    }
}

/// Writes one metric after another.
struct Writer<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl Writer<'_> {
    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let metric = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(metric)
    }

    fn gauge(&mut self, name: &str, help: &str, unit: Option<&Unit>, value: usize) -> fmt::Result {
        let metric = self.encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        ConstGauge::new(value as i64).encode(metric)
    }

    /// One counter a label value.
    fn counters(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        values: impl IntoIterator<Item = (String, u64)>,
    ) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        values.into_iter().try_for_each(|(value, count)| one(&mut family, &[(label, value)], count))
    }
}

fn one(family: &mut MetricEncoder<'_>, labels: &impl EncodeLabelSet, count: u64) -> fmt::Result {
    ConstCounter::new(count).encode(family.encode_family(labels)?)
}

impl LanesCounts {
    pub(super) fn new(lanes: LanesHandle, costs: &Costs) -> Self {
        Self { lanes, drafts: costs.drafts, prompt_cache: costs.prompt_cache_bytes > 0 }
    }

    fn requests(out: &mut Writer<'_>, s: &LanesStats) -> fmt::Result {
        out.gauge("requests_waiting", "Requests waiting for a lane", None, s.waiting)?;
        out.gauge("requests_running", "Requests in lanes", None, s.running)?;
        let reasons = [
            ("stop", s.finished - s.at_length),
            ("length", s.at_length),
            ("cancelled", s.cancelled),
            ("failed", s.failed),
        ];
        let reasons = reasons.map(|(reason, count)| (reason.to_owned(), count));
        out.counters("requests_finished", "Requests by how they ended", "reason", reasons)
    }

    fn tokens(out: &mut Writer<'_>, s: &LanesStats) -> fmt::Result {
        out.counter("prompt_tokens", "Prompt tokens of requests in lanes", s.prompt_tokens)?;
        out.counter("completion_tokens", "Tokens generated", s.completion_tokens)?;
        out.counter("launches", "Verify launches", s.launches)?;
        out.counter("rounds", "Rounds, counted once a stream", s.rounds)
    }

    fn cache(out: &mut Writer<'_>, s: &LanesStats) -> fmt::Result {
        out.counter("cached_tokens", "Prompt tokens resumed from kept states", s.cached_tokens)?;
        out.counter("prompt_cache_hits", "Prompts that resumed from a kept state", s.cache_hits)?;
        out.counter("prompt_cache_misses", "Prompts that found no kept state", s.cache_misses)?;
        out.gauge("prompt_cache_entries", "Kept prompt states", None, s.cache_entries)?;
        out.gauge("prompt_cache", "Size of kept prompt states", Some(&Unit::Bytes), s.cache_bytes)
    }

    fn drafts(out: &mut Writer<'_>, s: &LanesStats) -> fmt::Result {
        let by_source =
            |all: u64, copied: u64| [("drafter".to_owned(), all - copied), ("copy".to_owned(), copied)];
        let drafted = by_source(s.drafted, s.copied);
        out.counters("drafted_tokens", "Drafts verified", "source", drafted)?;
        let accepted = by_source(s.accepted, s.copied_accepted);
        out.counters("accepted_tokens", "Drafts kept", "source", accepted)?;
        out.counter("zero_depth_rounds", "Rounds of a stream that verified no draft", s.zero_depth)?;
        let positions = |count: fn(&tokenfare_lanes::PositionCount) -> u64| {
            s.positions.iter().enumerate().map(move |(j, p)| ((j + 1).to_string(), count(p)))
        };
        let help = "Drafts of the drafter with all drafts before them kept, by position from 1";
        out.counters("position_drafted_tokens", help, "position", positions(|p| p.reached))?;
        let help = "Drafts of the drafter that were kept, by position from 1";
        out.counters("position_accepted_tokens", help, "position", positions(|p| p.kept))
    }
}

impl Collector for LanesCounts {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (mut out, stats) = (Writer { encoder }, self.lanes.stats());
        Self::requests(&mut out, &stats)?;
        Self::tokens(&mut out, &stats)?;
        if self.prompt_cache {
            Self::cache(&mut out, &stats)?;
        }
        if self.drafts == Drafts::On {
            Self::drafts(&mut out, &stats)?;
        }
        Ok(())
    }
}
