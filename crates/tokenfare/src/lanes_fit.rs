//! How many lanes fit the memory.

use std::str::FromStr;

use anyhow::{Context, Result};
use serde_json::json;
use sysinfo::System;

use crate::lines::Line;

/// Most lanes: as many as a verify window has rows.
const MOST: usize = 64;
/// Most lanes that are taken without being asked for.
const MOST_AUTO: usize = 16;
/// Part of the free memory that lanes may take.
const SHARE: f64 = 0.8;

/// Replies decoded at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parallel {
    /// As many as fit the memory, at most 16.
    Auto,
    /// This many.
    Lanes(usize),
}

impl FromStr for Parallel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let lanes = text.parse().ok().filter(|n| (1..=MOST).contains(n)).map(Self::Lanes);
        lanes.ok_or_else(|| format!("expected auto or a number from 1 to {MOST}"))
    }
}

/// What decided on the number of lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LanesFit {
    /// Lanes.
    pub lanes: usize,
    /// Bytes of one.
    pub lane_bytes: u64,
    /// Bytes that were free for them; `None` when nobody asked.
    pub free_bytes: Option<u64>,
}

impl LanesFit {
    /// The line of a number that the memory decided on.
    pub fn line(&self) -> Option<Line> {
        let free = self.free_bytes?;
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let text =
            format!("lanes: {} of {:.1} MiB, {:.0} MiB free", self.lanes, mib(self.lane_bytes), mib(free));
        let facts = json!({"lanes": self.lanes, "lane_bytes": self.lane_bytes, "free_bytes": free});
        Some(Line::command(&text).with(facts))
    }
}

/// Bytes that this process may still take: what the machine has free, or its control group if that is less.
fn free_bytes() -> Result<u64> {
    let mut system = System::new().context("--parallel auto: reading the free memory")?;
    system.refresh_memory();
    let machine = system.available_memory();
    Ok(system.cgroup_limits().map_or(machine, |group| machine.min(group.free_memory)))
}

/// The lanes that fit `free` bytes, at least one.
fn fit(free: u64, reserved: u64, lane_bytes: u64) -> usize {
    let room = free.saturating_sub(reserved) as f64 * SHARE;
    ((room / lane_bytes.max(1) as f64) as usize).clamp(1, MOST_AUTO)
}

impl Parallel {
    /// The number of lanes of `lane_bytes` each, while `reserved` bytes of the free ones are spoken for.
    ///
    /// # Errors
    /// The free memory cannot be told.
    pub fn choose(self, lane_bytes: u64, reserved: u64) -> Result<LanesFit> {
        let (lanes, free_bytes) = match self {
            Self::Lanes(lanes) => (lanes, None),
            Self::Auto => {
                let free = free_bytes()?;
                (fit(free, reserved, lane_bytes), Some(free))
            }
        };
        Ok(LanesFit { lanes, lane_bytes, free_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::LogFormat;

    #[test]
    fn lanes_take_four_fifths_of_what_is_free() {
        assert_eq!(fit(1000, 0, 100), 8);
        assert_eq!(fit(1000, 500, 100), 4);
        assert_eq!((fit(1000, 2000, 100), fit(10, 0, 100)), (1, 1));
        assert_eq!((fit(u64::MAX, 0, 1), fit(1000, 0, 0)), (MOST_AUTO, MOST_AUTO));
    }

    #[test]
    fn words_and_numbers() {
        assert_eq!("auto".parse::<Parallel>(), Ok(Parallel::Auto));
        assert_eq!("64".parse::<Parallel>(), Ok(Parallel::Lanes(64)));
        for bad in ["0", "65", "Auto", "-1", ""] {
            assert_eq!(bad.parse::<Parallel>(), Err("expected auto or a number from 1 to 64".to_owned()));
        }
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(free_bytes().unwrap() > 0);
    }

    #[test]
    fn only_what_the_memory_decided_on_is_told() {
        let fit = LanesFit { lanes: 3, lane_bytes: 3 << 19, free_bytes: Some(1 << 30) };
        let text = fit.line().map(|line| line.render(LogFormat::Text));
        assert_eq!(text.as_deref(), Some("info: dsv41 lanes: 3 of 1.5 MiB, 1024 MiB free"));
        assert_eq!(LanesFit { free_bytes: None, ..fit }.line(), None);
    }
}
