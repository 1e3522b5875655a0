//! `tokenfare synth`: a random checkpoint.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use tokenfare_dsv41::synth::{self, Preset};

use crate::output::print;
use crate::progress;

/// Sizes on offer.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Sizes {
    /// Ten narrow layers, about 4 MB
    Tiny,
    /// The released model's widths in few layers, about 4 GB
    Wide,
}

/// Arguments of `tokenfare synth`.
#[derive(Debug, Args)]
pub struct SynthArgs {
    /// Folder to write, new or empty
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Sizes
    #[arg(long, value_enum, default_value = "tiny")]
    preset: Sizes,
    /// Seed of the values
    #[arg(long, default_value = "0")]
    seed: u64,
}

/// Runs the command.
pub fn synth(args: SynthArgs) -> Result<()> {
    let preset = match args.preset {
        Sizes::Tiny => Preset::Tiny,
        Sizes::Wide => Preset::Wide,
    };
    let bar = progress::bytes("writing");
    let written =
        synth::write(&args.out, preset, args.seed, &|done, total| progress::advance(&bar, done, total));
    bar.finish_and_clear();
    let checkpoint = written?;
    print(&format!("{}: {} files\n", checkpoint.dir().display(), checkpoint.shards().len()))
}
