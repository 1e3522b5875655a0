//! Files that are whole or not there: written to a temporary name, synced, then renamed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// What becomes of a file that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It is replaced.
    Replace,
    /// It stays, and the write is refused.
    Keep,
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes `bytes` to `path`. Its folder is made where it is missing.
///
/// # Errors
/// The operating system's; a file that is there already where it is to be kept. The file is then as it was.
pub fn write_whole(path: &Path, bytes: &[u8], existing: Existing) -> io::Result<()> {
    let folder = folder(path);
    fs::create_dir_all(folder)?;
    // The process's own mask takes away what others may not read.
    let permissions = fs::Permissions::from_mode(0o666);
    let mut builder = tempfile::Builder::new();
    let mut file =
        builder.prefix(".tokenfare-").suffix(".tmp").permissions(permissions).tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    match existing {
        Existing::Replace => file.persist(path).map(drop),
        Existing::Keep => file.persist_noclobber(path).map(drop),
    }
    .map_err(|e| e.error)?;
    // The rename is on the disk once the folder is.
    File::open(folder)?.sync_all()
}

/// Refuses a file that `flag` names and that could not be written after the work before it.
///
/// # Errors
/// As [`check_place`], with the flag and the file.
pub fn check_flag(flag: &str, file: Option<&Path>) -> anyhow::Result<()> {
    let Some(file) = file else { return Ok(()) };
    check_place(file).map_err(|cause| anyhow::anyhow!("{flag} {}: {cause}", file.display()))
}

/// Tells whether a file can be written at `path`. Its folder is made where it is missing.
///
/// # Errors
/// The operating system's; a folder in its place.
fn check_place(path: &Path) -> io::Result<()> {
    let folder = folder(path);
    fs::create_dir_all(folder)?;
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    tempfile::Builder::new().prefix(".tokenfare-").suffix(".tmp").tempfile_in(folder)?.close()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_replaced_or_kept_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/file");
        write_whole(&path, b"one", Existing::Keep).unwrap();
        assert_eq!(
            write_whole(&path, b"two", Existing::Keep).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert_eq!(fs::read(&path).unwrap(), b"one");
        write_whole(&path, b"three", Existing::Replace).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o600, 0o600);
    }

    #[test]
    fn a_folder_in_the_place_of_a_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        fs::create_dir(&path).unwrap();
        for existing in [Existing::Replace, Existing::Keep] {
            assert!(write_whole(&path, b"x", existing).is_err());
        }
        assert!(path.is_dir());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write_whole(Path::new("/proc/none/file"), b"x", Existing::Replace).is_err());
    }

    #[test]
    fn a_place_for_a_file_is_known_before_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/file");
        check_place(&path).unwrap();
        write_whole(&path, b"one", Existing::Keep).unwrap();
        check_place(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(fs::read_dir(folder.path().join("a")).unwrap().count(), 1);
        assert_eq!(check_place(folder.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert!(check_place(&path.join("inside-a-file")).is_err());
    }

    #[test]
    fn writers_at_once_never_leave_a_torn_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shared");
        let texts: Vec<Vec<u8>> = (b'a'..b'e').map(|c| vec![c; 50_000]).collect();
        write_whole(&path, &texts[0], Existing::Replace).unwrap();
        std::thread::scope(|scope| {
            for text in &texts {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..10 {
                        write_whole(path, text, Existing::Replace).unwrap();
                    }
                });
            }
            for _ in 0..200 {
                assert!(texts.contains(&fs::read(&path).unwrap()));
            }
        });
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
