"""Dictionaries as questions and answers."""

import gzip
import re
from pathlib import Path

from corpus.own.wording import say, upper_first
from corpus.writer import Writer, mostly_latin

JARGON_QUESTIONS = ("What does {head} mean in hacker slang?", "Define {head}.", "What is {head}?")
DEVIL_QUESTIONS = (
    "How does the Devil's Dictionary define {head}?",
    "Give me an ironic definition of {head}.",
)
NOUN_QUESTIONS = ("What is {article}{word}?", "Define {word}.", "What does {word} mean?")
OTHER_QUESTIONS = ("Define {word}.", "What does {word} mean?")
PARTS_OF_SPEECH = ("noun", "verb", "adj", "adv")


def _entries(path: Path) -> list[str]:
    """Split a dictd file into entries: a head word, then indented lines."""
    with gzip.open(path, "rb") as file:
        text = file.read().decode("utf-8", "replace")
    return re.split(r"\n(?=\S)", text)


def jargon_file(writer: Writer, dictionaries: Path) -> None:
    """Add the Jargon File 4.4.7, public domain (Debian package dict-jargon)."""
    for entry in _entries(dictionaries / "usr/share/dictd/jargon.dict.dz"):
        head, line_end, body = entry.partition("\n")
        if not line_end:
            continue
        head = head.strip()
        body = re.sub(r"\{([^{}]*)\}", r"\1", body)
        body = "\n".join(line.strip() for line in body.splitlines()).strip()
        body = re.sub(r"(?<!\n)\n(?!\n)", " ", body)
        if 40 < len(body) < 1800 and len(head) < 40 and mostly_latin(body):
            writer.chat("Jargon File", [(say(writer.rng, JARGON_QUESTIONS, head=head), body)])


def devils_dictionary(writer: Writer, debian: Path) -> None:
    """Add The Devil's Dictionary, Ambrose Bierce, public domain (Debian package dict-devil)."""
    for entry in _entries(debian / "usr/share/dictd/devil.dict.dz"):
        head, line_end, body = entry.partition("\n")
        if not line_end or len(head) >= 40:
            continue
        body = re.sub(r"\s+", " ", body).strip()
        if 40 < len(body) < 900:
            question = say(writer.rng, DEVIL_QUESTIONS, head=head.strip().lower())
            writer.chat("Devil's Dictionary", [(question, body)])


def wordnet(writer: Writer, dictionaries: Path) -> None:
    """Add a part of the glosses of WordNet 3.1, Princeton University, WordNet licence."""
    for part in PARTS_OF_SPEECH:
        path = dictionaries / f"package/dict/data.{part}"
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                if not line.startswith("  ") and "|" in line:
                    _synset(writer, line, part)


def _synset(writer: Writer, line: str, part: str) -> None:
    """Ask for one meaning."""
    rng = writer.rng
    left, gloss = line.split("|", 1)
    fields = left.split()
    words = [
        re.sub(r"\(.*?\)", "", fields[4 + 2 * i].replace("_", " "))
        for i in range(int(fields[3], 16))
    ]
    word = words[0]
    parts = [text.strip() for text in gloss.strip().split(";")]
    meaning = parts[0]
    examples = [text.strip('" ') for text in parts[1:] if text.startswith('"')]
    if len(meaning) < 12 or rng.random() > 0.3:
        return
    noun = part == "noun"
    article = ""
    if noun and not word[0].isupper():
        article = "an " if word[0] in "aeiou" else "a "
    forms = NOUN_QUESTIONS if noun else OTHER_QUESTIONS
    question = say(rng, forms, article=article, word=word)
    subject = upper_first(article + word)
    answer = f"{subject} is {meaning}." if noun else f"{upper_first(word)} means: {meaning}."
    if len(words) > 1 and rng.random() < 0.4:
        also = "It is also called" if noun else "A similar word is"
        answer += f" {also} {words[1]}."
    if examples and rng.random() < 0.6:
        answer += f" Example: {examples[0]}"
    writer.chat("WordNet", [(question, answer)])
