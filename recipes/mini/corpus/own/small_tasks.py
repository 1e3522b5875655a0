"""One random short task with a checkable answer."""

import random
from collections.abc import Callable

from corpus.own import arithmetic, data, data_tasks, words

Task = Callable[[random.Random], tuple[str, str]]
NamedTask = Callable[[random.Random, str], tuple[str, str]]


def _unnamed(task: Task) -> NamedTask:
    """Give a task that needs no person the form of one that does."""
    return lambda rng, _name: task(rng)


# A task stands as often as it is to be drawn.
TASKS: tuple[NamedTask, ...] = (
    *[_unnamed(arithmetic.simple)] * 3,
    _unnamed(arithmetic.shown),
    _unnamed(arithmetic.comparison),
    _unnamed(arithmetic.sequence),
    _unnamed(words.enumeration),
    *[_unnamed(words.translation)] * 2,
    _unnamed(words.opposite),
    _unnamed(words.synonym),
    _unnamed(words.plural),
    _unnamed(words.past_tense),
    _unnamed(words.correction),
    _unnamed(words.sentiment),
    *[words.summary] * 2,
    _unnamed(words.unanswerable),
    _unnamed(words.spelling),
    _unnamed(arithmetic.sorting),
    *[data_tasks.to_json] * 2,
    data_tasks.extraction,
    _unnamed(data_tasks.sql),
    _unnamed(data_tasks.shell),
    _unnamed(data_tasks.broken_code),
)


def task(rng: random.Random) -> tuple[str, str]:
    """Return a question and its answer."""
    chosen = TASKS[rng.randrange(len(TASKS))]
    return chosen(rng, rng.choice(data.table("words")["names"]))
