//! `tokenfare bench receipt`: what can be done with a receipt.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use tokenfare_bench::receipt;

use crate::output::print;

/// Arguments of `tokenfare bench receipt`.
#[derive(Debug, Args)]
pub struct ReceiptArgs {
    #[command(subcommand)]
    command: ReceiptCommand,
}

#[derive(Debug, Subcommand)]
enum ReceiptCommand {
    /// Tell whether only documentation changed since the commit that a receipt was made on
    Check(CheckArgs),
}

/// Arguments of `tokenfare bench receipt check`.
#[derive(Debug, Args)]
struct CheckArgs {
    /// The receipt's folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Runs the chosen command.
pub fn receipt(args: &ReceiptArgs) -> Result<()> {
    let ReceiptCommand::Check(CheckArgs { folder }) = &args.command;
    let standing = receipt::check(folder)?;
    if standing.changed.is_empty() {
        return print(&format!(
            "only documentation changed since {} ({} files)\n",
            standing.head, standing.documentation
        ));
    }
    bail!(
        "{} files other than documentation changed since {}: {}",
        standing.changed.len(),
        standing.head,
        standing.changed.join(", ")
    )
}
