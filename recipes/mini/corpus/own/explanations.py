"""Terms, plain questions and differences, asked for in many wordings."""

import random
from typing import NamedTuple

from corpus.own import data
from corpus.own.wording import lower_first, say, upper_first

TERM_QUESTIONS = (
    "What is {term}?",
    "What is {term}?",
    "what is {term}",
    "Explain {term}.",
    "Explain {term} in simple words.",
    "Can you explain what {term} is?",
    "Define {bare}.",
    "Tell me about {term}.",
    "What does {bare} mean?",
    "{capital}?",
    "Please explain {term} to me.",
    "I am new to this. What is {term}?",
    "Describe {term} in one sentence.",
    "Could you tell me what {term} is?",
    "What exactly is {term}?",
)
DIFFERENCE_QUESTIONS = (
    "What is the difference between {a} and {b}?",
    "Difference between {a} and {b}?",
    "Explain the difference between {a} and {b}.",
    "How is {a} different from {b}?",
    "Compare {a} and {b}.",
    "{capital} or {b}: what is the difference?",
)
QUESTION_STARTS = (
    "Why ",
    "How does",
    "How do ",
    "Who ",
    "When ",
    "Which ",
    "How many",
    "How far",
    "How old",
    "What is the ",
)
REQUEST_STARTS = ("Give me", "Write", "Tell me", "Recommend", "Explain")


class Explained(NamedTuple):
    """A question about a term, its answer, and what a follow-up can use."""

    question: str
    answer: str
    example: str
    term: str


def term(rng: random.Random, entry: dict[str, str] | None = None) -> Explained:
    """Ask about a term: the given one, or a random one."""
    entry = entry or rng.choice(data.lines("terms"))
    name, definition, more, example = entry.values()
    has_article = name.split()[0] in ("a", "an", "the")
    bare = name.split(" ", 1)[1] if has_article else name
    question = say(rng, TERM_QUESTIONS, term=name, bare=bare, capital=upper_first(bare))
    answer = definition
    if "one sentence" not in question:
        answer += rng.choice(["", f" {more}", f" {more}", f" {more} {example}"])
    return Explained(question, answer, example, name)


def _other_wording(rng: random.Random, question: str, lower: bool) -> str:
    """Ask a known question in other words; `lower` writes it in lower case where that is a form."""
    small = lower_first(question)
    if question.startswith("How do I "):
        rest = question[9:]
        forms = [
            f"How can I {rest}",
            f"How to {rest}",
            f"Tell me how to {rest[:-1]}.",
            f"What is the best way to {rest}",
            f"Please explain how to {rest[:-1]}.",
            f"how do i {rest[:-1]}",
        ]
    elif question.startswith("How can I "):
        rest = question[10:]
        forms = [f"How do I {rest}", f"What can I do to {rest}", f"Any tips on how to {rest}"]
        forms.append(f"How to {rest}")
    elif question.startswith(QUESTION_STARTS):
        forms = [
            question.lower() if lower else question,
            f"Do you know? {question}",
            f"Can you tell me: {small}",
            question.rstrip("?"),
            f"Quick question: {small}",
            f"Please answer: {small}",
        ]
    elif question.startswith(REQUEST_STARTS):
        one_line = "\n" not in question and "code:" not in question
        polite = f"Can you {small}".rstrip(".") + "?" if one_line else question
        forms = [f"Please {small}", polite, f"I want you to {small}", question.rstrip(".")]
    else:
        return question
    return rng.choice(forms)


def question(rng: random.Random, entry: dict[str, str] | None = None) -> tuple[str, str]:
    """Ask a plain question: the given one, or a random one; returns it with its answer."""
    entry = entry or rng.choice(data.lines("questions"))
    draw = rng.random()
    if draw < 0.45:
        return entry["question"], entry["answer"]
    return _other_wording(rng, entry["question"], lower=draw < 0.6), entry["answer"]


def difference(rng: random.Random) -> tuple[str, str]:
    """Ask how two things differ, in either order."""
    entry = rng.choice(data.lines("differences"))
    first, second = entry["first"], entry["second"]
    if rng.random() < 0.3:
        first, second = second, first
    asked = say(rng, DIFFERENCE_QUESTIONS, a=first, b=second, capital=upper_first(first))
    return asked, entry["answer"]
