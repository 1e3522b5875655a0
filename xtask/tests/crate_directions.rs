//! Which crate may depend on which: the directions of the design.

use serde_json::Value;
use std::process::Command;

/// Crates that a crate may use, beside `settings`, which every crate may.
fn allowed(krate: &str) -> Option<&'static [&'static str]> {
    Some(match krate {
        "tokenfare-pricing" | "tokenfare-device" | "tokenfare-bench" | "tokenfare-settings"
        | "tokenfare-hub" | "xtask" => &[],
        "tokenfare-cpu" | "tokenfare-gpu" | "tokenfare-cuda" => &["tokenfare-device"],
        "tokenfare-dsv41" => &["tokenfare-device", "tokenfare-lanes", "tokenfare-pricing"],
        "tokenfare-grammar" => &["tokenfare-lanes"],
        "tokenfare-lanes" => &["tokenfare-pricing"],
        "tokenfare-server" => &["tokenfare-lanes"],
        "tokenfare-testkit" => &["tokenfare-lanes", "tokenfare-pricing"],
        "tokenfare" => &[
            "tokenfare-bench",
            "tokenfare-cpu",
            "tokenfare-cuda",
            "tokenfare-device",
            "tokenfare-dsv41",
            "tokenfare-gpu",
            "tokenfare-grammar",
            "tokenfare-hub",
            "tokenfare-lanes",
            "tokenfare-pricing",
            "tokenfare-server",
        ],
        _ => return None,
    })
}

const FOR_TESTS: [&str; 3] = ["tokenfare-cpu", "tokenfare-device", "tokenfare-testkit"];

fn packages() -> Vec<Value> {
    let args = ["metadata", "--no-deps", "--format-version", "1"];
    let output = Command::new(env!("CARGO")).args(args).output().expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    metadata["packages"].as_array().expect("a list of packages").clone()
}

#[test]
fn crates_depend_in_one_direction() {
    let packages = packages();
    let name = |value: &Value| value["name"].as_str().expect("a name").to_string();
    let ours: Vec<String> = packages.iter().map(name).collect();
    assert!(ours.len() >= 9, "{ours:?}");
    let mut edges = 0;
    for package in &packages {
        let from = name(package);
        let allowed = allowed(&from)
            .unwrap_or_else(|| panic!("{from} has no directions: add it here and to the design"));
        for dependency in package["dependencies"].as_array().expect("a list of dependencies") {
            let to = name(dependency);
            if !ours.contains(&to) {
                continue;
            }
            edges += 1;
            // A crate may turn on a feature of its own for its tests.
            let for_tests = dependency["kind"] == "dev" && (FOR_TESTS.contains(&to.as_str()) || to == from);
            let settings = to == "tokenfare-settings" && from != to;
            assert!(
                allowed.contains(&to.as_str()) || for_tests || settings,
                "{from} must not depend on {to}"
            );
        }
    }
    assert!(edges >= 10, "only {edges} edges were seen");
}
