"""Tool calls with schemas, written in DSML."""

import json

from corpus.own import tools
from corpus.own.dialogues import Turn
from corpus.repositories import Repositories
from corpus.writer import Writer

FOLDER = "berkeley-function-call-leaderboard/bfcl_eval/data"
PARTS = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
)
JSON_TYPES = {"dict": "object", "float": "number", "tuple": "array"}


def berkeley_function_calling(writer: Writer, repositories: Repositories) -> None:
    """Add the Berkeley Function Calling Leaderboard (gorilla), UC Berkeley, Apache-2.0."""
    for part in PARTS:
        tasks = _records(repositories, f"{FOLDER}/BFCL_v4_{part}.json")
        answers = _records(repositories, f"{FOLDER}/possible_answer/BFCL_v4_{part}.json")
        truth = {answer["id"]: answer["ground_truth"] for answer in answers}
        for task in tasks:
            _task(writer, task, truth.get(task["id"]))


def _records(repositories: Repositories, path: str) -> list[dict]:
    """Read a file of JSON lines."""
    text = repositories.show("ShishirPatil/gorilla", path).decode()
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _json_types(schema: dict) -> dict:
    """Replace Python's names of types by those of JSON schema."""
    text = json.dumps(schema)
    for python, name in JSON_TYPES.items():
        text = text.replace(f'"type": "{python}"', f'"type": "{name}"')
    return json.loads(text)


def _invocations(truth: list[dict]) -> list[str] | None:
    """Write the expected calls by the first accepted values; none if a call has no argument."""
    calls = []
    for call in truth:
        for name, accepted in call.items():
            given = {key: values[0] for key, values in accepted.items() if values}
            arguments = {str(key): value for key, value in given.items() if value != ""}
            if not arguments:
                return None
            calls.append(tools.invocation(name, arguments))
    return calls or None


def _task(writer: Writer, task: dict, truth: list[dict] | None) -> None:
    """Write one task as a conversation, if it is short enough."""
    schemas = [_json_types(schema) for schema in task["function"]]
    listed = "\n".join(tools.compact(schema) for schema in schemas[:4])
    asked = [turn["content"] for turn in task["question"][0] if turn["role"] == "user"]
    too_long = len(schemas) > 4 or len(listed) > 2600
    if truth is None or too_long or not asked or len(asked[-1]) > 700:
        return
    calls = _invocations(truth)
    if calls is None:
        return
    thinking = writer.rng.random() < 0.2
    thought = f"I should call {next(iter(truth[0]))}." if thinking else None
    turn = Turn(asked[-1], thought, tools.block(calls))
    system = f"\n\n{tools.preamble(listed)}"
    writer.dialogue("BFCL", [turn], system=system, thinking=thinking)
