"""Files of a folder in an order that does not depend on the file system."""

from pathlib import Path


def sorted_files(root: Path, pattern: str) -> list[Path]:
    """Return the files under `root` that match a glob pattern, sorted by their whole paths."""
    return sorted((path for path in root.glob(pattern) if path.is_file()), key=str)


def read_utf8(path: Path) -> str | None:
    """Return the text of a file, or none if it is not readable as UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
