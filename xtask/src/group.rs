//! Named groups of tests.

use crate::suites;
use anyhow::Result;

/// A group of tests by what they are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Group {
    /// Drafts: all of pricing, and tests of lanes and the model named after drafts, depth, copies or acceptance.
    Draft,
    /// Devices: all tests of the device trait, its reference and the CPU device.
    Device,
    /// The registry of settings, its refusals and its page.
    Environment,
    /// What holds when no setting is set.
    EnvDefaults,
    /// What every kernel promises through the device trait, conformance with the reference and equal bits included:
    /// the integration tests of the device crates.
    KernelContract,
}

/// One call of `cargo test`: packages, their targets (none: all), and names of which a test's contains one (none: all).
struct Selection {
    packages: &'static [&'static str],
    targets: &'static [&'static str],
    names: &'static [&'static str],
}

impl Group {
    fn selections(self) -> &'static [Selection] {
        const ALL: &[&str] = &[];
        match self {
            Self::Draft => &[
                Selection { packages: &["tokenfare-pricing"], targets: ALL, names: ALL },
                Selection {
                    packages: &["tokenfare-lanes", "tokenfare-dsv41"],
                    targets: ALL,
                    names: &["draft", "depth", "copies", "copied", "accept"],
                },
            ],
            Self::Device => {
                &[Selection { packages: &["tokenfare-device", "tokenfare-cpu"], targets: ALL, names: ALL }]
            }
            Self::Environment => &[Selection { packages: &["tokenfare-settings"], targets: ALL, names: ALL }],
            Self::EnvDefaults => &[Selection {
                packages: &["tokenfare-settings", "tokenfare"],
                targets: ALL,
                names: &["env_defaults"],
            }],
            Self::KernelContract => &[Selection {
                packages: &["tokenfare-device", "tokenfare-cpu"],
                targets: &["--test", "*"],
                names: ALL,
            }],
        }
    }
}

/// Runs a group; a selection that matches no test is an error.
pub fn run(group: Group) -> Result<()> {
    let mut all = Vec::new();
    for selection in group.selections() {
        let packages = selection.packages.iter().flat_map(|package| ["-p", package]);
        let args: Vec<&str> = packages
            .chain(selection.targets.iter().copied())
            .chain(["--"])
            .chain(selection.names.iter().copied())
            .collect();
        all.extend(suites::test(&args, &[])?);
    }
    suites::print(&all);
    Ok(())
}

/// Runs every test named after exactness, over the widest matrix if `full`.
pub fn exact(full: bool) -> Result<()> {
    let environment: &[(&str, &str)] = if full { &[("TOKENFARE_EXACT", "full")] } else { &[] };
    suites::print(&suites::test(&["--workspace", "--", "exact"], environment)?);
    Ok(())
}
