"""The basics, repeated often: facts, well-known functions, capitals, stories and sums."""

import random
from typing import NamedTuple

from corpus.own import data
from corpus.own.arithmetic import WORDS, apply
from corpus.own.wording import say

Pair = tuple[str, str]

NAMES = "Lily Tom Mia Ben Anna Leo Ruby Sam Nora Max Ella Finn Ivy Oscar Zoe Hugo".split()
ANIMALS = "cat dog fox rabbit bear mouse owl frog duck horse squirrel hedgehog".split()
PLACES = (
    "a small village",
    "a green forest",
    "a house by the sea",
    "a quiet town",
    "a farm on a hill",
    "a little cabin near a lake",
)
OBJECTS = (
    "a red ball",
    "a shiny key",
    "a blue kite",
    "an old map",
    "a warm scarf",
    "a small boat",
    "a golden bell",
    "a bag of seeds",
)
FRIENDS = ("bird", "turtle", "bee", "goat", "butterfly", "snail", "old man", "kind woman")
STARTS = ("Once upon a time, there was", "One day, there was", "Long ago, there lived")
STORY_REQUESTS = (
    "Tell me a story about {name}.",
    "Tell me a short story.",
    "Write a short story about {object}.",
    "Write a story for children.",
    "Tell me a story about {name} and {object}.",
)
SUM_REQUESTS = (
    "What is {a} {op} {b}?",
    "Calculate {a} {op} {b}.",
    "What is {a} {word} {b}?",
    "{a} {op} {b} =",
)
CODE_REQUESTS = (
    "Write a {language} function that {does}.",
    "Write a {noun} function in {language}.",
    "How do I write a {language} function that {does}?",
    "Show me a {noun} example in {language}.",
    "Implement {noun} in {language}.",
    "{language} code for {noun}",
)
CODE_REQUESTS_WITHOUT_LANGUAGE = ("Write a {noun} function", "Write a function that {does}.")
CAPITAL_REQUESTS = (
    "What is the capital of {country}?",
    "Tell me the capital of {country}.",
    "Capital of {country}?",
)
CHAINED = 4000


class Counts(NamedTuple):
    """How much of each kind is made; `repeats` is how often a fact comes."""

    stories: int
    sums: int
    repeats: int


class Story(NamedTuple):
    """A story and what it is about."""

    name: str
    object: str
    text: str


def story(rng: random.Random) -> Story:
    """Tell a short story of seven or eight sentences."""
    name, animal = rng.choice(NAMES), rng.choice(ANIMALS)
    place, found = rng.choice(PLACES), rng.choice(OBJECTS)
    thing = found.split(" ", 1)[1]
    hero = rng.choice(
        [
            f"a child named {name}",
            f"a little {animal} named {name}",
            f"a girl named {name}",
            f"a boy named {name}",
        ]
    )
    friend, start = rng.choice(FRIENDS), rng.choice(STARTS)
    told = [f"{start} {hero} who lived in {place}."]
    told.append(
        rng.choice(
            [
                f"Every morning, {name} went outside to play.",
                f"{name} loved to walk and look at the clouds.",
                f"{name} liked to help the neighbors.",
            ]
        )
    )
    told.append(
        rng.choice(
            [
                f"One sunny day, {name} found {found} under a tree.",
                f"One day, {name} lost {found} and felt very sad.",
                f"One evening, {name} saw {found} lying on the path.",
            ]
        )
    )
    told += (
        _loss(rng, name, friend, thing) if "lost" in told[-1] else _gift(rng, name, friend, thing)
    )
    told.append(
        rng.choice(
            [
                f"From that day on, {name} was never lonely again.",
                f"{name} went home with a big smile.",
                f"{name} learned that it is good to be kind.",
                "And they played together until the sun went down.",
            ]
        )
    )
    return Story(name, found, " ".join(told))


def _loss(rng: random.Random, name: str, friend: str, thing: str) -> list[str]:
    """Tell how a friend helps to find what was lost."""
    came = rng.choice(
        [
            f'A {friend} came by and asked, "What is wrong?"',
            f'A {friend} saw it and said, "Can I help you?"',
        ]
    )
    searched = rng.choice(
        [
            f'"I cannot find my {thing}," said {name}. Together they looked behind every bush.',
            f"{name} told the {friend} about the {thing}, and they searched all day.",
        ]
    )
    return [came, searched, f"At last they found the {thing} near the river."]


def _gift(rng: random.Random, name: str, friend: str, thing: str) -> list[str]:
    """Tell how what was found makes a friend."""
    came = rng.choice(
        [
            f'A {friend} came by and said, "That is mine!"',
            f"A {friend} looked at it and smiled.",
        ]
    )
    gave = rng.choice(
        [
            f"{name} thought for a moment and gave the {thing} to the {friend}.",
            f'"Let us share it," said {name}.',
        ]
    )
    return [came, gave, f"The {friend} was so happy that the two became friends."]


def _fact_wordings(question: str) -> list[str]:
    """Return a question with its other wordings."""
    if question.startswith("What is "):
        term = question[8:-1]
        return [
            question,
            f"Explain {term}.",
            f"Tell me about {term}.",
            f"what is {term}?",
            f"Can you explain what {term} is?",
            f"Describe {term} in simple words.",
        ]
    if question.startswith("How do I "):
        return [question, f"How can I {question[9:]}", f"Please tell me how to {question[9:-1]}."]
    return [question]


def _facts(rng: random.Random, repeats: int) -> list[Pair]:
    """Ask every fact `repeats` times."""
    pairs = []
    for entry in data.lines("first_facts"):
        question, wordings = entry["question"], _fact_wordings(entry["question"])
        for _ in range(repeats):
            # The wording is drawn before it is known whether it is used.
            asked = rng.choice(wordings) if rng.random() < 0.6 else question
            pairs.append((asked, entry["answer"]))
    return pairs


def _code(rng: random.Random, repeats: int) -> list[Pair]:
    """Ask every well-known function in every language `repeats` times."""
    pairs = []
    for entry in data.lines("first_code"):
        does = entry["does"]
        for language, code in entry["solutions"].items():
            block = f"```{language.lower()}\n{code}\n```"
            requests = list(CODE_REQUESTS)
            if language == "Python":
                requests += CODE_REQUESTS_WITHOUT_LANGUAGE
            answers = (
                block,
                f"Here is a {language} function that {does}:\n\n{block}",
                f"{block}\n\nThis code {does}.",
            )
            for _ in range(repeats):
                asked = say(rng, requests, language=language, does=does, noun=entry["noun"])
                pairs.append((asked, rng.choice(answers)))
    return pairs


def _sum(rng: random.Random) -> Pair:
    """Ask one sum."""
    a, b = rng.randint(0, 99), rng.randint(0, 99)
    op = rng.choice("+-*")
    if op == "*":
        a, b = rng.randint(0, 12), rng.randint(0, 12)
    if op == "-" and b > a:
        a, b = b, a
    asked = say(rng, SUM_REQUESTS, a=a, b=b, op=op, word=WORDS[op])
    return asked, f"{a} {op} {b} = {apply(op, a, b)}"


def generate(counts: Counts, seed: int = 0) -> list[list[Pair]]:
    """Make conversations of one pair each, and some chains of them, shuffled."""
    rng = random.Random(seed)
    pairs = _facts(rng, counts.repeats) + _code(rng, counts.repeats // 2)
    for entry in data.lines("capitals"):
        country, capital = entry["country"], entry["capital"]
        for _ in range(counts.repeats // 4):
            asked = say(rng, CAPITAL_REQUESTS, country=country)
            pairs.append((asked, f"The capital of {country} is {capital}."))
    for _ in range(counts.stories):
        told = story(rng)
        pairs.append((say(rng, STORY_REQUESTS, name=told.name, object=told.object), told.text))
    pairs += [_sum(rng) for _ in range(counts.sums)]
    single = [[pair] for pair in pairs]
    chained = []
    for _ in range(CHAINED):
        chained.append([pair for [pair] in rng.sample(single, rng.randint(2, 4))])
    made = single + chained
    rng.shuffle(made)
    return made
