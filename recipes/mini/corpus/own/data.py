"""The hand-written material in `data/`, loaded once."""

import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("data")


@cache
def lines(name: str) -> list[dict[str, Any]]:
    """Return the records of `data/<name>.jsonl`, in the order of the file."""
    text = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@cache
def table(name: str) -> dict[str, Any]:
    """Return the object of `data/<name>.json`, keys in the order of the file."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
