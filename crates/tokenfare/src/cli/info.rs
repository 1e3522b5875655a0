//! `tokenfare info`: a checkpoint in numbers.

use anyhow::Result;
use clap::Args;
use tokenfare_dsv41::checkpoint::Checkpoint;
use tokenfare_dsv41::info::{Info, describe};

use super::ModelArg;
use crate::locate;
use crate::output::print;

/// Arguments of `tokenfare info`.
#[derive(Debug, Args)]
pub struct InfoArgs {
    #[command(flatten)]
    model: ModelArg,
}

fn bytes(n: u64) -> String {
    indicatif::HumanBytes(n).to_string()
}

fn lines(info: &Info) -> Vec<(&'static str, String)> {
    let m = &info.model;
    let mut list = vec![
        ("architecture", m.architecture.to_owned()),
        ("files", format!("{} ({})", info.files, bytes(info.file_bytes))),
        ("layers", format!("{} of width {}", m.layers, m.hidden)),
        ("vocabulary", m.vocab.to_string()),
        ("experts", format!("{} of {} a token, and 1 shared", m.top_k, m.experts)),
        ("parameters", m.total.parameters.to_string()),
        ("active", format!("{} a token, {} read", m.active_parameters, bytes(m.active_bytes))),
        ("in memory", bytes(m.resident_bytes)),
        ("context", format!("{} tokens", m.context)),
        ("a lane", format!("{} of windows, {} B a token", bytes(m.window_bytes), m.growth)),
    ];
    list.push(match &m.drafter {
        None => ("drafter", "none".to_owned()),
        Some(d) => {
            ("drafter", format!("{} drafts a pass, {} blocks ({})", d.drafts, d.blocks, bytes(d.bytes)))
        }
    });
    if let Some(e) = &m.engram {
        let layers = e.layers.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        list.push(("engram", format!("layers {layers}: {} rows on disk ({})", e.rows, bytes(e.bytes))));
    }
    for (dtype, share) in &m.types {
        list.push(("", format!("{dtype}: {} tensors, {}", share.tensors, bytes(share.bytes))));
    }
    list
}

/// Runs the command.
pub fn info(args: InfoArgs) -> Result<()> {
    let dir = locate::model(args.model.model.as_deref())?;
    let checkpoint = Checkpoint::open(&dir)?;
    let lines = lines(&describe(&checkpoint));
    print(&lines.iter().map(|(name, value)| format!("{name:<13} {value}\n")).collect::<String>())
}
