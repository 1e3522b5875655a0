"""Greedy text of a release by the training form of the model, in f32 with rounded caches.

`python greedy.py FOLDER` checks the recorded replies of `FOLDER/golden.json` (with `--config` for
another size): how many tokens agree before the first that differs.
"""

import argparse
import json
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from model import backbone
from model.blocks import hyper_read, rms_norm
from model.config import END_ID, PAD_ID, Config
from model.engram import Hasher, token_map
from model.rope import rope_table
from release.load import read_tensors, working_tensors
from tokenizers import Tokenizer
from torch import Tensor
from training.run import CONFIGS


class Step(NamedTuple):
    """A token, and by how much its logit leads the next."""

    token: int
    margin: float


class Greedy:
    """A release, run over whole sequences without a cache."""

    def __init__(self, folder: Path, config: Config) -> None:
        """Load a folder in the release layout."""
        self.config = config
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._loaded = working_tensors(read_tensors(folder), config)
        classes, count = token_map(self.tokenizer)
        self._hasher = Hasher(config, classes, count)

    @torch.no_grad()
    def logits(self, ids: list[int]) -> Tensor:
        """Return logits [len(ids), V]."""
        length = len(ids) + len(ids) % 2
        batch = torch.tensor([ids + [PAD_ID] * (length - len(ids))])
        ropes = tuple(rope_table(self.config, length, far) for far in (False, True))
        weights = self._loaded.weights
        done = backbone.forward(
            weights,
            self._loaded.bias,
            batch,
            self._hasher(batch),
            torch.tensor(1.0),
            ropes,
            self.config,
        )
        hidden = rms_norm(hyper_read(done.x, done.pre), weights["norm"])
        return F.linear(hidden[: len(ids)], weights["head"])

    def follow(self, prompt: list[int], reply: list[int]) -> list[Step]:
        """Return the likeliest token at each place of a reply, given the tokens before."""
        values, tokens = self.logits(prompt + reply)[len(prompt) - 1 : -1].topk(2, -1)
        margins = (values[:, 0] - values[:, 1]).tolist()
        return [Step(*step) for step in zip(tokens[:, 0].tolist(), margins, strict=True)]

    def generate(self, prompt: list[int], count: int) -> list[Step]:
        """Return at most `count` tokens after a prompt, up to the end token."""
        ids, steps = list(prompt), []
        while len(steps) < count and ids[-1] != END_ID:
            values, tokens = self.logits(ids)[-1].topk(2)
            steps.append(Step(int(tokens[0]), float(values[0] - values[1])))
            ids.append(steps[-1].token)
        return steps


def main() -> None:
    """Read the arguments and compare."""
    parser = argparse.ArgumentParser(description="Check the recorded replies of a release.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--config", choices=CONFIGS, default="mini")
    arguments = parser.parse_args()
    greedy = Greedy(arguments.folder, CONFIGS[arguments.config])
    golden = json.loads((arguments.folder / "golden.json").read_text(encoding="utf-8"))
    whole = 0
    for case in golden:
        reply = case["greedy_ids"]
        steps = greedy.follow(case["prompt_ids"], reply)
        differs = [step.token != token for step, token in zip(steps, reply, strict=True)]
        agrees = differs.index(True) if any(differs) else len(reply)
        whole += agrees == len(reply)
        print(f"{agrees} of {len(reply)} tokens agree: {case['prompt'][-60:]!r}")
    print(f"{whole} of {len(golden)} replies agree whole")


if __name__ == "__main__":
    main()
