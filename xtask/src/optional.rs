//! Checks that need tools which not every machine has.

use crate::shell;
use anyhow::Result;

const NEON_TARGET: &str = "aarch64-unknown-linux-gnu";
const NEON_LINKER: &str = "aarch64-linux-gnu-gcc";
const NEON_LIBRARIES: &str = "/usr/aarch64-linux-gnu";

/// Runs every fuzz target for `seconds`.
pub fn fuzz(seconds: u32) -> Result<()> {
    let missing = missing(&[
        (shell::root().join("fuzz/Cargo.toml").exists(), "fuzz/Cargo.toml"),
        (shell::succeeds("cargo", &["fuzz", "--version"]), "cargo-fuzz (cargo install cargo-fuzz)"),
        (
            shell::succeeds("cargo", &["+nightly", "--version"]),
            "a nightly compiler (rustup toolchain install nightly)",
        ),
    ]);
    if skipped("fuzz", &missing) {
        return Ok(());
    }
    let list = shell::output(&mut shell::command("cargo", &["+nightly", "fuzz", "list"]))?;
    let limit = format!("-max_total_time={seconds}");
    for target in String::from_utf8_lossy(&list).lines() {
        shell::run(&mut shell::command("cargo", &["+nightly", "fuzz", "run", target, "--", &limit]))?;
    }
    Ok(())
}

/// Runs the CPU crate's tests as an ARM program under QEMU.
pub fn neon() -> Result<()> {
    let emulators = ["qemu-aarch64", "qemu-aarch64-static"];
    let emulator = emulators.into_iter().find(|name| shell::succeeds(name, &["--version"]));
    let installed = shell::output(&mut shell::command("rustup", &["target", "list", "--installed"]));
    let target = installed.is_ok_and(|list| String::from_utf8_lossy(&list).lines().any(|t| t == NEON_TARGET));
    let missing = missing(&[
        (target, "the target (rustup target add aarch64-unknown-linux-gnu)"),
        (shell::succeeds(NEON_LINKER, &["--version"]), "a linker (apt install gcc-aarch64-linux-gnu)"),
        (emulator.is_some(), "QEMU (apt install qemu-user)"),
    ]);
    let Some(emulator) = emulator.filter(|_| missing.is_empty()) else {
        skipped("neon", &missing);
        return Ok(());
    };
    let mut test = shell::cargo(&["test", "-p", "tokenfare-cpu", "--target", NEON_TARGET]);
    test.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", NEON_LINKER);
    test.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", format!("{emulator} -L {NEON_LIBRARIES}"));
    shell::run(&mut test)
}

fn missing(needs: &[(bool, &'static str)]) -> Vec<&'static str> {
    needs.iter().filter(|need| !need.0).map(|need| need.1).collect()
}

fn skipped(name: &str, missing: &[&str]) -> bool {
    if !missing.is_empty() {
        println!("{name}: skipped, nothing was tested; missing: {}", missing.join("; "));
    }
    !missing.is_empty()
}
