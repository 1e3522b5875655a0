"""Documents in the model's own format.

Each is a line of JSON: `d` the domain (chat, code-chat, code, prose, own), `s` the source, `t` the
text with its control tokens.
"""

import hashlib
import json
import random
import re
from collections.abc import Sequence
from pathlib import Path

from corpus.own.dialogues import Turn

BEGIN, END = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"
USER, ASSISTANT, SYSTEM = "<｜User｜>", "<｜Assistant｜>", "<｜System｜>"
THINK, THINK_END = "<think>", "</think>"

CONTROL = re.compile(r"<｜[^｜]{1,40}｜>|</?think>")
SYSTEM_PROMPTS = (
    "You are a helpful assistant.",
    "You are a helpful assistant. Answer briefly.",
    "You are a friendly and careful assistant.",
    "You are a coding assistant.",
)
THOUGHTS = (
    "The user asks a simple question. I can answer it directly.",
    "Let me think about what is needed. A short and clear answer is best.",
    "I should give a direct and correct answer.",
    "The user wants a clear answer. I will keep it short.",
)
EFFORT = (
    "Reasoning Effort: {} (range 1-100, the higher the value, the more thorough the reasoning)\n\n"
)
SHORTEST_PLAIN = 200


def mostly_latin(text: str) -> bool:
    """Return whether at most one character in fifty is beyond the Latin letters."""
    return sum(c > "\u024f" for c in text) <= 0.02 * max(1, len(text))


class Writer:
    """Writes documents and keeps count; all random choices of the corpus draw from its `rng`."""

    def __init__(self, path: Path, seed: int = 1) -> None:
        """Open the file to write."""
        self.rng = random.Random(seed)
        self.stats: dict[tuple[str, str], list[int]] = {}
        self._file = path.open("w", encoding="utf-8")
        self._seen: set[bytes] = set()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def emit(self, domain: str, source: str, text: str) -> None:
        """Write a document unless it was written before; own text may come again."""
        raw = text.encode("utf-8", "ignore")
        digest = hashlib.md5(raw, usedforsecurity=False).digest()
        if digest in self._seen and not (source.startswith("own") and self.rng.random() < 0.35):
            return
        self._seen.add(digest)
        record = {"d": domain, "s": source, "t": text}
        self._file.write(json.dumps(record, ensure_ascii=False) + "\n")
        count = self.stats.setdefault((domain, source), [0, 0])
        count[0] += 1
        count[1] += len(raw)

    def plain(self, domain: str, source: str, text: str) -> None:
        """Write a running text, if it is long enough."""
        text = CONTROL.sub("", text).strip()
        if len(text) > SHORTEST_PLAIN:
            self.emit(domain, source, BEGIN + text + END)

    def chat(
        self,
        source: str,
        pairs: Sequence[tuple[str, str]],
        *,
        domain: str = "chat",
        reasoning: str | None = None,
        system_rate: float = 0.15,
    ) -> None:
        """Write a conversation of questions and answers.

        `reasoning` comes before the last answer; a few single pairs get a short thought.
        `system_rate` is how often a system prompt is put in front.
        """
        turns = [Turn(_clean(user), None, _clean(answer)) for user, answer in pairs]
        thinking = reasoning is not None
        if reasoning is not None:
            turns[-1] = turns[-1]._replace(reasoning=reasoning)
        elif len(turns) == 1 and self.rng.random() < 0.06:
            turns = [turns[0]._replace(reasoning=self.rng.choice(THOUGHTS))]
            thinking = True
        self.dialogue(
            source, turns, domain=domain, system=None, thinking=thinking, system_rate=system_rate
        )

    def dialogue(
        self,
        source: str,
        turns: Sequence[Turn],
        *,
        domain: str = "chat",
        system: str | None,
        thinking: bool,
        system_rate: float = 0.15,
    ) -> None:
        """Write a conversation as it is; one with an empty turn is left out."""
        rng = self.rng
        if system is None:
            system = rng.choice(SYSTEM_PROMPTS) if rng.random() < system_rate else ""
        if thinking and rng.random() < 0.75:
            system = EFFORT.format(rng.choice([75, 75, 75, 50, 100])) + system
        text = BEGIN + (SYSTEM + system if system else "")
        for user, reasoning, answer in turns:
            if not user or not answer:
                return
            thought = THINK_END if reasoning is None else THINK + reasoning + THINK_END
            text += USER + user + ASSISTANT + thought + answer + END
        self.emit(domain, source, text)


def _clean(text: str) -> str:
    """Take control tokens and outer white space away."""
    return CONTROL.sub("", text).strip()
