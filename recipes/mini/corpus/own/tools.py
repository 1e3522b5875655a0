"""Tool calls in DSML, the markup of DeepSeek-V4.1."""

import json
import random
from typing import NamedTuple

from corpus.own import data
from corpus.own.wording import say, upper_first
from corpus.own.words import random_translation

MARK = "｜DSML｜"

PREAMBLE = """## Tools

You have access to a set of tools to help answer the user's question. You can invoke tools by \
writing a "<%(mark)s calls>" block like the following:

<%(mark)s calls>
<%(mark)s invoke name="$TOOL_NAME">
<%(mark)s parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</%(mark)s parameter>
...
</%(mark)s invoke>
<%(mark)s invoke name="$TOOL_NAME2">
...
</%(mark)s invoke>
</%(mark)s calls>

String parameters should be specified as is and set `string="true"`. For all other types \
(numbers, booleans, arrays, objects), pass the value in JSON format and set `string="false"`.

If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning inside \
<think>...</think> BEFORE any tool calls or final response.

Otherwise, output directly after </think> with tool calls or final response.

### Available Tool Schemas

%(schemas)s

You MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.
"""

WEEK = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
FILES = ("notes.txt", "README.md", "todo.txt", "src/main.rs", "config.json", "data.csv", "log.txt")
MESSAGES = (
    "I will be late",
    "see you tomorrow",
    "happy birthday",
    "call me back",
    "dinner is ready",
    "thank you",
)
ARTISTS = ("Mozart", "Bach", "Beethoven", "Vivaldi", "Chopin", "Miles Davis")
COMMANDS = ("ls -l", "df -h", "git status", "cargo test", "pwd", "date")


class Use(NamedTuple):
    """One use of a tool; an answer of none repeats the result of reading a file."""

    tool: str
    arguments: dict[str, object]
    question: str
    result: str
    answer: str | None
    thought: str


class Surroundings(NamedTuple):
    """What every use may draw on."""

    city: str
    name: str
    a: int
    b: int


def compact(value: object) -> str:
    """Return JSON without escapes of letters."""
    return json.dumps(value, ensure_ascii=False)


def preamble(schemas: str) -> str:
    """Return the text that tells the model of its tools."""
    return PREAMBLE % {"mark": MARK, "schemas": schemas}


def invocation(tool: str, arguments: dict[str, object]) -> str:
    """Return one call without the block around it."""
    lines = []
    for key, value in arguments.items():
        kind, text = ("true", value) if isinstance(value, str) else ("false", compact(value))
        lines.append(f'<{MARK} parameter name="{key}" string="{kind}">{text}</{MARK} parameter>')
    return f'<{MARK} invoke name="{tool}">\n' + "\n".join(lines) + f"\n</{MARK} invoke>"


def block(invocations: list[str]) -> str:
    """Return the block of calls that ends an answer."""
    return f"\n\n<{MARK} calls>\n" + "\n".join(invocations) + f"\n</{MARK} calls>"


def schemas() -> dict[str, dict[str, object]]:
    """Return the schemas of our tools by name."""
    return {tool["name"]: tool for tool in data.lines("tools")}


def _get_weather(rng: random.Random, around: Surroundings) -> Use:
    city = around.city
    degrees = rng.randint(-5, 32)
    sky = rng.choice(["sunny", "cloudy", "rainy", "windy", "clear"])
    forms = (
        "What is the weather in {city}?",
        "How is the weather in {city} today?",
        "Is it warm in {city}?",
        "Weather in {city}?",
        "Tell me the weather in {city}.",
    )
    return Use(
        "get_weather",
        {"city": city},
        say(rng, forms, city=city),
        compact({"city": city, "temperature": degrees, "sky": sky}),
        f"It is {sky} in {city}, with a temperature of {degrees} degrees Celsius.",
        f"The user asks about the weather in {city}. I should call get_weather.",
    )


def _get_time(rng: random.Random, around: Surroundings) -> Use:
    city = around.city
    time = f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}"
    forms = (
        "What time is it in {city}?",
        "Tell me the time in {city}.",
        "Current time in {city}?",
    )
    return Use(
        "get_time",
        {"city": city},
        say(rng, forms, city=city),
        compact({"city": city, "time": time}),
        f"It is {time} in {city}.",
        f"The user wants the time in {city}. I should call get_time.",
    )


def _calculate(rng: random.Random, around: Surroundings) -> Use:
    a, b = around.a, around.b
    op = rng.choice("+-*")
    value = {"+": a + b, "-": a - b, "*": a * b}[op]
    expression = f"{a} {op} {b}"
    forms = ("What is {e}?", "Calculate {e}.", "Please compute {e}.")
    return Use(
        "calculate",
        {"expression": expression},
        say(rng, forms, e=expression),
        compact({"result": value}),
        f"{expression} = {value}",
        "The user wants a calculation. I should use the calculate tool.",
    )


def _add(rng: random.Random, around: Surroundings) -> Use:
    a, b = around.a, around.b
    forms = ("Add {a} and {b}.", "What is {a} plus {b}?", "Please add {a} and {b}.")
    return Use(
        "add",
        {"a": a, "b": b},
        say(rng, forms, a=a, b=b),
        compact({"sum": a + b}),
        f"The sum of {a} and {b} is {a + b}.",
        "The user wants to add two numbers. I should call add.",
    )


def _search(rng: random.Random, around: Surroundings) -> Use:
    topics = (
        "history of the bicycle",
        "best hiking trails",
        "how to bake bread",
        "Rust async tutorial",
        "population of Iceland",
        "new science books",
        f"cheap flights to {around.city}",
        f"museums in {around.city}",
    )
    topic = rng.choice(topics)
    forms = (
        "Search for {topic}.",
        "Look up {topic}.",
        "Find information about {topic}.",
        "Search the web for {topic}.",
    )
    return Use(
        "search",
        {"query": topic},
        say(rng, forms, topic=topic),
        compact({"results": ["Result one", "Result two"]}),
        f"I found two results about {topic}: Result one and Result two.",
        "I should search the web.",
    )


def _read_file(rng: random.Random, _around: Surroundings) -> Use:
    path = rng.choice(FILES)
    forms = ("Read the file {path}.", "What is in {path}?", "Show me {path}.", "Open {path}.")
    asked = say(rng, forms, path=path)
    result = rng.choice(["buy milk", "hello world", "version 2", "empty"])
    return Use("read_file", {"path": path}, asked, result, None, f"I need to read {path}.")


def _list_files(rng: random.Random, _around: Surroundings) -> Use:
    path = rng.choice([".", "src", "docs", "/tmp", "photos", "data"])
    forms = (
        "List the files in {path}.",
        "Which files are in {path}?",
        "Show the content of the directory {path}.",
    )
    return Use(
        "list_files",
        {"path": path},
        say(rng, forms, path=path),
        "a.txt\nb.txt",
        f"The directory {path} contains a.txt and b.txt.",
        "I should list the files.",
    )


def _convert_currency(rng: random.Random, around: Surroundings) -> Use:
    source, target = rng.sample(["EUR", "USD", "GBP", "JPY", "CHF"], 2)
    values = {"amount": around.a, "source": source, "target": target}
    forms = (
        "Convert {amount} {source} to {target}.",
        "How much is {amount} {source} in {target}?",
        "What is {amount} {source} in {target}?",
    )
    return Use(
        "convert_currency",
        values,
        say(rng, forms, **values),
        compact({"result": around.b}),
        f"{around.a} {source} is {around.b} {target}.",
        "The user wants to convert money.",
    )


def _set_timer(rng: random.Random, _around: Surroundings) -> Use:
    minutes = rng.randint(1, 60)
    forms = (
        "Set a timer for {m} minutes.",
        "Start a timer of {m} minutes.",
        "Remind me in {m} minutes.",
    )
    return Use(
        "set_timer",
        {"minutes": minutes},
        say(rng, forms, m=minutes),
        "ok",
        f"The timer is set for {minutes} minutes.",
        "I should start a timer.",
    )


def _send_message(rng: random.Random, around: Surroundings) -> Use:
    name = around.name
    text = rng.choice(MESSAGES)
    forms = (
        "Tell {name}: {text}.",
        "Send {name} the message: {text}.",
        "Write to {name}: {text}.",
    )
    return Use(
        "send_message",
        {"to": name, "text": text},
        say(rng, forms, name=name, text=text),
        "sent",
        f"I sent the message to {name}.",
        f"I should send a message to {name}.",
    )


def _create_event(rng: random.Random, around: Surroundings) -> Use:
    titles = ("Dentist", "Team meeting", "Lunch", "Yoga", f"Call with {around.name}", "Dinner")
    title = rng.choice(titles)
    values = {"title": title, "day": rng.choice(WEEK), "hour": rng.randint(8, 20)}
    forms = (
        "Add {title} on {day} at {hour} to my calendar.",
        "Create an event: {title}, {day} at {hour}.",
        "Schedule {title} for {day} at {hour}.",
    )
    return Use(
        "create_event",
        values,
        say(rng, forms, **values),
        "created",
        "I added {title} on {day} at {hour}.".format(**values),
        "I should create a calendar event.",
    )


def _translate(rng: random.Random, _around: Surroundings) -> Use:
    word, language, translated = random_translation(rng)
    values = {"word": word, "language": language}
    forms = ("Translate {word} into {language}.", "What is {word} in {language}?")
    return Use(
        "translate",
        values,
        say(rng, forms, **values),
        translated,
        f"{upper_first(word)} in {language} is {translated}.",
        "I should use the translate tool.",
    )


def _play_music(rng: random.Random, _around: Surroundings) -> Use:
    artist = rng.choice(ARTISTS)
    forms = ("Play some {artist}.", "Play music by {artist}.", "I want to hear {artist}.")
    return Use(
        "play_music",
        {"artist": artist},
        say(rng, forms, artist=artist),
        "playing",
        f"Now playing {artist}.",
        f"The user wants to hear {artist}.",
    )


def _run_command(rng: random.Random, _around: Surroundings) -> Use:
    command = rng.choice(COMMANDS)
    forms = ("Run {command}.", "Run the command {command}.", "Execute {command}.")
    return Use(
        "run_command",
        {"command": command},
        say(rng, forms, command=command),
        "done",
        "The command has finished.",
        "I should run the command.",
    )


USES = {
    "get_weather": _get_weather,
    "get_time": _get_time,
    "calculate": _calculate,
    "add": _add,
    "search": _search,
    "read_file": _read_file,
    "list_files": _list_files,
    "convert_currency": _convert_currency,
    "set_timer": _set_timer,
    "send_message": _send_message,
    "create_event": _create_event,
    "translate": _translate,
    "play_music": _play_music,
    "run_command": _run_command,
}


def random_use(rng: random.Random) -> Use:
    """Return one use of one of our tools."""
    name = rng.choice(list(schemas()))
    words = data.table("words")
    city, person = rng.choice(words["cities"]), rng.choice(words["names"])
    around = Surroundings(city, person, rng.randint(2, 999), rng.randint(2, 999))
    return USES[name](rng, around)
