//! Files that are whole or not there.

use std::io::Write;
use std::path::Path;

use crate::BenchError;

/// Writes beside `path`, syncs, then renames, so that no reader sees a part.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), BenchError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let write = || -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        let mut file = tempfile::Builder::new().permissions(permissions).tempfile_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|e| e.error)?;
        Ok(())
    };
    write().map_err(|e| BenchError::file(path, e))
}
