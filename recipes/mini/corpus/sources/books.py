"""Books and speeches in the public domain."""

import io
import re
import zipfile

from corpus.repositories import Repositories
from corpus.writer import Writer

BOOKS = (
    ("GITenberg/Alice-s-Adventures-in-Wonderland_11", r"\.txt$"),
    ("GITenberg/The-Adventures-of-Sherlock-Holmes_1661", r"\.txt$"),
    ("GITenberg/The-Wonderful-Wizard-of-Oz_55", r"\.txt$"),
    ("GITenberg/The-Jungle-Book_236", r"\.(txt|rst)$"),
    ("GITenberg/The-Secret-Garden_113", r"\.(txt|rst)$"),
    ("GITenberg/Peter-Pan_16", r"\.(txt|rst)$"),
)
SHORTEST_BOOK = 80_000
PIECE = 6000


def gutenberg(writer: Writer, repositories: Repositories) -> None:
    """Add six books of Project Gutenberg, public domain in the US, in pieces."""
    for name, pattern in BOOKS:
        files = repositories.read(
            name,
            lambda blob, pattern=pattern: (
                re.search(pattern, blob.path) is not None and blob.size > SHORTEST_BOOK
            ),
        )
        content = max((content for _, content in files), key=len, default=None)
        if content is None:
            continue
        text = content.decode("utf-8", "replace")
        inside = re.search(r"\*\*\* ?START OF.*?\n(.*?)\*\*\* ?END OF", text, re.DOTALL)
        text = (inside.group(1) if inside else text).replace("\r", "")
        text = re.sub(r"(?<!\n)\n(?!\n)", " ", text)
        for start in range(0, len(text), PIECE):
            writer.plain("prose", "Gutenberg", text[start : start + PIECE])


def speeches(writer: Writer, repositories: Repositories) -> None:
    """Add half of the US inaugural and State of the Union addresses (nltk_data), public domain."""
    for name in ("inaugural", "state_union"):
        content = repositories.show("nltk/nltk_data", f"packages/corpora/{name}.zip")
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for file in archive.namelist():
                wanted = file.endswith(".txt") and "README" not in file
                if wanted and writer.rng.random() < 0.5:
                    writer.plain("prose", "US speeches", archive.read(file).decode("latin1"))
