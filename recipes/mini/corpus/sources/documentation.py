"""Documentation: running text, or its headings as questions."""

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

from corpus.files import sorted_files
from corpus.own.wording import say
from corpus.repositories import Repositories
from corpus.writer import Writer, mostly_latin

LONGEST_FILE = 400_000


class Manual(NamedTuple):
    """A repository of documentation; `asked` is the share of files that become questions."""

    repository: str
    pattern: str
    source: str
    asked: float


MANUALS = (
    Manual(
        "MicrosoftDocs/PowerShell-Docs",
        r"^reference/(docs-conceptual|7\.6/Microsoft.PowerShell.Core)/.*\.md$",
        "PowerShell-Docs",
        0.5,
    ),
    Manual("rust-lang/book", r"^src/.*\.md$", "Rust book", 0.4),
    Manual("rust-lang/rust-by-example", r"^src/.*\.md$", "Rust by Example", 0.4),
    Manual("rust-lang/rfcs", r"^text/.*\.md$", "Rust RFCs", 0.2),
    Manual("python/peps", r"peps/pep-.*\.rst$", "PEPs", 0),
    Manual(
        "donnemartin/system-design-primer",
        r"^(README|solutions/.*README)\.md$",
        "system-design-primer",
        0.5,
    ),
    Manual("google/comprehensive-rust", r"^src/.*\.md$", "comprehensive-rust", 0.4),
    Manual("rust-lang/reference", r"^src/.*\.md$", "Rust reference", 0.3),
    Manual("rust-lang/async-book", r"^src/.*\.md$", "Rust async book", 0.4),
    Manual("rust-lang/cargo", r"^src/doc/src/.*\.md$", "Cargo book", 0.4),
    Manual(
        "microsoft/TypeScript-Website",
        r"^packages/documentation/copy/en/.*\.md$",
        "TypeScript docs",
        0.4,
    ),
    Manual("google/eng-practices", r"^review/.*\.md$", "eng-practices", 0.5),
    Manual(
        "google/styleguide",
        r"^(pyguide|shellguide|docguide/.*|go/.*)\.md$",
        "google-styleguide",
        0.4,
    ),
    Manual("dylanaraps/pure-bash-bible", r"^README\.md$", "pure-bash-bible", 1),
    Manual("trekhleb/javascript-algorithms", r"^src/.*/README\.md$", "js-algorithms docs", 0.6),
)

PYTHON_QUESTIONS = (
    "What does `{name}` do in Python?",
    "Explain `{name}` in Python.",
    "How do I use `{name}`?",
)


def _markdown(text: str) -> str:
    """Take front matter, comments, images and the targets of links out of Markdown."""
    text = re.sub(r"^---\n.*?\n---\n", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\[([^\]]+)\]\[[^\]]*\]", r"\1", text)
    return re.sub(r"\n{3,}", "\n\n", text)


def manuals(writer: Writer, repositories: Repositories) -> None:
    """Add the manuals above; their licences are in `repositories.txt`."""
    for manual in MANUALS:
        files = repositories.read(
            manual.repository,
            lambda blob, manual=manual: (
                re.search(manual.pattern, blob.path) is not None and blob.size < LONGEST_FILE
            ),
        )
        for _, content in files:
            text = _markdown(content.decode("utf-8", "replace"))
            if not mostly_latin(text):
                continue
            if writer.rng.random() < manual.asked:
                _headings(writer, manual.source, text)
            else:
                writer.plain("prose", manual.source, text)


def _headings(writer: Writer, source: str, text: str) -> None:
    """Ask what stands under each heading of middle length."""
    pattern = r"^#{1,4} (.+?)\n(.*?)(?=^#{1,4} |\Z)"
    for match in re.finditer(pattern, text, re.MULTILINE | re.DOTALL):
        heading, body = match.group(1).strip("`# "), match.group(2).strip()
        if not (80 < len(body) < 2200 and 4 < len(heading) < 80):
            continue
        is_question = heading.split()[0] in ("What", "How", "Why", "When")
        forms = (
            f"Explain: {heading}",
            f"Tell me about {heading}.",
            f"{heading}?" if is_question else f"What should I know about {heading}?",
        )
        writer.chat(source, [(writer.rng.choice(forms), body)])


def _restructured_text(text: str) -> str:
    """Take roles and directives without a text out of reStructuredText."""
    text = re.sub(r":[a-zA-Z:+-]+:`~?!?([^`<]*?)(?: *<[^`>]*>)?`", r"`\1`", text)
    directives = "index|only|highlight|_|currentmodule|sectionauthor|moduleauthor"
    pattern = rf"^\.\. ({directives}).*\n(?:[ \t]+.*\n)*"
    text = re.sub(pattern, "", text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text)


def python_documentation(writer: Writer, debian: Path) -> None:
    """Add the Python documentation, PSF-2.0, examples 0BSD (Debian package python3.11-doc)."""
    rng = writer.rng
    folder = debian / "usr/share/doc/python3.11/html/_sources"
    entry = r"^\.\. (function|method|class|data):: ([^\n]+)\n(?:[ ]+[^\n]*\n)?\n((?:   [^\n]*\n)+)"
    for path in sorted_files(folder, "**/*.rst.txt"):
        text = _restructured_text(path.read_text(encoding="utf-8", errors="replace"))
        if "whatsnew" in path.parts and rng.random() < 0.5:
            continue
        if len(text) < 150_000:
            writer.plain("prose", "Python docs", text)
        for match in re.finditer(entry, text, re.MULTILINE):
            signature = match.group(2).strip()
            body = re.sub(r"\s+", " ", textwrap.dedent(match.group(3))).strip()
            name = match.group(2).split("(")[0].strip()
            wanted = 40 < len(body) < 700 and not body.startswith("..")
            if wanted and rng.random() < 0.7:
                question = say(rng, PYTHON_QUESTIONS, name=name)
                writer.chat("Python docs", [(question, f"`{signature}`\n\n{body}")])
