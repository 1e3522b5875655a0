"""How many drafts are accepted on held-out prompts, greedily and when sampling.

Draws are keyed by seed, position and token, for drafter and backbone alike; a draft is accepted
when it equals the backbone's own draw.
"""

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from model import drafter
from model.blocks import hyper_read, rms_norm
from model.config import END_ID, Config
from model.device import DEVICE
from model.parameters import Tensors
from model.rope import RopeTable
from torch import Tensor

from training.budget import log
from training.data import DOMAINS, Documents, padded
from training.drafter import Frozen

CHAT_DOMAINS = 2
PLAIN_PROMPT = 200
FIRST_SEED = 1000


class Prompt(NamedTuple):
    """The first ids of a held-out document, and the number of its domain."""

    ids: np.ndarray
    domain: int


class Drafts(NamedTuple):
    """Drafts and confidences at each generated token: [prompts, tokens, block]."""

    ids: np.ndarray
    confidence: np.ndarray


class DraftModel(NamedTuple):
    """The trained drafter: parameters without prefix, routers' bias, and its rope table."""

    weights: Tensors
    bias: Tensor
    rope: RopeTable


def gumbel(seeds: Tensor, positions: Tensor, vocab: int) -> Tensor:
    """Return Gumbel noise [..., vocab] for int64 seeds and positions of one shape [...].

    It is -ln(-ln u) with u made from seed, position and token by a 32-bit hash.
    """
    mask = 0xFFFFFFFF
    tokens = torch.arange(vocab, device=positions.device)
    x = seeds[..., None] * 0xC2B2AE3D + positions[..., None] * 0x85EBCA77 + tokens * 0x9E3779B1
    x = x & mask
    x = x ^ (x >> 16)
    x = (x * 0x7FEB352D) & mask
    x = x ^ (x >> 15)
    x = (x * 0x46A63B15) & mask
    x = x ^ (x >> 16)
    return -torch.log(-torch.log((x.double() + 0.5) / 4294967296.0)).float()


def prompts(
    documents: Documents, config: Config, count: int, length: int, new: int
) -> list[Prompt]:
    """Cut `count` documents of each domain where an answer starts, or else in their middle."""
    think, think_end = config.control_id("<think>"), config.control_id("</think>")
    found = []
    for domain in range(4):
        for ids in documents.of_domain(domain, length + 1)[:count]:
            cut = min(len(ids) // 2, PLAIN_PROMPT)
            if domain < CHAT_DOMAINS:
                ends = np.flatnonzero(ids == think_end)
                cut = ends[0] + 1 if len(ends) else cut
                opens = np.flatnonzero(ids[:cut] == think)
                cut = opens[0] + 1 if len(opens) else cut
            found.append(Prompt(ids[: max(2, min(cut, length - new - 8))], domain))
    return found


class Measurement:
    """Generates from prompts and drafts at every token of what was generated."""

    def __init__(
        self, frozen: Frozen, draft: DraftModel, batch: int, length: int, new: int, anchors: int
    ) -> None:
        """Take the shapes of training, so that nothing is compiled again."""
        self._frozen, self._draft = frozen, draft
        self._batch, self._length, self._new, self._anchors = batch, length, new, anchors
        self._rows = torch.arange(batch, device=DEVICE)

    def _noise(self, rows: Tensor, positions: Tensor, temperature: float) -> Tensor | float:
        if temperature == 0:
            return 0.0
        return gumbel(rows + FIRST_SEED, positions, self._frozen.config.vocab)

    def _generate(self, given: list[Prompt], temperature: float) -> tuple[Tensor, Tensor]:
        """Return ids [batch, length] with `new` tokens after each prompt, and prompts' lengths."""
        ids = padded([prompt.ids for prompt in given], self._batch, self._length)
        ends = [len(prompt.ids) for prompt in given] + [2] * (self._batch - len(given))
        ends = torch.tensor(ends, device=DEVICE)
        scale = 1 / temperature if temperature > 0 else 1.0
        for step in range(self._new):
            hidden = self._frozen.observe(ids).hidden.view(self._batch, self._length, -1)
            last = hidden[self._rows, ends + step - 1]
            logits = F.linear(last, self._frozen.weights["head"]).float() * scale
            logits = logits + self._noise(self._rows, ends + step, temperature)
            ids[self._rows, ends + step] = logits.argmax(-1)
        return ids, ends

    def _drafts(self, ids: Tensor, ends: Tensor, temperature: float) -> Drafts:
        """Draft after every generated token but the last."""
        taps = self._frozen.observe(ids).taps
        anchors = ends[:, None] + torch.arange(self._new - 1, device=DEVICE)[None]
        found, confidences = [], []
        for start in range(0, self._new - 1, self._anchors):
            chosen = anchors[:, start : start + self._anchors]
            width = chosen.shape[1]
            filler = chosen[:, -1:].expand(-1, self._anchors - width)
            chosen = torch.cat([chosen, filler], 1).contiguous()
            drafts, confidence = self._blocks(ids, taps, chosen, temperature)
            found.append(drafts[:, :width].cpu())
            confidences.append(confidence[:, :width].cpu())
        return Drafts(torch.cat(found, 1).numpy(), torch.cat(confidences, 1).numpy())

    def _blocks(
        self, ids: Tensor, taps: Tensor, anchors: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """Return drafts and confidences [batch, A, block] at anchors [batch, A]."""
        frozen, draft, config = self._frozen, self._draft, self._frozen.config
        x, pre, _ = drafter.forward(
            draft.weights,
            frozen.weights["embed"].detach(),
            draft.bias,
            ids,
            taps,
            anchors,
            frozen.strength,
            draft.rope,
            config,
        )
        block, vocab = config.draft_block, config.vocab
        hidden = hyper_read(x, pre)
        base = F.linear(rms_norm(hidden, draft.weights["norm"]), frozen.weights["head"]).float()
        base, hidden = base.view(-1, block, vocab), hidden.view(-1, block, config.hidden)
        rows = self._rows[:, None].expand(-1, anchors.shape[1]).reshape(-1)
        scale = 1 / temperature if temperature > 0 else 1.0
        previous = ids.gather(1, anchors).reshape(-1)
        drafts, confidences = [], []
        for j in range(block):
            markov = F.embedding(previous, draft.weights["markov_embed"])
            both = torch.cat([hidden[:, j], markov], -1).float()
            confidence = F.linear(both, draft.weights["confidence"].float())
            confidences.append(torch.sigmoid(confidence).squeeze(-1))
            logits = base[:, j] + F.linear(markov, draft.weights["markov_head"]).float()
            noise = self._noise(rows, (anchors + 1 + j).reshape(-1), temperature)
            previous = (logits * scale + noise).argmax(-1)
            drafts.append(previous)
        shape = (*anchors.shape, block)
        return torch.stack(drafts, 1).view(shape), torch.stack(confidences, 1).view(shape)

    @torch.no_grad()
    def run(self, given: list[Prompt], temperature: float) -> dict[str, list[int]]:
        """Return the accepted drafts of every round by domain, and log them."""
        ids, ends = self._generate(given, temperature)
        drafts = self._drafts(ids, ends, temperature)
        generated = ids.cpu().numpy()
        by_domain: dict[str, list[int]] = {}
        pairs: list[tuple[float, bool]] = []
        for i, prompt in enumerate(given):
            first = len(prompt.ids)
            new = generated[i, first : first + self._new]
            stops = np.flatnonzero(new == END_ID)
            new = new[: stops[0] + 1] if len(stops) else new
            accepted, judged = rounds(new, drafts.ids[i], drafts.confidence[i])
            by_domain.setdefault(DOMAINS[prompt.domain], []).extend(accepted)
            pairs += judged
        self._report(by_domain, temperature)
        _report_confidence(np.array(pairs))
        return by_domain

    def _report(self, by_domain: dict[str, list[int]], temperature: float) -> None:
        for domain, accepted in by_domain.items():
            if accepted:
                counts = np.array(accepted)
                block = self._frozen.config.draft_block
                shares = [round(float((counts > k).mean()), 3) for k in range(block)]
                log(
                    f"temperature {temperature} {domain}: {len(accepted)} rounds,",
                    f"{counts.mean():.3f} drafts accepted a round, shares {shares}",
                )


def rounds(
    new: np.ndarray, drafts: np.ndarray, confidence: np.ndarray
) -> tuple[list[int], list[tuple[float, bool]]]:
    """Replay the rounds of one reply.

    `new` are its ids [n]; `drafts` and `confidence` [n - 1, block] what was drafted after each.
    Returns the accepted drafts of each round, and for each draft its confidence and whether it and
    those before it were accepted.
    """
    at, accepted, judged = 0, [], []
    while at + 1 < len(new):
        follows = new[at + 1 : at + 1 + drafts.shape[1]]
        equal = drafts[at, : len(follows)] == follows
        count = len(follows) if equal.all() else int(equal.argmin())
        judged += [(float(confidence[at, k]), k < count) for k in range(len(follows))]
        accepted.append(count)
        at += count + 1
    return accepted, judged


def _report_confidence(pairs: np.ndarray) -> None:
    """Log how often drafts of similar confidence were accepted; pairs are [drafts, 2]."""
    for low in np.arange(0, 1, 0.2):
        inside = (pairs[:, 0] >= low) & (pairs[:, 0] < low + 0.2)
        if inside.any():
            share = pairs[inside, 1].mean()
            log(f"confidence {low:.1f} to {low + 0.2:.1f}: {inside.sum()} drafts, {share:.3f}")
