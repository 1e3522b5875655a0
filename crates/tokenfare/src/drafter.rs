//! Which drafter may draft for which target.

use std::path::Path;

use anyhow::{Context, Result, bail};
use tokenfare_dsv41::checkpoint::{Checkpoint, FileBytes};

/// A fact of a checkpoint on which a drafter's usefulness depends.
type Fact = (&'static str, fn(&Checkpoint) -> Result<String>);

const FACTS: [Fact; 5] = [
    ("vocabulary", |c| Ok(c.config().vocab.to_string())),
    ("hidden size", |c| Ok(c.config().hidden.to_string())),
    ("layers", |c| Ok(c.config().layers.to_string())),
    ("tokenizer.json", |c| {
        let path = c.dir().join("tokenizer.json");
        let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
        Ok(digest(&bytes))
    }),
    ("norm.weight", |c| {
        let mut bytes = FileBytes::default();
        c.read("norm.weight", &mut bytes)?;
        Ok(digest(&bytes))
    }),
];

fn digest(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    let hash = Sha256::digest(bytes);
    hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// Checks that the drafter in `dir` is one of `target` that this build can load: the target's own.
pub fn check(dir: &Path, target: &Checkpoint) -> Result<()> {
    let shown = dir.display();
    let drafter = Checkpoint::open(dir).with_context(|| format!("--drafter {shown}"))?;
    for (what, fact) in FACTS {
        let (expected, found) = (fact(target)?, fact(&drafter)?);
        if expected != found {
            bail!("--drafter {shown}: made for another model: {what} is {found}, the target's is {expected}");
        }
    }
    if drafter.config().drafter.is_none() {
        bail!("--drafter {shown}: the checkpoint holds no drafter");
    }
    let same = match (dir.canonicalize(), target.dir().canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    };
    if !same {
        bail!(
            "--drafter {shown}: fits the model, but this build loads no drafter from another folder; leave the flag out for the \
             model's own"
        );
    }
    Ok(())
}
