//! What the machine did while something was measured: heat, clocks, load, and who else used it.

mod gpu;
mod identity;
mod linux;
mod pressure;
mod processes;

use serde::{Deserialize, Serialize};

pub use identity::Identity;
pub use processes::{Busiest, Processes};

/// How far heat or power holds the machine back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// The platform does not tell.
    #[default]
    NotRecorded,
    /// Not at all.
    Nominal,
    /// A run is kept and marked.
    Moderate,
    /// A run is discarded.
    Heavy,
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotRecorded => "not recorded",
            Self::Nominal => "nominal",
            Self::Moderate => "moderate",
            Self::Heavy => "heavy",
        })
    }
}

/// One thermal zone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Zone {
    /// Its name.
    pub name: String,
    /// Degrees Celsius.
    pub celsius: f64,
    /// What its trip points say.
    pub level: Level,
}

/// A sample of the machine's state. What the platform does not tell is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The worst of what is told.
    pub level: Level,
    /// Load averages over 1, 5 and 15 minutes.
    pub load_average: Option<[f64; 3]>,
    /// Mean clock of the processors, in MHz.
    pub mhz: Option<f64>,
    /// How often processors were throttled since the machine's start.
    pub throttled: Option<u64>,
    /// Thermal zones.
    pub zones: Vec<Zone>,
    /// Clocks and throttle reasons of graphics processors, one line each.
    pub gpus: Vec<String>,
    /// The busiest process that has nothing to do with the measurement, since the sample before.
    pub busiest: Option<Busiest>,
}

impl State {
    /// What the platform tells now.
    pub fn now() -> Self {
        let zones = linux::zones("/sys/class/thermal".as_ref());
        let (gpus, gpu_level) = gpu::read();
        let level = zones.iter().map(|z| z.level).chain([gpu_level, pressure::read()]).max();
        Self {
            level: level.unwrap_or_default(),
            load_average: linux::load_average("/proc/loadavg".as_ref()),
            mhz: linux::mean_mhz("/sys/devices/system/cpu".as_ref()),
            throttled: linux::throttle_count("/sys/devices/system/cpu".as_ref()),
            zones,
            gpus,
            busiest: None,
        }
    }
}

/// The level of a run between two samples: the worse of both, and heavy where processors were throttled in between.
pub fn between(start: &State, end: &State) -> Level {
    match (start.throttled, end.throttled) {
        (Some(before), Some(after)) if after > before => Level::Heavy,
        (Some(_), Some(_)) => start.level.max(end.level).max(Level::Nominal),
        _ => start.level.max(end.level),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case((Level::NotRecorded, None), (Level::NotRecorded, None), Level::NotRecorded)]
    #[case((Level::Nominal, None), (Level::Moderate, None), Level::Moderate)]
    #[case((Level::Heavy, None), (Level::Nominal, None), Level::Heavy)]
    #[case((Level::NotRecorded, Some(3)), (Level::NotRecorded, Some(3)), Level::Nominal)]
    #[case((Level::Nominal, Some(3)), (Level::Nominal, Some(4)), Level::Heavy)]
    fn a_run_is_as_good_as_its_worse_end(
        #[case] start: (Level, Option<u64>),
        #[case] end: (Level, Option<u64>),
        #[case] expected: Level,
    ) {
        let state = |(level, throttled)| State { level, throttled, ..State::default() };
        assert_eq!(between(&state(start), &state(end)), expected);
    }
}
