"""The own conversations: explanations, code, small tasks, follow-ups, tool calls and reasoning."""

import random
from typing import NamedTuple

from corpus.own import arithmetic, code_tasks, data, explanations, small_tasks, tools
from corpus.own.code_tasks import LANGUAGES


class Turn(NamedTuple):
    """A user's words, the model's reasoning if it is to be written, and its answer."""

    user: str
    reasoning: str | None
    answer: str


class Dialogue(NamedTuple):
    """A conversation; `thinking` is the mode that the prompt announces."""

    system: str | None
    turns: list[Turn]
    thinking: bool


class Counts(NamedTuple):
    """How many conversations of each kind are made."""

    terms: int = 14000
    questions: int = 12000
    differences: int = 2500
    code: int = 22000
    small: int = 22000
    follow_ups: int = 12000
    tools: int = 2500
    thinking: int = 6000


SHORT_THOUGHTS = (
    "The user asks a simple question. I can answer it directly.",
    "A short and clear answer is best here.",
    "I should give a direct and correct answer.",
    "The user wants a clear answer. I will keep it short.",
    "I know this. I will answer in one or two sentences.",
)
EXAMPLE_REQUESTS = (
    "Can you give me an example?",
    "Give me an example.",
    "For example?",
    "Do you have an example?",
)
THANKS = ("Thanks!", "Thank you.", "Great, thanks.")
WELCOMES = ("You're welcome!", "You're welcome! Let me know if you have more questions.")


def _example(rng: random.Random) -> list[tuple[str, str]]:
    """Explain a term, then give an example."""
    explained = explanations.term(rng)
    turns = [(explained.question, explained.answer.split(" For example")[0])]
    turns.append((rng.choice(EXAMPLE_REQUESTS), explained.example))
    if rng.random() < 0.4:
        turns.append((rng.choice(THANKS), rng.choice(WELCOMES)))
    return turns


def _other_language(rng: random.Random) -> list[tuple[str, str]]:
    """Write a function, then again in another language."""
    task = rng.choice(code_tasks.all_tasks())
    first, second = (LANGUAGES[i] for i in rng.sample(range(3), 2))
    forms = (
        f"Now in {second}.",
        f"And in {second}?",
        f"Can you write it in {second}?",
        f"Translate it to {second}.",
        f"How does it look in {second}?",
    )
    turns = [(code_tasks.question(rng, task, first), code_tasks.answer(rng, task, first))]
    turns.append((rng.choice(forms), code_tasks.answer(rng, task, second)))
    return turns


def _memory(rng: random.Random) -> list[tuple[str, str]]:
    """Introduce oneself, and ask later what was said."""
    words = data.table("words")
    name, city = rng.choice(words["names"]), rng.choice(words["cities"])
    greetings = (f"My name is {name}.", f"Hi, I am {name}.", f"Hello! My name is {name}.")
    turns = [(rng.choice(greetings), f"Nice to meet you, {name}! How can I help you?")]
    lives_here = rng.random() < 0.6
    if lives_here:
        reply = f"{city} is a nice place to live. What can I do for you?"
        turns.append((f"I live in {city}.", reply))
    if rng.random() < 0.4:
        turns.append(small_tasks.task(rng))
    asked = rng.choice(["What is my name?", "Do you remember my name?"])
    turns.append((asked, f"Your name is {name}."))
    if len(turns) > 2 and rng.random() < 0.5 and any("live in" in user for user, _ in turns):
        turns.append(("Where do I live?", f"You live in {city}."))
    return turns


def _chained_sum(rng: random.Random) -> list[tuple[str, str]]:
    """Ask a sum, then multiply its result."""
    a, b, c = rng.randint(2, 50), rng.randint(2, 40), rng.randint(2, 9)
    then = rng.choice([f"And times {c}?", f"Multiply that by {c}."])
    return [
        (f"What is {a} + {b}?", f"{a} + {b} = {a + b}"),
        (then, f"{a + b} * {c} = {(a + b) * c}"),
    ]


def _unrelated(rng: random.Random) -> list[tuple[str, str]]:
    """Ask a few questions that have nothing to do with each other."""
    kinds = (
        explanations.question,
        lambda rng: explanations.term(rng)[:2],
        small_tasks.task,
        explanations.difference,
    )
    return [rng.choice(kinds)(rng) for _ in range(rng.randint(2, 4))]


# A kind stands as often as it is to be drawn.
FOLLOW_UPS = (
    _example,
    _example,
    _other_language,
    _other_language,
    _memory,
    _chained_sum,
    _unrelated,
)


def tool_dialogue(rng: random.Random) -> Dialogue:
    """Make a conversation with tools, of which the model calls one."""
    use = tools.random_use(rng)
    schemas = tools.schemas()
    others = rng.sample([name for name in schemas if name != use.tool], rng.choice([0, 1, 1, 2]))
    offered = [use.tool, *others]
    rng.shuffle(offered)
    thinking = rng.random() < 0.35
    instruction = rng.choice(["", "", "You are a helpful assistant."])
    listed = "\n".join(tools.compact(schemas[name]) for name in offered)
    system = f"{instruction}\n\n{tools.preamble(listed)}"
    answer = use.answer or f"The file {use.arguments.get('path')} contains: {use.result}"
    if rng.random() < 0.08:
        # Some questions need no tool.
        term = rng.choice(data.lines("terms"))
        turns = [Turn(f"What is {term['term']}?", None, term["definition"])]
        return Dialogue(system, turns, thinking)
    call = tools.block([tools.invocation(use.tool, use.arguments)])
    turns = [Turn(use.question, use.thought if thinking else None, call)]
    if rng.random() < 0.6:
        thought = "The tool has answered. I can tell the user." if thinking else None
        turns.append(Turn(f"<tool_result>{use.result}</tool_result>", thought, answer))
    return Dialogue(system, turns, thinking)


def _thinking_turn(rng: random.Random) -> Turn:
    """Make a question that is answered after some reasoning."""
    if rng.random() < 0.5:
        return Turn(*arithmetic.worked(rng))
    kind = rng.randrange(4)
    if kind == 0:
        user, answer, _, term = explanations.term(rng)
        about = f"The user asks about {term}. I will explain it in simple words."
        return Turn(user, rng.choice([about, rng.choice(SHORT_THOUGHTS)]), answer)
    if kind == 1:
        user, answer = explanations.question(rng)
        return Turn(user, rng.choice(SHORT_THOUGHTS), answer)
    if kind == 2:
        task = rng.choice(code_tasks.all_tasks())
        language = LANGUAGES[rng.randrange(3)]
        user = code_tasks.question(rng, task, language)
        answer = code_tasks.answer(rng, task, language)
        thought = f"The user wants a {language} function to {task['task']}. I will write it."
        return Turn(user, thought, answer)
    user, answer = explanations.difference(rng)
    return Turn(user, "I should compare both things in one sentence.", answer)


def _code_pair(rng: random.Random, task: dict[str, str]) -> tuple[str, str]:
    """Ask for a function; Python is sometimes meant without being named."""
    language = LANGUAGES[rng.choice([0, 0, 1, 1, 2])]
    if language == "Python" and rng.random() < 0.35:
        return code_tasks.open_question(rng, task), code_tasks.answer(rng, task, language)
    return code_tasks.question(rng, task, language), code_tasks.answer(rng, task, language)


def generate(seed: int = 0, counts: Counts | None = None) -> list[Dialogue]:
    """Make all own conversations, shuffled; the same for the same seed."""
    counts = counts or Counts()
    rng = random.Random(seed)
    terms, questions = data.lines("terms"), data.lines("questions")
    tasks = code_tasks.all_tasks()
    pairs: list[tuple[str, str]] = []
    pairs += [explanations.term(rng, terms[i % len(terms)])[:2] for i in range(counts.terms)]
    pairs += [
        explanations.question(rng, questions[i % len(questions)]) for i in range(counts.questions)
    ]
    pairs += [explanations.difference(rng) for _ in range(counts.differences)]
    pairs += [_code_pair(rng, tasks[i % len(tasks)]) for i in range(counts.code)]
    pairs += [small_tasks.task(rng) for _ in range(counts.small)]
    made = [Dialogue(None, [Turn(user, None, answer)], False) for user, answer in pairs]
    for _ in range(counts.follow_ups):
        turns = FOLLOW_UPS[rng.randrange(len(FOLLOW_UPS))](rng)
        made.append(Dialogue(None, [Turn(user, None, answer) for user, answer in turns], False))
    made += [tool_dialogue(rng) for _ in range(counts.tools)]
    made += [Dialogue(None, [_thinking_turn(rng)], True) for _ in range(counts.thinking)]
    rng.shuffle(made)
    return made
