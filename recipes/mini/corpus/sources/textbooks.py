"""OpenStax text books."""

import re
import sys
import xml.etree.ElementTree as ET

from corpus.own.wording import say, upper_first
from corpus.repositories import Repositories
from corpus.writer import Writer, mostly_latin

BOOKS = ("openstax/osbooks-physics", "openstax/osbooks-principles-economics-bundle")
LICENCE = "Attribution 4.0 International"
TERM_QUESTIONS = (
    "What is {term}?",
    "Define {term}.",
    "What does {term} mean?",
    "Explain {term}.",
)
SECTION_QUESTIONS = (
    "Explain: {title}",
    "Tell me about {title}.",
    "What should I know about {title}?",
)
LONGEST_ANSWER = 1500


def _tag(element: ET.Element) -> str:
    """Return the name of an element without its namespace."""
    return element.tag.split("}")[-1]


def _text(element: ET.Element) -> str:
    """Return the text of an element in one line."""
    return re.sub(r"\s+", " ", "".join(element.itertext())).strip()


def _children(element: ET.Element, tag: str) -> list[ET.Element]:
    """Return the direct children of a name."""
    return [child for child in element if _tag(child) == tag]


def _paragraphs(element: ET.Element) -> list[str]:
    """Return the paragraphs without formulas."""
    found = []
    for paragraph in element.iter():
        if _tag(paragraph) != "para" or any(_tag(part) == "math" for part in paragraph.iter()):
            continue
        text = _text(paragraph)
        if len(text) > 60:
            found.append(text)
    return found


def openstax(writer: Writer, repositories: Repositories) -> None:
    """Add Physics and Principles of Economics, OpenStax, Rice University, CC BY 4.0."""
    for name in BOOKS:
        if not repositories.show(name, "LICENSE").decode().startswith(LICENCE):
            sys.exit(f"{name}: expected the licence {LICENCE}")
        for _, content in repositories.search(name, r"index\.cnxml$"):
            try:
                page = ET.fromstring(content)
            except ET.ParseError:
                continue
            _page(writer, page)


def _page(writer: Writer, page: ET.Element) -> None:
    """Ask for terms and sections of a page, and keep its paragraphs as running text."""
    for definition in page.iter():
        if _tag(definition) == "definition":
            _definition(writer, definition)
    titles = [_text(title) for title in _children(page, "title")]
    for content in _children(page, "content"):
        paragraphs = _paragraphs(content)
        for section in content.iter():
            if _tag(section) == "section":
                _section(writer, section)
        text = "\n\n".join([*titles[:1], "\n\n".join(paragraphs)])
        if mostly_latin(text):
            writer.plain("prose", "OpenStax", text)


def _definition(writer: Writer, definition: ET.Element) -> None:
    """Ask for the meaning of a term."""
    terms = [_text(term) for term in _children(definition, "term")]
    meanings = [_text(meaning) for meaning in _children(definition, "meaning")]
    if terms and meanings and len(meanings[0]) > 15 and len(terms[0]) < 50:
        term, meaning = terms[0], meanings[0].rstrip(".")
        question = say(writer.rng, TERM_QUESTIONS, term=term)
        writer.chat("OpenStax", [(question, f"{upper_first(term)}: {meaning}.")])


def _section(writer: Writer, section: ET.Element) -> None:
    """Ask about the title of a section; the answer is its first paragraphs."""
    titles = [_text(title) for title in _children(section, "title")]
    paragraphs = _paragraphs(section)
    if not titles or not paragraphs or not 4 < len(titles[0]) < 70 or writer.rng.random() >= 0.6:
        return
    answer = ""
    for paragraph in paragraphs:
        if len(answer) + len(paragraph) > LONGEST_ANSWER:
            break
        answer += ("\n\n" if answer else "") + paragraph
    if answer:
        question = say(writer.rng, SECTION_QUESTIONS, title=titles[0])
        writer.chat("OpenStax", [(question, answer)])
