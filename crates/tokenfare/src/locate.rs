//! Where the default model is.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// Folders that may hold the default model, in the order they are tried.
fn candidates() -> Vec<PathBuf> {
    let mut list = vec![PathBuf::from("models/mini")];
    if let Ok(exe) = std::env::current_exe() {
        // A build inside the workspace lies some levels below its root; an installed binary beside its share folder.
        list.extend(exe.ancestors().skip(1).take(5).map(|dir| dir.join("models/mini")));
        if let Some(prefix) = exe.parent().and_then(Path::parent) {
            list.push(prefix.join("share/tokenfare/models/mini"));
        }
    }
    let data = std::env::var_os("XDG_DATA_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share")));
    list.extend(data.map(|dir| dir.join("tokenfare/models/mini")));
    list
}

/// The folder of the model to use: the one given, or the default model.
pub fn model(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        return Ok(path.to_owned());
    }
    let tried = candidates();
    if let Some(found) = tried.iter().find(|dir| dir.join("config.json").is_file()) {
        return Ok(found.clone());
    }
    let list = tried.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(", ");
    bail!("no MODEL given and no default model found; looked in {list}")
}
