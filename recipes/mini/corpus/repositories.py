"""Files of git repositories, read from their newest commit without a work tree."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

LIST = Path(__file__).with_name("repositories.txt")


class Blob(NamedTuple):
    """A file of a repository."""

    path: str
    object_id: str
    size: int


def listed() -> list[str]:
    """Return the names (`owner/name`) of all repositories that the corpus takes from."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return [line.split(" | ")[0] for line in lines if line and not line.startswith("#")]


class Repositories:
    """A folder of clones: `<folder>/<owner>/<name>`, bare or not."""

    def __init__(self, folder: Path) -> None:
        """Refuse a folder that lacks a listed repository."""
        self.folder = folder
        missing = [name for name in listed() if not (folder / name).is_dir()]
        if missing:
            sys.exit(f"{folder}: missing repositories: {', '.join(missing)}")

    def _git(self, name: str, *arguments: str) -> list[str]:
        if name not in listed():
            raise ValueError(f"{name} is not in {LIST.name}")
        return ["git", "-C", str(self.folder / name), *arguments]

    def blobs(self, name: str) -> list[Blob]:
        """List the files of a repository whose names are UTF-8 and whose sizes are known."""
        command = self._git(name, "-c", "core.quotepath=off", "ls-tree", "-r", "-l", "-z", "HEAD")
        listing = subprocess.run(command, capture_output=True, check=True).stdout
        found = []
        for line in listing.split(b"\0"):
            if not line:
                continue
            meta, path = line.split(b"\t", 1)
            _mode, kind, object_id, size = meta.split()
            if kind != b"blob" or size == b"BAD":
                continue
            try:
                found.append(Blob(path.decode(), object_id.decode(), int(size)))
            except UnicodeDecodeError:
                continue
        return found

    def read(self, name: str, wanted: Callable[[Blob], bool]) -> Iterator[tuple[str, bytes]]:
        """Yield path and content of every wanted file, in the order of the tree."""
        chosen = [blob for blob in self.blobs(name) if wanted(blob)]
        command = self._git(name, "cat-file", "--batch")
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as batch:
            for blob in chosen:
                batch.stdin.write(blob.object_id.encode() + b"\n")
                batch.stdin.flush()
                header = batch.stdout.readline().split()
                if len(header) < 3:
                    continue
                content = batch.stdout.read(int(header[2]) + 1)
                yield blob.path, content[:-1]

    def search(self, name: str, pattern: str) -> Iterator[tuple[str, bytes]]:
        """Yield path and content of every file whose path matches a regular expression."""
        return self.read(name, lambda blob: re.search(pattern, blob.path) is not None)

    def show(self, name: str, path: str) -> bytes:
        """Return the content of one file."""
        command = self._git(name, "show", f"HEAD:{path}")
        return subprocess.run(command, capture_output=True, check=True).stdout
