//! Clocks and throttle reasons of NVIDIA processors, as their tool tells them.

use std::process::Command;

use super::Level;

/// Thermal slowdown by software or hardware, hardware slowdown, and the power brake.
const SLOWED: u64 = 0x8 | 0x20 | 0x40 | 0x80;
/// The power limit set in software.
const POWER_LIMIT: u64 = 0x4;

/// One line a processor, and the worst level; none where there is no tool.
pub fn read() -> (Vec<String>, Level) {
    let query = "--query-gpu=name,clocks.sm,temperature.gpu,clocks_throttle_reasons.active";
    let output = Command::new("nvidia-smi").args([query, "--format=csv,noheader"]).output();
    match output {
        Ok(output) if output.status.success() => parse(&String::from_utf8_lossy(&output.stdout)),
        _ => (Vec::new(), Level::NotRecorded),
    }
}

fn parse(text: &str) -> (Vec<String>, Level) {
    let lines: Vec<String> = text.lines().map(|l| l.trim().to_owned()).filter(|l| !l.is_empty()).collect();
    let level = lines.iter().map(|line| level(line)).max().unwrap_or_default();
    (lines, level)
}

fn level(line: &str) -> Level {
    let reasons = line.rsplit(", ").next().and_then(|text| text.strip_prefix("0x"));
    match reasons.and_then(|hex| u64::from_str_radix(hex, 16).ok()) {
        None => Level::NotRecorded,
        Some(reasons) if reasons & SLOWED != 0 => Level::Heavy,
        Some(reasons) if reasons & POWER_LIMIT != 0 => Level::Moderate,
        Some(_) => Level::Nominal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("", Level::NotRecorded)]
    #[case("H200, 1980 MHz, 40, 0x0000000000000001\n", Level::Nominal)]
    #[case("H200, 1980 MHz, 40, 0x0000000000000004\n", Level::Moderate)]
    #[case("H200, 900 MHz, 90, 0x0000000000000060\n", Level::Heavy)]
    #[case("H200, 900 MHz, 40, 0x1\nH200, 900 MHz, 90, 0x8\n", Level::Heavy)]
    #[case("H200, 900 MHz, 40, [N/A]\n", Level::NotRecorded)]
    fn throttle_reasons_are_judged(#[case] text: &str, #[case] expected: Level) {
        let (lines, level) = parse(text);
        assert_eq!((lines.len(), level), (text.lines().count(), expected));
    }
}
