"""Pages about commands."""

import re

from corpus.own.wording import lower_first, say
from corpus.repositories import Repositories
from corpus.writer import Writer

PAGE_QUESTIONS = (
    "How do I use `{name}`?",
    "What does the command `{name}` do?",
    "Show me examples of the {name} command.",
)
EXAMPLE_QUESTIONS = ("{what} with {name}.", "How do I {small} with {name}?")
NO_DESCRIPTION = ("More information", "See also")


def tldr(writer: Writer, repositories: Repositories) -> None:
    """Add tldr-pages, its contributors, CC BY 4.0: whole pages, and single examples."""
    for _, content in repositories.search("tldr-pages/tldr", r"^pages/[^/]+/.*\.md$"):
        page = content.decode()
        title, body = page.split("\n", 1)
        name, lines = title.strip("# ").strip(), body.strip().splitlines()
        described = [
            line[2:]
            for line in lines
            if line.startswith("> ") and not any(mark in line for mark in NO_DESCRIPTION)
        ]
        examples = "\n".join(line for line in lines if not line.startswith(">")).strip()
        examples = re.sub(r"\n\n`", "\n\n  `", examples)
        question = say(writer.rng, PAGE_QUESTIONS, name=name)
        writer.chat("tldr", [(question, f"{' '.join(described)}\n\n{examples}")])
        for match in re.finditer(r"^- (.*?):\n\n`(.*?)`$", page, re.MULTILINE):
            if writer.rng.random() < 0.35:
                what, command = match.groups()
                command = re.sub(r"\{\{(.*?)\}\}", r"\1", command)
                values = {"what": what, "small": lower_first(what), "name": name}
                question = say(writer.rng, EXAMPLE_QUESTIONS, **values)
                writer.chat("tldr", [(question, f"Run:\n\n```sh\n{command}\n```")])
