//! What is made from the definition of the command line: completions, the manual page, the reference.

use std::fmt::Write as _;
use std::io::Write;

use anyhow::Result;
use clap::{Arg, ArgAction, Args, Command, CommandFactory};
use clap_complete::Shell;

use super::Cli;
use crate::output::print;

/// Arguments of `tokenfare completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

const HEAD: &str = "\
# Command line

Made from the definition of the command line by `cargo xtask docs`. `tokenfare help COMMAND` prints the same, `tokenfare man` a
manual page, and `tokenfare completions SHELL` a completion script. Settings beside the flags are in [environment.md](environment.md).
";

fn built() -> Command {
    let mut command = Cli::command();
    command.build();
    command
}

/// Prints a completion script.
pub fn completions(args: CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tokenfare", &mut script);
    print(&String::from_utf8(script)?)
}

/// Prints the manual page: the command, then each of its commands that does something by itself.
pub fn man() -> Result<()> {
    let command = built();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for sub in leaves(&command) {
        writeln!(page, ".SH \"{}\"", full_name(sub).to_uppercase())?;
        let man = clap_mangen::Man::new(sub.clone());
        man.render_synopsis_section(&mut page)?;
        man.render_description_section(&mut page)?;
        man.render_options_section(&mut page)?;
    }
    print(&String::from_utf8(page)?)
}

/// Prints the reference.
pub fn reference() -> Result<()> {
    print(&page(&built()))
}

/// Commands below `command` that have no further ones.
fn leaves(command: &Command) -> Vec<&Command> {
    let shown = command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help");
    shown.flat_map(|c| if c.has_subcommands() { leaves(c) } else { vec![c] }).collect()
}

/// The words that call a command.
fn full_name(command: &Command) -> &str {
    command.get_bin_name().unwrap_or(command.get_name())
}

fn page(command: &Command) -> String {
    let mut page = String::from(HEAD);
    for sub in leaves(command) {
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        let usage = sub.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ");
        line(&mut page, format_args!("\n## {}\n\n{about}.\n\n```text\n{usage}\n```\n", full_name(sub)));
        line(&mut page, format_args!("| argument | meaning | default |\n|---|---|---|"));
        for arg in sub.get_arguments().filter(|a| a.get_id() != "help" && a.get_id() != "version") {
            let (name, meaning, default) = (name(arg), meaning(arg), default(arg));
            line(&mut page, format_args!("| `{name}` | {meaning} | {default} |"));
        }
    }
    page
}

fn line(page: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(page, "{text}").expect("writing to a string cannot fail");
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

fn name(arg: &Arg) -> String {
    let values = arg.get_value_names().unwrap_or_default().iter().map(ToString::to_string);
    let values = values.collect::<Vec<_>>().join(" ");
    let values = values.replace('|', "\\|");
    match arg.get_long() {
        None => values,
        Some(long) if takes_value(arg) => format!("--{long} {values}"),
        Some(long) => format!("--{long}"),
    }
}

fn meaning(arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    // A default that depends on the command stands at the end of the help; its column is the third.
    let help = help.split(" [default: ").next().unwrap_or_default().replace('|', "\\|");
    let words = arg.get_possible_values();
    let words: Vec<String> =
        words.iter().filter(|_| takes_value(arg)).map(|v| format!("`{}`", v.get_name())).collect();
    if words.is_empty() { help } else { format!("{help}: {}", words.join(", ")) }
}

fn default(arg: &Arg) -> String {
    let given = arg.get_default_values().iter().map(|v| v.to_string_lossy().into_owned());
    let given = given.collect::<Vec<_>>().join(" ");
    if takes_value(arg) && !given.is_empty() {
        return format!("`{given}`");
    }
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let told = help.split_once(" [default: ").map(|(_, told)| told.trim_end_matches(']').to_owned());
    told.unwrap_or_default()
}
