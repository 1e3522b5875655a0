"""Run the whole recipe at a far smaller size on a CPU: `python smoke.py --out FOLDER`.

Trains a tokenizer and a model on a few texts of this repository, exports it in the release layout,
and records greedy tokens of the training form in `FOLDER/golden.json`, for a reader of the layout
to be compared with.
"""

import argparse
import json
import tempfile
from pathlib import Path

import encode
import pack
import torch
from corpus.writer import BEGIN, END
from greedy import Greedy
from model.config import SMOKE
from training import run
from training.data import DOMAINS

import tokenizer

REPOSITORY = Path(__file__).resolve().parents[2]
# Texts that do not change, so that every run trains the same model.
TEXTS = ("LICENSE-APACHE", "LICENSE-MIT")
PROMPT = "the copyright owner"
PIECE = 300
NEW_TOKENS = 24
# Below this lead, rounding decides between two tokens.
CLEAR_MARGIN = 0.02


def documents() -> list[dict]:
    """Cut the texts into pieces, as documents of all domains in turn."""
    pieces = []
    for name in TEXTS:
        text = (REPOSITORY / name).read_text(encoding="utf-8")
        pieces += [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
    return [
        {"d": DOMAINS[number % len(DOMAINS)], "s": "own", "t": f"{BEGIN}{piece}{END}"}
        for number, piece in enumerate(pieces)
    ]


def make_data(folder: Path, out: Path) -> None:
    """Train the tokenizer into `out`, and pack the texts into a data folder."""
    found = documents()
    plain = (document["t"].replace(BEGIN, "").replace(END, "") for document in found)
    trained = tokenizer.train(plain, SMOKE.vocab)
    tokenizer.write(trained, out, SMOKE.max_context)
    training, held = encode.split(found, trained, held_a_domain=1)
    pack.write(folder, training, held, trained)


def record(out: Path) -> None:
    """Write greedy tokens after the prompt, up to the first that is not clear."""
    greedy = Greedy(out, SMOKE)
    prompt = greedy.tokenizer.encode(PROMPT, add_special_tokens=False).ids
    steps = greedy.generate(prompt, NEW_TOKENS)
    unclear = [number for number, step in enumerate(steps) if step.margin < CLEAR_MARGIN]
    clear = [step.token for step in steps[: unclear[0] if unclear else len(steps)]]
    golden = {
        "prompt": PROMPT,
        "prompt_ids": prompt,
        "greedy_ids": clear,
        "text": greedy.tokenizer.decode(clear, skip_special_tokens=False),
    }
    content = json.dumps([golden], ensure_ascii=False, indent=1)
    (out / "golden.json").write_text(content, encoding="utf-8")
    print(f"{PROMPT!r} goes on: {golden['text']!r} ({len(clear)} clear tokens)")


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description="Run the recipe at a tiny size.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=40, help="steps of each stage")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as data:
        make_data(Path(data), arguments.out)
        options = ["--config", "smoke", "--data", data, "--out", str(arguments.out)]
        options += ["--batch", "4", "--length", "128", "--anchors", "4", "--pool", "1"]
        options += ["--steps", str(arguments.steps), "--rising", "4", "--draft-rising", "4"]
        options += ["--new-tokens", "0"]
        run.main(options)
    record(arguments.out)


if __name__ == "__main__":
    main()
