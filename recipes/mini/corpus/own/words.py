"""Tasks about words and short texts."""

import random

from corpus.own import data
from corpus.own.wording import and_last, say, upper_first

NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()
SPELLED = (
    "apple river garden window planet silver monkey yellow castle rocket summer bridge orange "
    "pencil forest"
).split()
GROWN = ("tomatoes", "beans", "carrots", "strawberries", "potatoes")
BOUGHT = ("bread", "cheese", "apples", "milk", "eggs", "rice", "fish", "tomatoes")
SKILLS = (
    ("the piano", "play the piano"),
    ("French", "speak French"),
    ("chess", "play chess"),
    ("swimming", "swim"),
    ("painting", "paint"),
)
LIST_QUESTIONS = (
    "List {count} {what}.",
    "Name {count} {what}.",
    "Give me {count} {what}.",
    "Tell me {count} {what}.",
    "Can you list {count} {what}?",
)
TRANSLATION_QUESTIONS = (
    'Translate "{word}" into {language}.',
    "How do you say {word} in {language}?",
    "What is {word} in {language}?",
    "What is the {language} word for {word}?",
    "Translate the word {word} to {language}.",
)
TRANSLATION_ANSWERS = (
    '"{capital}" in {language} is "{translated}".',
    'The {language} word for {word} is "{translated}".',
)
SUMMARY_QUESTIONS = (
    "Summarize this text in one sentence: {text}",
    "Give a short summary: {text}",
    "{text}\n\nSummarize this.",
    "TL;DR: {text}",
    "What is this text about? {text}",
)


def enumeration(rng: random.Random) -> tuple[str, str]:
    """Ask for some members of a kind of thing."""
    lists = data.table("words")["lists"]
    what = rng.choice(list(lists))
    members = lists[what]
    count = rng.randint(2, min(6, len(members)))
    written = NUMBERS[count] if rng.random() < 0.8 else str(count)
    style = rng.randrange(3)
    chosen = members[:count] if rng.random() < 0.6 else rng.sample(members, count)
    asked = say(rng, LIST_QUESTIONS, count=written, what=what)
    if style == 0:
        return asked, "\n".join(f"{i}. {member}" for i, member in enumerate(chosen, start=1))
    if style == 1:
        return asked, "\n".join(f"- {member}" for member in chosen)
    return asked, upper_first(and_last(chosen)) + "."


def random_translation(rng: random.Random) -> tuple[str, str, str]:
    """Return a word, a language and the word in that language."""
    words = data.table("words")
    word = rng.choice(list(words["translations"]))
    i = rng.randrange(4)
    return word, words["languages"][i], words["translations"][word][i]


def translation(rng: random.Random) -> tuple[str, str]:
    """Ask for a word in another language."""
    word, language, translated = random_translation(rng)
    values = {"word": word, "language": language}
    asked = say(rng, TRANSLATION_QUESTIONS, **values)
    values |= {"capital": upper_first(word), "translated": translated}
    return asked, say(rng, TRANSLATION_ANSWERS, **values)


def _related(rng: random.Random, kind: str) -> tuple[str, str]:
    """Return a pair of `data/words.json`."""
    first, second = rng.choice(data.table("words")[kind])
    return first, second


def opposite(rng: random.Random) -> tuple[str, str]:
    """Ask for an opposite, in either direction."""
    a, b = _related(rng, "opposites")
    if rng.random() >= 0.6:
        a, b = b, a
    forms = ("What is the opposite of {a}?", "Opposite of {a}?", "Give me an antonym of {a}.")
    return say(rng, forms, a=a), f"The opposite of {a} is {b}."


def synonym(rng: random.Random) -> tuple[str, str]:
    """Ask for a synonym."""
    a, b = _related(rng, "synonyms")
    forms = ("What is a synonym for {a}?", "Give me another word for {a}.", "Synonym of {a}?")
    return say(rng, forms, a=a), f"A synonym for {a} is {b}."


def plural(rng: random.Random) -> tuple[str, str]:
    """Ask for a plural."""
    a, b = _related(rng, "plurals")
    forms = ("What is the plural of {a}?", "Plural of {a}?")
    return say(rng, forms, a=a), f"The plural of {a} is {b}."


def past_tense(rng: random.Random) -> tuple[str, str]:
    """Ask for a past tense."""
    a, b = _related(rng, "past_tenses")
    forms = ("What is the past tense of {a}?", "Past tense of {a}?")
    return say(rng, forms, a=a), f"The past tense of {a} is {b}."


def correction(rng: random.Random) -> tuple[str, str]:
    """Ask to correct a sentence."""
    wrong, right = _related(rng, "corrections")
    forms = (
        "Fix this sentence: {wrong}",
        "Correct the grammar: {wrong}",
        "Is this sentence correct? {wrong}",
        "Please correct: {wrong}",
    )
    asked = say(rng, forms, wrong=wrong)
    return asked, rng.choice([right, f"The correct sentence is: {right}"])


def sentiment(rng: random.Random) -> tuple[str, str]:
    """Ask whether a review is positive or negative."""
    label = "positive" if rng.random() < 0.5 else "negative"
    review = rng.choice(data.table("texts")[f"{label}_reviews"])
    forms = (
        "Is this review positive or negative? {review}",
        "What is the sentiment of this text? {review}",
        "Classify as positive or negative: {review}",
    )
    asked = say(rng, forms, review=review)
    return asked, rng.choice([f"{upper_first(label)}.", f"The sentiment is {label}."])


def summary(rng: random.Random, name: str) -> tuple[str, str]:
    """Ask for a summary of a short text about `name`."""
    words = data.table("words")
    grown = rng.choice(GROWN)
    text, short = rng.choice(data.table("texts")["summaries"])
    bought = rng.sample(BOUGHT, 3)
    skill, doing = rng.choice(SKILLS)
    pronoun = "she" if name in words["feminine_names"] else "he"
    values = {"n": name, "p": pronoun, "P": upper_first(pronoun)}
    values |= {"t": rng.choice(words["cities"]), "s": skill, "s2": doing}
    values |= dict(zip("abc", bought, strict=True)) if "{b}" in text else {"a": grown}
    return say(rng, SUMMARY_QUESTIONS, text=text.format(**values)), short.format(**values)


def unanswerable(rng: random.Random) -> tuple[str, str]:
    """Ask what a small offline model cannot know."""
    texts = data.table("texts")
    return rng.choice(texts["unanswerable"]), rng.choice(texts["refusals"])


def spelling(rng: random.Random) -> tuple[str, str]:
    """Ask about the letters of a word."""
    word = rng.choice(SPELLED)
    forms = (
        (f"How many letters are in the word {word}?", f"The word {word} has {len(word)} letters."),
        (f"What is the first letter of {word}?", f"The first letter of {word} is {word[0]}."),
        (f"Write {word} in capital letters.", word.upper()),
        (f"Spell the word {word}.", "-".join(word.upper())),
    )
    return forms[rng.randrange(4)]
