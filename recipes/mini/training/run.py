"""Train, measure and export: `python -m training.run --help`."""

import argparse
from pathlib import Path

import torch
from model.config import MINI, SMOKE, Config
from model.device import DEVICE
from model.engram import Hasher
from model.rope import rope_table
from release.export import export, export_main, write_shards
from release.layout import write_config, write_generation_config

from training import acceptance, backbone, drafter, held_out
from training.acceptance import DraftModel, Measurement
from training.budget import Budget, log
from training.data import POOL_BATCHES, BatchSource, load
from training.drafter import Frozen, without_prefix

CONFIGS = {"mini": MINI, "smoke": SMOKE}


def parse(options: list[str] | None) -> argparse.Namespace:
    """Read the options; none are those of the command line."""
    parser = argparse.ArgumentParser(description="Train the mini model.")
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--config", choices=CONFIGS, default="mini")
    parser.add_argument("--batch", type=int, default=64, help="sequences a batch")
    parser.add_argument("--length", type=int, default=1024, help="tokens a sequence")
    parser.add_argument("--anchors", type=int, default=48, help="drafter blocks a sequence")
    parser.add_argument("--seconds", type=float, default=635, help="training of the backbone")
    parser.add_argument("--draft-seconds", type=float, default=285, help="training of the drafter")
    parser.add_argument("--steps", type=int, help="steps of each stage, instead of seconds")
    parser.add_argument("--rising", type=int, default=150, help="steps in which rates rise")
    parser.add_argument("--draft-rising", type=int, default=60)
    parser.add_argument("--pool", type=int, default=POOL_BATCHES, help="batches shuffled together")
    parser.add_argument("--new-tokens", type=int, default=128, help="0 measures no acceptance")
    return parser.parse_args(options)


def measure(
    arguments: argparse.Namespace, frozen: Frozen, draft: DraftModel, documents: held_out.Documents
) -> None:
    """Measure acceptance greedily and at two temperatures."""
    batch, length, new = arguments.batch, arguments.length, arguments.new_tokens
    measurement = Measurement(frozen, draft, batch, length, new, arguments.anchors)
    given = acceptance.prompts(documents, frozen.config, batch // 4, length, new)
    for temperature in (0.0, 1.0, 0.7):
        measurement.run(given, temperature)


def run(arguments: argparse.Namespace, config: Config) -> None:
    """Train both stages and write the release to `--out`; the backbone is written before."""
    torch.backends.cuda.matmul.allow_tf32 = True
    data = load(arguments.data)
    log(f"data: {data.training.ids.size} tokens, {len(data.training.lengths)} documents")
    batch, length = arguments.batch, arguments.length
    source = BatchSource(data.training, backbone.FIRST_MIX, batch, length, arguments.pool)
    hasher = Hasher(config, data.token_map, data.compressed_vocab)
    ropes = tuple(rope_table(config, length + 8, long_range) for long_range in (False, True))
    exact = tuple((cos[:length].contiguous(), sin[:length].contiguous()) for cos, sin in ropes)
    budget = Budget(arguments.seconds, arguments.rising, arguments.steps)
    trained = backbone.train(source, hasher, exact, budget, config)
    masters, bias = trained.trainer.exported(), trained.bias.cpu()
    write_shards(arguments.out / "backbone", export_main(masters, bias, config))
    frozen = Frozen(trained, hasher, exact, config)
    held_out.losses(frozen, data.held_out, batch, length)
    rising = arguments.draft_rising
    budget = Budget(arguments.draft_seconds, rising, arguments.steps, compile_steps=4)
    trainer, draft_bias = drafter.train(source, frozen, ropes, budget, arguments.anchors)
    tensors = export(masters | trainer.exported(), bias, draft_bias.cpu(), config)
    size = write_shards(arguments.out, tensors)
    write_config(arguments.out, config, data.compressed_vocab)
    write_generation_config(arguments.out)
    log(f"exported {len(tensors)} tensors, {size / 1e6:.1f} MB, to {arguments.out}")
    if arguments.new_tokens:
        weights = without_prefix(trainer.weights, "draft_")
        measure(arguments, frozen, DraftModel(weights, draft_bias, ropes[0]), data.held_out)


def main(options: list[str] | None = None) -> None:
    """Read the options and run."""
    arguments = parse(options)
    log(f"training on {DEVICE}")
    run(arguments, CONFIGS[arguments.config])


if __name__ == "__main__":
    main()
