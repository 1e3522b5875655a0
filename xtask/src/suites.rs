//! Runs `cargo test`, shows its output, and reads from it what each suite did.

use crate::shell;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::process::Command;

/// One test binary, or the examples in one crate's documentation.
#[derive(Debug, Clone, PartialEq)]
pub struct Suite {
    /// Its source file or crate.
    pub name: String,
    /// Tests that passed.
    pub passed: usize,
    /// Tests that failed.
    pub failed: usize,
    /// Seconds it ran, as the harness reports them.
    pub time: String,
}

/// Collects suites from the lines of `cargo test`.
#[derive(Default)]
struct Reader {
    current: String,
    suites: Vec<Suite>,
}

impl Reader {
    fn line(&mut self, line: &str) {
        let text = line.trim();
        if let Some(rest) = text.strip_prefix("Running ") {
            self.current = suite_name(rest);
        } else if let Some(rest) = text.strip_prefix("Doc-tests ") {
            self.current = format!("{rest} (documentation)");
        } else if let Some(rest) = text.strip_prefix("test result: ") {
            let count = |word: &str| {
                let part = rest.split([';', '.']).find_map(|part| part.trim().strip_suffix(word));
                part.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
            };
            let time = rest.rsplit("finished in ").next().unwrap_or_default().trim();
            let suite = Suite {
                name: self.current.clone(),
                passed: count("passed"),
                failed: count("failed"),
                time: time.into(),
            };
            self.suites.push(suite);
        }
    }
}

/// `unittests src/lib.rs (target/debug/deps/name-0123456789abcdef)` as `name src/lib.rs`.
fn suite_name(running: &str) -> String {
    let Some((file, binary)) = running.split_once(" (") else { return running.into() };
    let file = file.trim_start_matches("unittests ");
    let stem = binary.trim_end_matches(')').rsplit(['/', '\\']).next().unwrap_or_default();
    let stem = stem.rsplit_once('-').map_or(stem, |split| split.0);
    format!("{stem} {file}")
}

/// Runs `cargo test` with `args`; an error when a test fails or when not one ran.
pub fn test(args: &[&str], environment: &[(&str, &str)]) -> Result<Vec<Suite>> {
    let mut command = shell::cargo(&[&["test"], args].concat());
    command.envs(environment.iter().copied());
    let words = shell::words(&command);
    eprintln!("$ {words}");
    let (suites, success) = stream(command).with_context(|| format!("cannot run `{words}`"))?;
    if !success {
        bail!("`{words}` failed");
    }
    if suites.iter().all(|s| s.passed == 0) {
        bail!("`{words}` ran no test");
    }
    Ok(suites)
}

fn stream(mut command: Command) -> Result<(Vec<Suite>, bool)> {
    let (lines, writer) = std::io::pipe()?;
    let mut child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // The command holds ends of the pipe that would keep it open.
    drop(command);
    let mut reader = Reader::default();
    for line in BufReader::new(lines).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        reader.line(&line);
    }
    Ok((reader.suites, child.wait()?.success()))
}

/// Prints one line a suite that ran tests, and a total.
pub fn print(suites: &[Suite]) {
    println!("\nsuites:");
    for suite in suites.iter().filter(|s| s.passed + s.failed > 0) {
        println!("  {:>5} passed {:>3} failed {:>9}  {}", suite.passed, suite.failed, suite.time, suite.name);
    }
    println!("  {:>5} passed in all", suites.iter().map(|s| s.passed).sum::<usize>());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_read_from_the_output_of_cargo() {
        let mut reader = Reader::default();
        let lines = [
            "     Running unittests src/lib.rs (target/debug/deps/tokenfare_pricing-0b7e02d5b1cbd8b1)",
            "test result: ok. 45 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.02s",
            "     Running tests/depth.rs (target/debug/deps/depth-1b7e02d5b1cbd8b1)",
            "test result: FAILED. 28 passed; 1 failed; 0 ignored; 0 measured; 3 filtered out; finished in 1.25s",
            "   Doc-tests tokenfare_pricing",
            "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.56s",
        ];
        lines.iter().for_each(|line| reader.line(line));
        let suite = |name: &str, passed, failed, time: &str| Suite {
            name: name.into(),
            passed,
            failed,
            time: time.into(),
        };
        let expected = [
            suite("tokenfare_pricing src/lib.rs", 45, 0, "0.02s"),
            suite("depth tests/depth.rs", 28, 1, "1.25s"),
            suite("tokenfare_pricing (documentation)", 1, 0, "0.56s"),
        ];
        assert_eq!(reader.suites, expected);
    }
}
