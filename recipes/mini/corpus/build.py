"""Collect the corpus: `python -m corpus.build --help`.

The order of the sources is part of the recipe: they share one stream of random numbers.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

from corpus.own import basics, dialogues
from corpus.own.dialogues import Turn
from corpus.repositories import Repositories
from corpus.sources import (
    algorithms,
    books,
    commands,
    conversations,
    dictionaries,
    documentation,
    exercises,
    python_code,
    rust_code,
    textbooks,
    tool_calls,
)
from corpus.writer import Writer

BASICS = basics.Counts(stories=3000, sums=2500, repeats=14)


@dataclass
class Folders:
    """Where the sources lie; README.md says how to fill these folders."""

    repositories: Path
    debian: Path
    dictionaries: Path
    python_library: Path
    site_packages: list[Path]
    crates: Path


def own_text(writer: Writer) -> None:
    """Add the text written for this project, project licence."""
    for pairs in basics.generate(BASICS):
        writer.chat("own-v1", pairs, domain="own")
    for dialogue in dialogues.generate():
        turns = [Turn(*turn) for turn in dialogue.turns]
        writer.dialogue(
            "own-v2",
            turns,
            domain="own",
            system=dialogue.system,
            thinking=dialogue.thinking,
            system_rate=0.1,
        )


def collect(writer: Writer, folders: Folders) -> list[tuple[str, str]]:
    """Write every source; returns names and licences of the crates."""
    repositories = Repositories(folders.repositories)
    own_text(writer)
    conversations.taskmaster(writer, repositories)
    exercises.grade_school_math(writer, repositories)
    exercises.mxeval(writer, repositories)
    commands.tldr(writer, repositories)
    exercises.exercism(writer, repositories)
    dictionaries.jargon_file(writer, folders.dictionaries)
    dictionaries.wordnet(writer, folders.dictionaries)
    documentation.manuals(writer, repositories)
    conversations.javascript_questions(writer, repositories)
    conversations.chatterbot(writer, repositories)
    conversations.self_instruct(writer, repositories)
    tool_calls.berkeley_function_calling(writer, repositories)
    textbooks.openstax(writer, repositories)
    documentation.python_documentation(writer, folders.debian)
    books.gutenberg(writer, repositories)
    dictionaries.devils_dictionary(writer, folders.debian)
    books.speeches(writer, repositories)
    python_code.packages(writer, folders.python_library, folders.site_packages)
    python_code.the_algorithms(writer, repositories)
    rust_code.the_algorithms(writer, repositories)
    crates = rust_code.crates(writer, folders.crates)
    rust_code.standard_library(writer, folders.debian)
    algorithms.collections(writer, repositories)
    rust_code.tokio(writer, repositories)
    return crates


def report(writer: Writer) -> None:
    """Print documents and megabytes of each source."""
    for (domain, source), (documents, size) in sorted(writer.stats.items()):
        print(f"{domain:10s} {source:26s} {documents:7d} documents {size / 1e6:8.2f} MB")


def main() -> None:
    """Read the arguments and collect."""
    parser = argparse.ArgumentParser(description="Collect the corpus into WORK/docs.jsonl.")
    parser.add_argument("--work", type=Path, default=Path("work"))
    parser.add_argument("--repositories", type=Path, default=Path("sources/repositories"))
    parser.add_argument("--debian", type=Path, default=Path("sources/debian"))
    parser.add_argument("--dictionaries", type=Path, default=Path("sources/dictionaries"))
    parser.add_argument("--python-library", type=Path, default=Path("sources/python3.12"))
    parser.add_argument("--site-packages", type=Path, nargs="+", default=[Path("sources/site")])
    parser.add_argument("--crates", type=Path, default=Path("sources/crates"))
    arguments = vars(parser.parse_args())
    work = arguments.pop("work")
    work.mkdir(parents=True, exist_ok=True)
    writer = Writer(work / "docs.jsonl")
    crates = collect(writer, Folders(**arguments))
    writer.close()
    report(writer)
    stats = {f"{domain}|{source}": count for (domain, source), count in writer.stats.items()}
    (work / "corpus_stats.json").write_text(json.dumps(stats, indent=1), encoding="utf-8")
    (work / "crates_licences.json").write_text(json.dumps(crates), encoding="utf-8")


if __name__ == "__main__":
    main()
