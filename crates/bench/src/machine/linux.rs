//! What Linux tells in files.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Level, Zone};

fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn number<T: std::str::FromStr>(path: impl AsRef<Path>) -> Option<T> {
    read(path)?.parse().ok()
}

/// Folders in `root` whose names are `prefix` and a number, in the order of the numbers.
fn numbered(root: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = entries
        .filter_map(|e| Some((e.file_name().to_str()?.strip_prefix(prefix)?.parse().ok()?, e.path())))
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

fn zone(folder: &Path) -> Option<Zone> {
    let celsius = number::<f64>(folder.join("temp"))? / 1e3;
    let mut level = Level::Nominal;
    for trip in 0.. {
        let Some(kind) = read(folder.join(format!("trip_point_{trip}_type"))) else { break };
        let at = number::<f64>(folder.join(format!("trip_point_{trip}_temp"))).filter(|at| *at > 0.0);
        if at.is_some_and(|at| celsius >= at / 1e3) {
            level = level.max(match kind.as_str() {
                "hot" | "critical" => Level::Heavy,
                "passive" => Level::Moderate,
                _ => Level::Nominal,
            });
        }
    }
    Some(Zone { name: read(folder.join("type")).unwrap_or_default(), celsius, level })
}

/// Thermal zones that can be read.
pub fn zones(root: &Path) -> Vec<Zone> {
    numbered(root, "thermal_zone").iter().filter_map(|folder| zone(folder)).collect()
}

/// Mean current clock of the processors, in MHz.
pub fn mean_mhz(root: &Path) -> Option<f64> {
    let clocks: Vec<f64> = numbered(root, "cpu")
        .iter()
        .filter_map(|cpu| number::<f64>(cpu.join("cpufreq/scaling_cur_freq")))
        .collect();
    (!clocks.is_empty()).then(|| clocks.iter().sum::<f64>() / clocks.len() as f64 / 1e3)
}

/// How often cores and packages were throttled, summed over processors.
pub fn throttle_count(root: &Path) -> Option<u64> {
    let counts: Vec<u64> = numbered(root, "cpu")
        .iter()
        .flat_map(|cpu| {
            ["core", "package"].map(|what| cpu.join(format!("thermal_throttle/{what}_throttle_count")))
        })
        .filter_map(number)
        .collect();
    (!counts.is_empty()).then(|| counts.iter().sum())
}

/// Load averages over 1, 5 and 15 minutes.
pub fn load_average(file: &Path) -> Option<[f64; 3]> {
    let text = read(file)?;
    let mut numbers = text.split(' ').map_while(|word| word.parse().ok());
    Some([numbers.next()?, numbers.next()?, numbers.next()?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
    }

    #[rstest]
    #[case("40000", Level::Nominal)]
    #[case("80000", Level::Moderate)]
    #[case("99500", Level::Heavy)]
    fn zones_are_judged_by_their_trip_points(#[case] temp: &str, #[case] level: Level) {
        let root = tempfile::tempdir().unwrap();
        write(
            root.path(),
            &[
                ("thermal_zone0/type", "x86_pkg_temp"),
                ("thermal_zone0/temp", temp),
                ("thermal_zone0/trip_point_0_type", "passive"),
                ("thermal_zone0/trip_point_0_temp", "80000"),
                ("thermal_zone0/trip_point_1_type", "critical"),
                ("thermal_zone0/trip_point_1_temp", "99000"),
                ("thermal_zone0/trip_point_2_type", "critical"),
                ("thermal_zone0/trip_point_2_temp", "-274000"),
                ("thermal_zone1/type", "unreadable"),
            ],
        );
        let celsius = temp.parse::<f64>().unwrap() / 1e3;
        assert_eq!(zones(root.path()), [Zone { name: "x86_pkg_temp".into(), celsius, level }]);
    }

    #[test]
    fn clocks_are_averaged_and_throttles_summed() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!((mean_mhz(root.path()), throttle_count(root.path())), (None, None));
        write(
            root.path(),
            &[
                ("cpu0/cpufreq/scaling_cur_freq", "3000000"),
                ("cpu1/cpufreq/scaling_cur_freq", "2000000"),
                ("cpufreq/x", "1"),
                ("cpu0/thermal_throttle/core_throttle_count", "2"),
                ("cpu1/thermal_throttle/package_throttle_count", "5"),
            ],
        );
        assert_eq!((mean_mhz(root.path()), throttle_count(root.path())), (Some(2500.0), Some(7)));
    }

    #[test]
    fn load_averages_are_the_first_three_numbers() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), &[("loadavg", "0.17 1.05 1.61 2/345 6789"), ("other", "x")]);
        assert_eq!(load_average(&root.path().join("loadavg")), Some([0.17, 1.05, 1.61]));
        assert_eq!(load_average(&root.path().join("other")), None);
    }
}
