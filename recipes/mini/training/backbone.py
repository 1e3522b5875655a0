"""The first stage: the backbone with its Engram tables."""

import math
import sys
import time
from typing import NamedTuple

import torch
from model import backbone, blocks
from model.config import Config
from model.device import DEVICE
from model.engram import Hasher
from model.parameters import main_specs
from model.rope import RopeTable
from torch import Tensor

from training.budget import Budget, log
from training.data import BatchSource, Mix
from training.optimizer import Trainer

FIRST_MIX: Mix = (1.2, 1.3, 0.75, 0.75, 1.0)
LAST_MIX: Mix = (1.4, 1.6, 0.45, 0.5, 2.0)
QUANTIZE_FROM = 0.55
SEED = 0


class Trained(NamedTuple):
    """The backbone after training; `strength` is how far its caches are rounded."""

    trainer: Trainer
    bias: Tensor
    strength: Tensor


def _bias_rate(spent: float) -> float:
    """Return how far the router's bias moves a step."""
    if spent < 0.6:
        return 0.002
    return 0.0005 if spent < 0.97 else 0.0


def _report(step: int, loss: float, spent: float, tokens_a_second: float, loads: Tensor) -> None:
    imbalance = (loads.max(1).values / loads.mean(1)).mean().item()
    speed = f"{tokens_a_second / 1e3:.0f}k tokens a second"
    log(f"step {step} loss {loss:.4f} spent {spent:.3f} {speed}, imbalance {imbalance:.2f}")
    if not math.isfinite(loss):
        sys.exit("the loss is not finite")


def train(
    source: BatchSource,
    hasher: Hasher,
    ropes: tuple[RopeTable, RopeTable],
    budget: Budget,
    config: Config,
) -> Trained:
    """Train until the budget is spent; the last part takes the release's values."""
    trainer = Trainer(main_specs(config), SEED, quantized=False)
    weights = trainer.weights
    bias = torch.zeros(config.layers, config.experts, device=DEVICE)
    strength = torch.zeros((), device=DEVICE)
    step, spent, reported, clock = 0, 0.0, 0, time.time()
    while spent < 1:
        ids = source.next()
        given, targets = ids[:, :-1].contiguous(), ids[:, 1:].reshape(-1)
        done = backbone.forward(weights, bias, given, hasher(given), strength, ropes, config)
        loss = blocks.next_token_loss(done.x, done.pre, weights["norm"], weights["head"], targets)
        loads = done.loads
        del done
        loss.backward()
        trainer.step(budget.rate(step, spent, flat=0.45, floor=0.02))
        bias += _bias_rate(spent) * torch.sign(loads.mean(1, keepdim=True) - loads)
        step += 1
        spent = budget.spent(step)
        if spent > QUANTIZE_FROM and not trainer.quantized:
            trainer.quantized = True
            strength.fill_(1.0)
            source.set_mix(LAST_MIX)
            log(f"step {step}: quantized from here on, mix {LAST_MIX}")
        if step in (1, 20, 50) or step % 100 == 0 or spent >= 1:
            now = time.time()
            speed = (step - reported) * targets.numel() / (now - clock)
            reported, clock = step, now
            _report(step, loss.item(), spent, speed, loads)
    log(f"backbone: {step} steps, {step * targets.numel() / 1e6:.1f} M tokens")
    return Trained(trainer, bias, strength)
