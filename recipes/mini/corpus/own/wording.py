"""Small helpers for varying how something is said."""

import random
from collections.abc import Sequence


def say(rng: random.Random, templates: Sequence[str], **values: object) -> str:
    """Choose a template and fill in its fields."""
    return rng.choice(templates).format(**values)


def upper_first(text: str) -> str:
    """Return the text with its first character in upper case."""
    return text[0].upper() + text[1:]


def lower_first(text: str) -> str:
    """Return the text with its first character in lower case."""
    return text[0].lower() + text[1:]


def joined(items: Sequence[object]) -> str:
    """Return the items, separated by commas."""
    return ", ".join(map(str, items))


def and_last(items: Sequence[object]) -> str:
    """Return the items as in `a, b and c`."""
    return f"{joined(items[:-1])} and {items[-1]}"
