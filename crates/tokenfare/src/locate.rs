//! Where the default model is.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

#[cfg(feature = "embed-mini")]
use crate::embedded;

/// The default model's folder, below each place that may hold it.
const MODEL: &str = "models/mini";
/// Levels above the binary that are looked at: a build lies two or three levels below its workspace.
const LEVELS: usize = 5;

/// The surroundings of the process, as far as they say where files are.
#[derive(Debug, Default)]
struct Places {
    /// The working directory.
    here: PathBuf,
    /// The binary.
    exe: Option<PathBuf>,
    /// The folder of the user's data.
    data: Option<PathBuf>,
}

impl Places {
    fn of_process() -> Self {
        let exe = std::env::current_exe().ok();
        Self {
            here: PathBuf::new(),
            exe,
            data: data_folder(|name| std::env::var_os(name).map(PathBuf::from)),
        }
    }

    /// Folders that may hold the default model, in the order they are tried.
    fn candidates(&self) -> Vec<PathBuf> {
        let mut list = vec![self.here.join(MODEL)];
        if let Some(exe) = &self.exe {
            list.extend(exe.ancestors().skip(1).take(LEVELS).map(|dir| dir.join(MODEL)));
            let prefix = exe.parent().and_then(Path::parent);
            list.extend(prefix.map(|dir| dir.join("share/tokenfare").join(MODEL)));
        }
        list.extend(self.data.as_ref().map(|dir| dir.join("tokenfare").join(MODEL)));
        list
    }

    fn find(&self) -> Option<PathBuf> {
        self.candidates().into_iter().find(|dir| dir.join("config.json").is_file())
    }
}

/// `XDG_DATA_HOME`, else `.local/share` in `HOME`; paths that are not absolute do not count.
fn data_folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
}

/// The folder of the model to use: the one given, else the first default model that is found, else the one in
/// the binary if it was built with one.
///
/// # Errors
/// No model was given and none is found; the message lists where it was looked for.
pub fn model(given: Option<&Path>) -> Result<PathBuf> {
    match given {
        Some(path) => Ok(path.to_owned()),
        None => default_model(&Places::of_process()),
    }
}

fn default_model(places: &Places) -> Result<PathBuf> {
    if let Some(found) = places.find() {
        return Ok(found);
    }
    #[cfg(feature = "embed-mini")]
    if let Some(data) = &places.data {
        return embedded::unpacked(data);
    }
    let tried: Vec<String> = places.candidates().iter().map(|dir| dir.display().to_string()).collect();
    bail!("no MODEL given and no default model found; looked in {}", tried.join(", "))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn places_are_tried_from_near_to_far() {
        let places = Places {
            here: "/w".into(),
            exe: Some("/a/b/c/d/e/f/tokenfare".into()),
            data: Some("/home/user/.local/share".into()),
        };
        let expected = [
            "/w/models/mini",
            "/a/b/c/d/e/f/models/mini",
            "/a/b/c/d/e/models/mini",
            "/a/b/c/d/models/mini",
            "/a/b/c/models/mini",
            "/a/b/models/mini",
            "/a/b/c/d/e/share/tokenfare/models/mini",
            "/home/user/.local/share/tokenfare/models/mini",
        ];
        assert_eq!(places.candidates(), expected.map(PathBuf::from));
    }

    #[test]
    fn the_first_folder_with_a_configuration_is_taken() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        let places = Places {
            here: path("here"),
            exe: Some(path("opt/bin/tokenfare")),
            data: Some(path("home/.local/share")),
        };
        let all = [
            path("home/.local/share/tokenfare/models/mini"),
            path("opt/share/tokenfare/models/mini"),
            path("opt/models/mini"),
            path("opt/bin/models/mini"),
            path("here/models/mini"),
        ];
        assert_eq!(places.find(), None);
        for dir in all {
            std::fs::create_dir_all(&dir).unwrap();
            assert_ne!(places.find(), Some(dir.clone()));
            std::fs::write(dir.join("config.json"), "{}").unwrap();
            assert_eq!(places.find(), Some(dir));
        }
    }

    #[test]
    fn the_data_folder_is_absolute() {
        let folder = |xdg: Option<&'static str>, home: Option<&'static str>| {
            data_folder(|name| if name == "HOME" { home } else { xdg }.map(PathBuf::from))
        };
        assert_eq!(folder(Some("/data"), Some("/home/user")), Some("/data".into()));
        assert_eq!(folder(Some("data"), Some("/home/user")), Some("/home/user/.local/share".into()));
        assert_eq!(folder(Some(""), Some("/home/user")), Some("/home/user/.local/share".into()));
        assert_eq!(folder(None, Some("user")), None);
        assert_eq!(folder(None, None), None);
    }

    #[test]
    #[cfg(not(feature = "embed-mini"))]
    fn without_a_model_the_message_lists_every_place() {
        let places = Places { here: "/none".into(), exe: Some("/opt/bin/tokenfare".into()), data: None };
        let message = default_model(&places).unwrap_err().to_string();
        assert!(
            message.starts_with("no MODEL given and no default model found; looked in /none/models/mini, ")
        );
        for place in places.candidates() {
            assert!(message.contains(&place.display().to_string()), "{message}");
        }
    }
}
