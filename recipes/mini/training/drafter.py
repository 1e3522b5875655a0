"""The second stage: the drafter and the indexer, against the frozen backbone."""

from typing import NamedTuple

import torch
from model import backbone, drafter, indexer
from model.blocks import hyper_read, rms_norm
from model.config import Config
from model.device import DEVICE
from model.engram import Hasher
from model.parameters import Tensors, draft_specs, index_specs
from model.rope import RopeTable
from torch import Tensor

from training.backbone import Trained
from training.budget import Budget, log
from training.data import BatchSource, Mix
from training.optimizer import Trainer

DRAFT_MIX: Mix = (1.4, 1.5, 0.6, 0.6, 1.2)
SEED, ANCHOR_SEED = 7, 3
INDEX_EVERY = 3
INDEX_WEIGHT = 0.3


class Observed(NamedTuple):
    """What the frozen backbone shows: normed rows [T, D], taps [T, taps * D], index inputs."""

    hidden: Tensor
    taps: Tensor
    index: dict[int, backbone.IndexInputs]


class Frozen:
    """The trained backbone as a function of ids."""

    def __init__(
        self, trained: Trained, hasher: Hasher, ropes: tuple[RopeTable, RopeTable], config: Config
    ) -> None:
        """Take the rope tables of S positions."""
        self.weights = trained.trainer.weights
        self.bias, self.strength = trained.bias, trained.strength
        self.config = config
        self._hasher, self._ropes = hasher, ropes

    def observe(self, ids: Tensor) -> Observed:
        """Run ids [B, S].

        Gradients stay on: so the functions that training compiled are used again.
        """
        done = backbone.forward(
            self.weights,
            self.bias,
            ids,
            self._hasher(ids),
            self.strength,
            self._ropes,
            self.config,
            observe=True,
        )
        hidden = rms_norm(hyper_read(done.x, done.pre), self.weights["norm"]).detach()
        return Observed(hidden, torch.cat([tap.detach() for tap in done.taps], -1), done.index)


def without_prefix(weights: Tensors, prefix: str) -> Tensors:
    """Return the tensors whose names start with a prefix, named without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in weights.items()
        if name.startswith(prefix)
    }


def _report(step: int, loss: drafter.DraftLoss, spent: float, by_layer: dict[int, Tensor]) -> None:
    prefix = loss.agrees.cumprod(1).mean(0)
    log(
        f"drafter {step} loss {loss.loss.item():.4f} cross-entropy {loss.cross_entropy.item():.3f}",
        f"confidence {loss.confidence.item():.3f} spent {spent:.2f}",
        f"acceptance {[round(value, 3) for value in loss.acceptance.tolist()]}",
        f"greedy prefix {[round(value, 3) for value in prefix.tolist()]}",
        f"index {[round(value.item(), 3) for value in by_layer.values()]}",
    )


def train(
    source: BatchSource,
    frozen: Frozen,
    ropes: tuple[RopeTable, RopeTable],
    budget: Budget,
    anchors_a_row: int,
) -> tuple[Trainer, Tensor]:
    """Train until the budget is spent; ropes reach a block beyond S positions.

    Returns the trainer and the routers' bias [blocks, E].
    """
    config = frozen.config
    embed, head = frozen.weights["embed"].detach(), frozen.weights["head"].detach()
    trainer = Trainer(draft_specs(config) | index_specs(config), SEED, True, muon_rate=4e-3)
    bias = torch.zeros(config.draft_blocks, config.draft_experts, device=DEVICE)
    within = torch.arange(config.draft_block, device=DEVICE)
    weights = torch.exp(-within.float() / config.draft_block)
    generator = torch.Generator().manual_seed(ANCHOR_SEED)
    source.set_mix(DRAFT_MIX)
    step, spent, by_layer = 0, 0.0, {}
    while spent < 1:
        ids = source.next()
        given = ids[:, :-1].contiguous()
        batch, length = given.shape
        seen = frozen.observe(given)
        draws = torch.rand(batch, anchors_a_row, generator=generator)
        anchors = (draws * (length - config.draft_block - 2)).long().add(1).to(DEVICE)
        positions = (anchors[:, :, None] + within).reshape(batch, -1)
        parameters = without_prefix(trainer.weights, "draft_")
        x, pre, loads = drafter.forward(
            parameters,
            embed,
            bias,
            given,
            seen.taps,
            anchors,
            frozen.strength,
            ropes[0],
            config,
        )
        tokens = (ids.gather(1, positions).reshape(-1), ids.gather(1, positions + 1).reshape(-1))
        at = positions[:, :, None].expand(-1, -1, config.hidden)
        hidden = seen.hidden.view(batch, length, -1).gather(1, at).reshape(-1, config.hidden)
        repeated = weights.repeat(batch * anchors_a_row)
        loss = drafter.loss(x, pre, parameters, head, tokens, hidden, repeated, config)
        total = loss.loss
        if step % INDEX_EVERY == 0:
            long_rope = (ropes[1][0][:length], ropes[1][1][:length])
            index_weights = {
                name: value for name, value in trainer.weights.items() if name.startswith("index_")
            }
            divergence, by_layer = indexer.loss(
                index_weights, seen.index, length, long_rope, config
            )
            total = total + INDEX_WEIGHT * divergence
        total.backward()
        del seen
        trainer.step(budget.rate(step, spent, flat=0.35, floor=0.01))
        rate = 0.002 if spent < 0.7 else 0.0
        bias += rate * torch.sign(loads.mean(1, keepdim=True) - loads)
        step += 1
        spent = budget.spent(step)
        if step in (1, 10, 30) or step % 100 == 0 or spent >= 1:
            _report(step, loss, spent, by_layer)
    return trainer, bias
