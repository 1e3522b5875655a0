"""Sums, with and without the steps."""

import random
from typing import NamedTuple

from corpus.own import data
from corpus.own.wording import joined, say

WORDS = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}
THINGS = ("apples", "books", "coins", "cards", "eggs", "pens", "stamps", "cookies")
QUESTIONS = (
    "What is {a} {op} {b}?",
    "Calculate {a} {op} {b}.",
    "{a} {word} {b}?",
    "How much is {a} {word} {b}?",
    "{a} {op} {b}",
    "Compute {a} {op} {b}.",
)


class Worked(NamedTuple):
    """A question, the steps to its answer, and the answer."""

    question: str
    steps: str
    answer: str


def apply(op: str, a: int, b: int) -> int:
    """Return `a op b`; a division must come out even."""
    return {"+": a + b, "-": a - b, "*": a * b, "/": a // max(1, b)}[op]


def simple(rng: random.Random) -> tuple[str, str]:
    """Ask one sum of small numbers."""
    a, b = rng.randint(0, 99), rng.randint(0, 99)
    op = rng.choice("++--**/")
    if op == "*":
        a, b = rng.randint(0, 12), rng.randint(0, 12)
    if op == "-" and b > a:
        a, b = b, a
    if op == "/":
        b = rng.randint(1, 12)
        a = b * rng.randint(1, 12)
    asked = say(rng, QUESTIONS, a=a, b=b, op=op, word=WORDS[op])
    return asked, f"{a} {op} {b} = {apply(op, a, b)}"


def worked(rng: random.Random) -> Worked:
    """Ask a sum of two-digit numbers, answered in steps."""
    a, b = rng.randint(11, 99), rng.randint(11, 99)
    kind = rng.randrange(4)
    tens_a, ones_a, tens_b, ones_b = a // 10 * 10, a % 10, b // 10 * 10, b % 10
    if kind == 0:
        tens, ones = tens_a + tens_b, ones_a + ones_b
        steps = (
            f"{a} + {b}: first {tens_a} + {tens_b} = {tens}, then {ones_a} + {ones_b} = {ones}. "
            f"Together {tens} + {ones} = {a + b}."
        )
        return Worked(f"What is {a} + {b}?", steps, f"{a} + {b} = {a + b}")
    if kind == 1:
        c = rng.randint(2, 9)
        tens, ones = tens_a * c, ones_a * c
        steps = (
            f"{a} * {c}: {tens_a} * {c} = {tens} and {ones_a} * {c} = {ones}. "
            f"Together {tens} + {ones} = {a * c}."
        )
        return Worked(f"What is {a} * {c}?", steps, f"{a} * {c} = {a * c}")
    if kind == 2:
        a, b = max(a, b), min(a, b)
        left = a - b // 10 * 10
        steps = f"{a} - {b}: {a} - {b // 10 * 10} = {left}, and {left} - {b % 10} = {a - b}."
        return Worked(f"What is {a} - {b}?", steps, f"{a} - {b} = {a - b}")
    return _story(rng, a)


def _story(rng: random.Random, a: int) -> Worked:
    """Ask how many things somebody who starts with `a` has at the end."""
    name = rng.choice(data.table("words")["names"])
    things = rng.choice(THINGS)
    b = rng.randint(2, a - 1)
    if rng.random() < 0.5:
        return Worked(
            f"{name} has {a} {things} and gives {b} away. How many {things} are left?",
            f"{name} starts with {a} {things} and gives away {b}. {a} - {b} = {a - b}.",
            f"{name} has {a - b} {things} left.",
        )
    return Worked(
        f"{name} has {a} {things} and gets {b} more. How many {things} does {name} have now?",
        f"{name} starts with {a} {things} and gets {b} more. {a} + {b} = {a + b}.",
        f"{name} now has {a + b} {things}.",
    )


def shown(rng: random.Random) -> tuple[str, str]:
    """Ask a worked sum and answer without a reasoning part."""
    asked, steps, answer = worked(rng)
    return asked, answer if "=" in answer else f"{steps} {answer}"


def comparison(rng: random.Random) -> tuple[str, str]:
    """Ask which of two numbers is larger."""
    a, b = rng.sample(range(1, 1000), 2)
    forms = (
        "Which is larger, {a} or {b}?",
        "Which number is bigger: {a} or {b}?",
        "Is {a} greater than {b}?",
    )
    return say(rng, forms, a=a, b=b), f"{max(a, b)} is larger than {min(a, b)}."


def sequence(rng: random.Random) -> tuple[str, str]:
    """Ask for the next number of an arithmetic sequence."""
    start, step = rng.randint(1, 20), rng.choice([1, 2, 3, 4, 5, 10])
    numbers = [start + i * step for i in range(5)]
    forms = ("What comes next: {seen}?", "Continue the sequence {seen}.")
    asked = say(rng, forms, seen=joined(numbers[:4]))
    because = f"because each number is {step} more than the one before."
    return asked, f"The next number is {numbers[4]}, {because}"


def sorting(rng: random.Random) -> tuple[str, str]:
    """Ask to sort a few numbers."""
    numbers = rng.sample(range(1, 100), rng.randint(3, 6))
    down = rng.random() < 0.3
    asked = f"Sort these numbers{' in descending order' if down else ''}: {joined(numbers)}"
    # The draw stays although there is one form: it keeps the stream of random numbers.
    return rng.choice([asked]), joined(sorted(numbers, reverse=down))
