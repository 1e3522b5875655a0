//! The command that starts an arm's server.

use std::collections::BTreeMap;

use crate::BenchError;

/// What stands for the port in a command.
const PORT: &str = "{port}";

/// A command line with its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArmCommand {
    words: Vec<String>,
    /// Variables set for it, beside those of this process.
    pub env: BTreeMap<String, String>,
}

impl ArmCommand {
    /// Splits `text` into words as a shell does; no shell runs it. `flags` gave the command and its variables.
    ///
    /// # Errors
    /// A command without words or with an open quote; a variable that is not `KEY=VALUE`.
    pub fn new(flags: [&str; 2], text: &str, env: &[String]) -> Result<Self, BenchError> {
        let [flag, env_flag] = flags;
        let words = shlex::split(text).filter(|words| !words.is_empty());
        let words = words.ok_or_else(|| {
            BenchError::Flag(format!("{flag} {text:?}: expected a command with closed quotes"))
        })?;
        let env = env.iter().map(|pair| {
            let split = pair.split_once('=').filter(|(name, _)| !name.is_empty());
            let (name, value) =
                split.ok_or_else(|| BenchError::Flag(format!("{env_flag} {pair}: expected KEY=VALUE")))?;
            Ok((name.to_owned(), value.to_owned()))
        });
        Ok(Self { words, env: env.collect::<Result<_, BenchError>>()? })
    }

    /// The program.
    pub fn program(&self) -> &str {
        &self.words[0]
    }

    /// The command as it would be typed.
    pub fn text(&self) -> String {
        shlex::try_join(self.words.iter().map(String::as_str)).unwrap_or_else(|_| self.words.join(" "))
    }

    /// Its words.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// The same with `flag`, unless it has it.
    pub fn with(&self, flag: &str) -> Self {
        let mut command = self.clone();
        if !self.words.iter().any(|word| word == flag) {
            command.words.push(flag.to_owned());
        }
        command
    }

    /// The words of a start at `port`: in the place of `{port}`, or behind a `--port` of their own.
    pub fn at(&self, port: u16) -> Vec<String> {
        let port = port.to_string();
        let mut words: Vec<String> = self.words.iter().map(|word| word.replace(PORT, &port)).collect();
        if !self.words.iter().any(|word| word.contains(PORT)) {
            words.extend(["--port".to_owned(), port]);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const FLAGS: [&str; 2] = ["--base", "--env-base"];

    #[rstest]
    #[case("a serve", &["a", "serve", "--port", "80"])]
    #[case("a --listen 0.0.0.0:{port} 'b c'", &["a", "--listen", "0.0.0.0:80", "b c"])]
    fn the_port_has_its_place(#[case] text: &str, #[case] words: &[&str]) {
        assert_eq!(ArmCommand::new(FLAGS, text, &[]).unwrap().at(80), words);
    }

    #[rstest]
    #[case("", &[], "--base \"\": expected a command with closed quotes")]
    #[case("a 'b", &[], "--base \"a 'b\": expected a command with closed quotes")]
    #[case("a", &["X"], "--env-base X: expected KEY=VALUE")]
    #[case("a", &["=1"], "--env-base =1: expected KEY=VALUE")]
    fn what_is_no_command_is_refused(#[case] text: &str, #[case] env: &[&str], #[case] message: &str) {
        let env: Vec<String> = env.iter().map(|e| (*e).to_owned()).collect();
        assert_eq!(ArmCommand::new(FLAGS, text, &env).unwrap_err().to_string(), message);
    }

    #[test]
    fn a_flag_is_given_once() {
        let command = ArmCommand::new(FLAGS, "a b", &["X=y=z".to_owned()]).unwrap();
        assert_eq!(command.env["X"], "y=z");
        let with = command.with("--no-drafts");
        assert_eq!((with.text(), with.with("--no-drafts") == with), ("a b --no-drafts".to_owned(), true));
    }
}
