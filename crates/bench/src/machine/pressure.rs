//! Thermal pressure of macOS, as its tool tells it.

use std::process::Command;

use super::Level;

/// Speed limit in percent under which a machine is held back heavily.
const HEAVY: u32 = 80;

/// The level; none where there is no tool.
pub fn read() -> Level {
    match Command::new("pmset").args(["-g", "therm"]).output() {
        Ok(output) if output.status.success() => parse(&String::from_utf8_lossy(&output.stdout)),
        _ => Level::NotRecorded,
    }
}

fn parse(text: &str) -> Level {
    let limit = text
        .lines()
        .filter_map(|line| line.split_once('='))
        .find(|(name, _)| name.trim() == "CPU_Speed_Limit")
        .and_then(|(_, value)| value.trim().parse::<u32>().ok());
    match limit {
        Some(limit) if limit < HEAVY => Level::Heavy,
        Some(limit) if limit < 100 => Level::Moderate,
        Some(_) => Level::Nominal,
        None if text.contains("No thermal warning level has been recorded") => Level::Nominal,
        None => Level::NotRecorded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("Note: No thermal warning level has been recorded\n", Level::Nominal)]
    #[case("\tCPU_Scheduler_Limit \t= 100\n\tCPU_Speed_Limit \t= 100\n", Level::Nominal)]
    #[case("\tCPU_Speed_Limit \t= 92\n", Level::Moderate)]
    #[case("\tCPU_Speed_Limit \t= 50\n", Level::Heavy)]
    #[case("", Level::NotRecorded)]
    fn speed_limits_are_judged(#[case] text: &str, #[case] expected: Level) {
        assert_eq!(parse(text), expected);
    }
}
