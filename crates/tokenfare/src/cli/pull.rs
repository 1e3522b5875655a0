//! `tokenfare pull`: a checkpoint from a hub.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use indicatif::ProgressBar;
use tokenfare_hub::{Hub, Progress, Repo};
use tokenfare_settings::Secret;

use super::DeviceKind;
use crate::output::print;
use crate::{engine, progress};

/// Arguments of `tokenfare pull`.
#[derive(Debug, Args)]
pub struct PullArgs {
    /// The repository, as OWNER/NAME
    #[arg(value_name = "REPO")]
    repo: String,
    /// Branch, tag or commit
    #[arg(long, value_name = "REVISION", default_value = "main")]
    revision: String,
    /// Folder to fill; what is there already is checked and kept [default: NAME]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Files fetched at once
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u8).range(1..=16))]
    parallel: u8,
}

struct Bar(ProgressBar);

impl Progress for Bar {
    fn advance(&self, bytes: u64) {
        self.0.inc(bytes);
    }

    fn take_back(&self, bytes: u64) {
        self.0.dec(bytes);
    }

    fn finished(&self, file: &str) {
        self.0.println(file);
    }
}

/// Runs the command.
pub fn pull(args: PullArgs) -> Result<()> {
    let settings = engine::settings(DeviceKind::Auto, None)?;
    let repo: Repo = args.repo.parse()?;
    let hub = Hub::new(&settings.hub.endpoint, settings.hub.token.as_ref().map(Secret::reveal))?;
    let listing = hub.list(&repo, &args.revision)?;
    let folder = args.to.unwrap_or_else(|| repo.name().into());
    let bar = Bar(progress::bytes("downloading"));
    bar.0.set_length(listing.bytes());
    let pulled = listing.pull(&folder, usize::from(args.parallel), &bar);
    bar.0.finish_and_clear();
    let pulled = pulled?;
    print(&format!(
        "{}: {} files of {repo} at {}, {} fetched ({} bytes), {} kept\n",
        folder.display(),
        listing.files.len(),
        listing.commit,
        pulled.fetched,
        pulled.bytes,
        pulled.kept
    ))
}
