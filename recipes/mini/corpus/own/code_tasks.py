"""Short functions in three languages, asked for in many wordings."""

import random
from typing import Any

from corpus.own import data
from corpus.own.wording import say

LANGUAGES = ("Python", "Rust", "JavaScript")

WITH_LANGUAGE = (
    "Write a {language} function that {does}.",
    "Write a function in {language} that {does}.",
    "{language} function that {does}",
    "How do I {task} in {language}?",
    "Give me {language} code to {task}.",
    "Show me how to {task} in {language}.",
    "I need a {language} function to {task}.",
    "Can you write a {language} function that {does}?",
    "Write {language} code to {task}.",
    "Implement a {language} function that {does}.",
)
WITHOUT_LANGUAGE = (
    "Write a function that {does}.",
    "Write code to {task}.",
    "Write a function to {task}.",
    "Can you write a function that {does}?",
)


def all_tasks() -> list[dict[str, Any]]:
    """Return every task: what the function `does`, the `task`, its `name`, and three solutions."""
    return data.lines("code_tasks")


def camel_case(name: str) -> str:
    """Turn `a_name` into `aName`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def question(rng: random.Random, task: dict[str, Any], language: str) -> str:
    """Ask for a task in a language."""
    return say(rng, WITH_LANGUAGE, language=language, does=task["does"], task=task["task"])


def open_question(rng: random.Random, task: dict[str, Any]) -> str:
    """Ask for a task without naming a language."""
    return say(rng, WITHOUT_LANGUAGE, does=task["does"], task=task["task"])


def answer(rng: random.Random, task: dict[str, Any], language: str) -> str:
    """Answer with the solution in a language, sometimes with a sentence."""
    code = f"```{language.lower()}\n{task[language.lower()]}\n```"
    name = camel_case(task["name"]) if language == "JavaScript" else task["name"]
    forms = (
        code,
        code,
        f"Here is a {language} function that {task['does']}:\n\n{code}",
        f"{code}\n\nThe function `{name}` {task['does']}.",
        f"You can {task['task']} like this:\n\n{code}",
    )
    return rng.choice(forms)
