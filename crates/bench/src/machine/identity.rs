//! What kind of machine it is, without its name.

use std::process::Command;

use serde::{Deserialize, Serialize};
use sysinfo::System;

/// What a receipt says of the machine; absent parts are not recorded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// Kind of processor, number of logical ones, memory.
    pub machine: Option<String>,
    /// Operating system and kernel.
    pub system: Option<String>,
    /// Compiler of the working folder.
    pub toolchain: Option<String>,
    /// Graphics processors.
    pub gpus: Vec<String>,
}

fn first_line(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok().filter(|o| o.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
}

impl Identity {
    /// Of this machine.
    pub fn read() -> Self {
        let machine = System::new().ok().and_then(|mut system| {
            system.refresh_memory();
            system.refresh_cpu_all();
            let brand = system.cpus().first()?.brand().trim().to_owned();
            let gib = system.total_memory() as f64 / f64::from(1 << 30);
            let count = system.cpus().len();
            (!brand.is_empty()).then(|| format!("{brand}, {count} logical processors, {gib:.0} GiB"))
        });
        let system = System::long_os_version();
        let kernel = System::kernel_version().map(|version| format!("kernel {version}"));
        let parts: Vec<String> = system.into_iter().chain(kernel).collect();
        Self {
            machine,
            system: (!parts.is_empty()).then(|| parts.join(", ")),
            toolchain: first_line("rustc", &["--version"]),
            gpus: super::gpu::read().0,
        }
    }
}
